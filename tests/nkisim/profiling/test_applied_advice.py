"""``nkisim profile --apply`` and ``--diff``: what is written, and what is left."""

import itertools
import json
import re
from html import escape

import numpy as np
import pytest
from click.testing import CliRunner

import nkisim
from nkisim.cli import commands
from nkisim.profiling.model.ranges import alternatives_of, difference
from nkisim.profiling.page import fragment
from nkisim.profiling.text import range_text
from scripts import imported

KERNEL = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def weighted(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=w)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)  # größer
    return out
"""
SECOND = """

@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nl.store(out[i * 128 : (i + 1) * 128], value=tile)
    return out
"""
SHAPES = ("--shapes", "x=f32[1024,512] w=f32[128,512]")


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """Runs the command on a file with the given bytes, and returns its result and the file."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "kernels.py"

    def run(data, *options, shapes=SHAPES):
        file.write_bytes(data)
        command = ["profile", "kernels.py", *shapes, *options]
        return CliRunner().invoke(commands, command, standalone_mode=False), file

    return run


def profile_of(file, name, *shapes):
    with imported(file) as module:
        return nkisim.profile(getattr(module, name))(*(np.ones(s, np.float32) for s in shapes))


def times_of(file, name, *shapes):
    """The result and the time of a file's kernel."""
    x = [np.random.default_rng(3).uniform(-1, 1, s).astype(np.float32) for s in shapes]
    with imported(file) as module:
        kernel = getattr(module, name)
        return nkisim.simulate(kernel)(*x), nkisim.profile(kernel, advice=False)(*x).latency_us


def test_the_file_is_changed_until_nothing_gains_and_each_step_is_shown(profile):
    result, file = profile((KERNEL + SECOND).encode(), "--apply")
    assert result.exit_code == 0, result.output
    steps = re.findall(r"step \d+: (\w+): .*? (\S+) us -> (\S+) us, saves", result.stderr)
    assert {step[0] for step in steps} == {"weighted", "doubled"}
    for name, shapes in (("weighted", [(1024, 512), (128, 512)]), ("doubled", [(1024, 512)])):
        now, after = times_of(file, name, *shapes)
        chain = [step for step in steps if step[0] == name]
        assert float(chain[-1][2]) == pytest.approx(after, rel=0.01)
        assert all(a[2] == b[1] for a, b in itertools.pairwise(chain))
        text = file.read_bytes()
        file.write_text(KERNEL + SECOND, encoding="utf-8")
        first, before = times_of(file, name, *shapes)
        assert (now == first).all()
        assert after < 0.98 * before
        file.write_bytes(text)
    assert "# größer" in file.read_text(encoding="utf-8")
    again, _ = profile(file.read_bytes(), "--apply")
    assert "nothing gains 2 %" in again.stderr
    assert file.read_bytes() == text


def test_the_range_of_a_gain_is_that_of_the_difference_of_two_profiles(tmp_path):
    """Each taken on its own: that of the kernel, and that of the changed file."""
    file, edited = tmp_path / "kernels.py", tmp_path / "edited.py"
    file.write_text(KERNEL, encoding="utf-8")
    shapes = ((1024, 512), (128, 512))
    before = profile_of(file, "weighted", *shapes)
    tried = [piece for piece in before.advice if piece.gain_us is not None]
    assert tried
    assert all(piece.gain_range.low < piece.gain_us < piece.gain_range.high for piece in tried)
    edited.write_text(before.together.text, encoding="utf-8")
    after = profile_of(edited, "weighted", *shapes)
    times = [(p.latency_us, alternatives_of(p.assumptions)) for p in (before, after)]
    assert before.together.gain_range == difference(*times[0], *times[1])
    rows = [row for row in str(before).splitlines() if row.startswith("  range ")]
    assert len(rows) == len(tried)
    page = fragment(before)
    assert all(escape(range_text(piece.gain_range)) in page for piece in tried)
    plain = json.loads(before.to_json())
    for piece in [*plain["advice"], plain["together"]]:
        found = piece["gain_range"]
        assert (found is None) is (piece.get("tried") is False)
        if found is not None:
            assert found["separable"] is (found["low"] > 0 or found["high"] < 0)


def test_a_diff_is_printed_and_nothing_written(profile):
    result, file = profile(KERNEL.encode(), "--diff")
    assert result.stdout.startswith("--- a/kernels.py\n+++ b/kernels.py\n@@")
    assert "weighted on gen3" in result.stderr
    assert file.read_bytes() == KERNEL.encode()


@pytest.mark.parametrize(
    ("encoding", "ends"), [("utf-8", "\r\n"), ("latin-1", "\n"), ("utf-8-sig", "\n")]
)
def test_encoding_and_line_endings_stay(profile, encoding, ends):
    text = "# coding: latin-1\n" * (encoding == "latin-1") + KERNEL
    result, file = profile(text.replace("\n", ends).encode(encoding), "--apply")
    assert "written" in result.stderr
    data = file.read_bytes()
    assert data != text.replace("\n", ends).encode(encoding)
    assert data.count(b"\r\n") == (data.count(b"\n") if ends == "\r\n" else 0)
    assert "größer" in data.decode(encoding)
    assert data.startswith(b"\xef\xbb\xbf") == (encoding == "utf-8-sig")


def test_several_targets_are_a_mistake(profile):
    result, file = profile(KERNEL.encode(), "--apply", "--target", "all")
    assert "one target" in str(result.exception)
    assert file.read_bytes() == KERNEL.encode()


def test_a_kernel_that_is_refused_is_left(profile):
    wrong = KERNEL.replace("data2=weights", "data2=weights[:64]")
    result, file = profile(wrong.encode(), "--apply")
    assert result.return_value == 1
    assert file.read_bytes() == wrong.encode()
