"""nkisim profile --compare: what changed, from files and from saved profiles."""

import json

import click
import pytest
from click.testing import CliRunner

from nkisim.cli import commands
from nkisim.profiling.changes import line_changes

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
