"""nkisim profile --compare: what changed, from files and from saved profiles."""

import json

import click
import pytest
from click.testing import CliRunner

from nkisim.cli import commands
from nkisim.profiling.changes import comparison_of, line_changes

KERNEL = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(0, 512, STEP):
        tile = nl.ndarray((128, STEP), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, i : i + STEP])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, i : i + STEP], src=tile)
    return out
"""


@pytest.fixture
def files(tmp_path):
    """Return the same kernel with small and with large tiles."""
    for name, step in (("small", 64), ("large", 256)):
        (tmp_path / f"{name}.py").write_text(KERNEL.replace("STEP", str(step)))
    return tmp_path / "small.py", tmp_path / "large.py"


def run(*arguments):
    call = ["profile", *map(str, arguments), "--shapes", "x=f32[128,512]"]
    done = CliRunner().invoke(commands, call, standalone_mode=False)
    if isinstance(done.exception, click.ClickException):
        return done.exception.exit_code, done.stdout, done.exception.format_message()
    assert done.exception is None, repr(done.exception)
    return done.return_value, done.stdout, done.stderr


def saved(file):
    status, _, _ = run(file, "--format", "json", "--output", file.with_suffix(".json"))
    assert status == 0
    return file.with_suffix(".json")


def test_engines_and_lines(files):
    before, after = (json.loads(saved(f).read_text())["profiles"][0] for f in files)
    status, text, _ = run("--compare", *files)
    assert status == 0
    lines = text.splitlines()
    change = after["latency_us"] / before["latency_us"] - 1
    assert lines[0].startswith("doubled on gen3: ")
    assert lines[0].endswith(f"({change:+.1%})")
    engines = {line.split()[0] for line in lines if line}
    assert set(before["engine_busy_us"]) <= engines
    assert "instructions 24 -> 6" in text


@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)])
def test_saved_profiles_give_the_same_text(files, which):
    expected = run("--compare", *files)
    given = [saved(f) if is_saved else f for f, is_saved in zip(files, which, strict=True)]
    assert run("--compare", *given) == expected


def test_a_profile_compared_with_itself(files):
    status, text, _ = run("--compare", files[0], files[0])
    assert status == 0
    assert "(+0.0%)" in text
    assert "line, time" not in text


def test_data(files):
    status, text, _ = run("--compare", *files, "--format", "json")
    assert status == 0
    (pair,) = json.loads(text)["changes"]
    assert pair["before"]["latency_us"] > pair["after"]["latency_us"]
    total = sum(side["critical_us"] for side in pair["after"]["lines"]) - sum(
        side["critical_us"] for side in pair["before"]["lines"]
    )
    assert sum(line["change"] for line in pair["lines"]) == pytest.approx(total)


def timed(*lines):
    return {
        "lines": [
            {"file": "k.py", "line": n, "text": text, "critical_us": us} for n, text, us in lines
        ]
    }


def test_lines_belong_together_by_their_text_in_order():
    before = timed((1, "copy", 5.0), (2, "copy", 1.0), (3, "gone", 2.0))
    after = timed((11, "new", 4.0), (12, "copy", 5.0), (14, "copy", 4.0))
    assert [(c.text, c.before, c.after, c.at) for c in line_changes(before, after)] == [
        ("new", None, 4.0, "k.py:11"),
        ("copy", 1.0, 4.0, "k.py:14"),
        ("gone", 2.0, None, "k.py:3"),
    ]


def whole(us, lines, **changed):
    return {
        **{"kernel": "copied", "target": "gen3", "latency_us": us, "bound_by": "dma"},
        **{"bound_share": us / 100, "hbm_bytes": 4096, "spill_bytes": 0, "transfers": 1200},
        **{"instructions": {"dma_copy": 1200, "memset": 3}},
        **{"engine_busy_us": {"vector": 1.0, "dma": us / 2}},
        **timed(*lines),
        **changed,
    }


def test_the_text_of_a_comparison():
    before = whole(40.0, [(n, f"line {n}", 2.0) for n in range(1, 13)] + [(13, "x" * 48, 3.0)])
    busy = {"vector": 1.004, "gpsimd": 0.5, "dma": 10.0}
    lines = [(1, "line 1", 2.5), (2, "y" * 49, 1.5)]
    after = whole(30.0, lines, target="gen4", spill_bytes=2048, engine_busy_us=busy)
    rows = [(f"k.py:{n}  line {n}", "2.00 us", "-", "-2.00 us") for n in range(2, 12)]
    table = [
        ("line, time on the critical path", "before", "after", "change"),
        (f"k.py:13  {'x' * 48}", "3.00 us", "-", "-3.00 us"),
        *rows,
        ("k.py:12  line 12", "2.00 us", "-", "-2.00 us"),
    ]
    expected = [
        "copied on gen3 -> copied on gen4: 40.0 us -> 30.0 us (-25.0%)",
        "bound by dma (40% of the bound) -> dma (30% of the bound)",
        "spills 0 B -> 2.0 KiB",
        "instructions 1,203 -> 1,203, transfers 1,200 -> 1,200",
        "",
        "engine   before    after    change",
        "vector  1.00 us  1.00 us",
        "dma     20.0 us  10.0 us  -10.0 us",
        "gpsimd  0.00 us  0.50 us  +0.50 us",
        "",
        *(
            "  ".join([row[0].ljust(57), row[1].rjust(7), row[2].rjust(5), row[3].rjust(8)])
            for row in table
        ),
        "... and 2 more lines",
    ]
    assert comparison_of([before], [after], as_json=False).splitlines() == expected
    shown = comparison_of([whole(9.0, lines)], [whole(9.0, [])], as_json=False).splitlines()[-2:]
    assert shown == [
        f"k.py:1  line 1{' ' * 42}  2.50 us      -  -2.50 us",
        f"k.py:2  {'y' * 45}...  1.50 us      -  -1.50 us",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("small.py",), "--compare takes two FILEs"),
        (("small.py", "small.py", "--apply"), "--compare takes two FILEs"),
        (("small.py", "text.json"), "no saved profile"),
        (("small.py", "other.json"), "got schema 99, accepted: 3"),
        (("small.py", "none.json"), "it has no profiles"),
    ],
)
def test_what_cannot_be_compared(files, monkeypatch, arguments, message):
    monkeypatch.chdir(files[0].parent)
    (files[0].parent / "text.json").write_text("a text")
    (files[0].parent / "other.json").write_text('{"schema": 99, "profiles": []}')
    (files[0].parent / "none.json").write_text('{"schema": 3, "profiles": []}')
    status, _, err = run("--compare", *arguments)
    assert status == 2
    assert message in err
