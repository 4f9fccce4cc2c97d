"""The page of benchmarks: what the results say, those that miss included."""

import importlib.util

import pytest

from .pages import ROOT

HEAD = "date,commit,machine,python,problem,contender,wall_p20_s,wall_p50_s,wall_p80_s\n"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("gen_bench", ROOT / "tools/gen_benchmarks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(problem, contender, seconds):
    return f"2026-02-03T04:05:06,abc,Fast CPU x2,3.11.7,{problem},{contender},1,{seconds},1\n"


def test_slower_problems_are_listed_worst_first(generator, tmp_path):
    times = {
        "small": (5e-6, 4e-6),
        "even": (1.03e-6, 1e-6),
        "large": (1e-3, 2e-3),
        "odd | size": (9e-6, 3e-6),
    }
    text = HEAD + "".join(
        line(name, "trnblas", ours) + line(name, "mm", theirs)
        for name, (ours, theirs) in times.items()
    )
    (tmp_path / "blas.csv").write_text(text)
    page = generator.page(tmp_path)
    assert "2026-02-03 at abc on Fast CPU x2, Python 3.11.7: of 4 problems 1 as fast" in page
    assert "faster, 1 slower by less than 5%, 2 slower by more; the median ratio is 1.14" in page
    rows = [row for row in page.splitlines() if row.endswith("µs |")]
    assert rows == [
        r"| odd \| size | 9 µs | 3 µs (mm) | 3.00 | +6 µs |",
        "| small | 5 µs | 4 µs (mm) | 1.25 | +1 µs |",
    ]
    assert "- trnfft: nothing is recorded yet; `trnsci bench fft` does it." in page


def test_the_page_of_the_kept_results_names_every_library(generator):
    page = generator.page(generator.RESULTS)
    assert [name for name in generator.LIBRARIES if name not in page] == []
    files = {name for names in generator.LIBRARIES.values() for name in names}
    assert {path.stem for path in generator.RESULTS.glob("*.csv")} <= files
    assert page.count("<svg") == page.count("</svg>") > 3
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
