"""``nkisim upgrade --verify``: what runs, what is compared, what is only read."""

import json

import pytest
from click.testing import CliRunner

from fresh_process import nkisim_command
from nkisim.cli import commands
from nkisim.rewriting import SourceText
from nkisim.upgrade import verify as verification

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt


@nki.jit
"""
BODY = """\
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(t, x, nisa.oob_mode.error)
    for k in nl.affine_range(3):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=1.25)
    nisa.dma_copy(dst=out, src=t)
    return out
"""
ANNOTATED = HEAD + "def scale(x: nt.tensor[64, 32]):\n" + BODY
EXAMPLES = """\


def nkisim_examples():
    import numpy as np

    return [(scale, (np.full((8, 4), n, np.float32),)) for n in (1.0, 2.0)]
"""


@pytest.fixture
def upgrade(tmp_path, monkeypatch):
    """Runs the command with --verify to 0.6 in an empty folder; returns status and data."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        options = ["upgrade", *arguments, "--to", "0.6", "--verify", "--format", "json"]
        done = CliRunner().invoke(commands, options, standalone_mode=False)
        assert done.exception is None, repr(done.exception)
        return done.return_value, json.loads(done.stdout)["files"]

    return run


def kernels(file):
    return {k["name"]: (k["status"], k["detail"]) for k in file["verification"]["kernels"]}


@pytest.mark.parametrize(
    "text", [ANNOTATED, ANNOTATED.replace(": nt.tensor[64, 32]", "") + EXAMPLES]
)
@pytest.mark.parametrize("option", [(), ("--write",)])
def test_a_kernel_with_known_arguments_gives_the_same_bits(upgrade, tmp_path, text, option):
    (tmp_path / "k.py").write_text(text)
    status, (file,) = upgrade("k.py", *option)
    assert status == 0
    assert kernels(file) == {
        "scale": ("same", "run before (NKI 0.3.0) and after (NKI 0.6.0): the same bits")
    }
    assert file["verification"]["ok"]
    assert ((tmp_path / "k.py").read_text() == text) == (not option)


def test_a_kernel_without_arguments_is_only_read(upgrade, tmp_path):
    (tmp_path / "k.py").write_text(HEAD + "def scale(x):\n" + BODY)
    status, (file,) = upgrade("k.py")
    assert status == 0
    how = 'only read: x has no value; for example --shapes "x=f32[128,512]"'
    assert kernels(file) == {"scale": ("read", how)}


def test_shapes_are_arguments_of_the_kernels(upgrade, tmp_path):
    (tmp_path / "k.py").write_text(HEAD + "def scale(x):\n" + BODY)
    status, (file,) = upgrade("k.py", "--shapes", "x=f32[64,32]")
    assert status == 0
    assert kernels(file)["scale"][0] == "same"


def test_why_kernels_did_not_run_is_said_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        other = HEAD + "def other(y, z):\n    return y\n"
        (tmp_path / f"{name}.py").write_text(HEAD + "def scale(x):\n" + BODY + other)
    done = CliRunner().invoke(commands, ["upgrade", ".", "--verify"], standalone_mode=False)
    assert "; 4 kernels verified, 0 run, 0 compared and equal\n" in done.stderr
    (reason,) = [row for row in done.stderr.splitlines() if "not run" in row]
    assert reason.startswith("4 kernels not run: parameters have no value; give them with --shapes")


def test_a_beta_is_run_but_not_compared(upgrade, tmp_path):
    text = ANNOTATED.replace("buffer=nl.sbuf", 'buffer="sbuf"')
    (tmp_path / "k.py").write_text(text)
    status, (file,) = upgrade("k.py")
    assert status == 0
    assert kernels(file)["scale"] == (
        "run",
        "run as NKI 0.6.0, not compared: Beta 2 is not simulated",
    )


def test_a_text_that_runs_in_its_new_form_only_is_not_compared(upgrade, tmp_path):
    (tmp_path / "k.py").write_text(ANNOTATED.replace("1.25", "nl.missing"))
    status, (file,) = upgrade("k.py")
    assert status == 1
    assert kernels(file)["scale"][0] == "stopped"
    assert {f["rule"] for f in file["verification"]["findings"]} == {"A025"}


def test_findings_of_the_new_text_are_reported(upgrade, tmp_path):
    """A tile that is read before it is written is an error in every version."""
    broken = ANNOTATED.replace("    nisa.dma_copy(t, x, nisa.oob_mode.error)\n", "")
    (tmp_path / "k.py").write_text(broken)
    status, (file,) = upgrade("k.py")
    assert status == 1
    errors = [f for f in file["verification"]["findings"] if f["severity"] == "error"]
    assert errors
    assert {f["file"] for f in errors} == {"k.py"}


def test_a_version_that_computes_something_else_is_a_mismatch(upgrade, tmp_path):
    """From 0.5.0 on the scales of quantize_mx are twice as large."""
    text = (
        HEAD
        + """\
def quantized(x: nt.tensor[32, 64]):
    q = nl.ndarray((32, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    s = nl.ndarray((32, 16), dtype=nl.uint8, buffer=nl.sbuf)
    t = nl.ndarray((32, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
    out = nl.ndarray((32, 16), dtype=nl.uint8, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=t, src=x)
    nisa.memset(dst=s, value=0)
    nisa.quantize_mx(dst=q, src=t, dst_scale=s)
    nisa.dma_copy(dst=out, src=s)
    return out
"""
    )
    (tmp_path / "k.py").write_text(text)
    status, (file,) = upgrade("k.py", "--target", "trn3")
    assert status == 1
    state, detail = kernels(file)["quantized"]
    assert state == "differs"
    assert "largest difference 1" in detail  # of the exponent
    assert detail.startswith("run before (NKI 0.3.0) and after (NKI 0.6.0): output 0: ")


@pytest.mark.parametrize("option", [(), ("--write",)])
def test_files_of_a_package_import_each_other(upgrade, tmp_path, option):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("ROWS = 16\n")
    helper = (
        "import nki.isa as nisa\n\ndef load(t, x):\n    nisa.dma_copy(t, x, nisa.oob_mode.error)\n"
    )
    (package / "moves.py").write_text(helper)
    text = ANNOTATED.replace("[64, 32]", "[ROWS, 32]")
    text = text.replace("nisa.dma_copy(t, x, nisa.oob_mode.error)", "load(t, x)")
    text = "from .moves import load\nfrom .sizes import ROWS\n" + text
    (package / "k.py").write_text(text)
    status, files = upgrade(".", *option)
    assert status == 0
    (checked,) = [file for file in files if file["path"].endswith("k.py")]
    assert kernels(checked)["scale"][0] == "same"


def test_verification_sees_what_is_on_disk(tmp_path):
    """With --write the file is what counts, not the text that was meant to be written."""
    path = tmp_path / "k.py"
    path.write_text(ANNOTATED.replace("1.25", "1.5"))
    source = SourceText(ANNOTATED)
    file = verification.Upgraded(source, source, "0.3")
    found = verification.verify({path: file}, "0.3.0", written=True)[path]
    assert [kernel.status for kernel in found.kernels] == ["differs"]
    assert not found.ok
    found = verification.verify({path: file}, "0.3.0")[path]
    assert [kernel.status for kernel in found.kernels] == ["differs"]


def test_what_a_file_prints_is_not_in_the_report(tmp_path):
    (tmp_path / "k.py").write_text("print('imported')\n" + ANNOTATED)
    command = ["upgrade", "k.py", "--to", "0.6", "--verify"]
    done = nkisim_command(*command, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"][0]["verification"]["ok"]
    assert "imported" in done.stderr
    done = nkisim_command(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "imported" not in done.stdout
    assert done.stdout.endswith(": the same bits\n")


def test_the_text_report_names_each_kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(ANNOTATED + "    \n\n@nki.jit\ndef other(y):\n    return y\n")
    options = ["upgrade", "k.py", "--to", "0.6", "--verify"]
    done = CliRunner().invoke(commands, options, standalone_mode=False)
    assert (
        "k.py: scale: run before (NKI 0.3.0) and after (NKI 0.6.0): the same bits\n" in done.stdout
    )
    assert "k.py: other: only read: y has no value; for example --shapes" in done.stdout
    assert "; 2 kernels verified, 1 run, 1 compared and equal\n" in done.stderr
    assert "1 kernel not run: " in done.stderr


def test_a_pattern_of_a_slice_means_one_thing(upgrade, tmp_path):
    """The text stays, and both versions read what the slice begins with; it is left to do."""
    text = ANNOTATED.replace(
        "nisa.dma_copy(t, x, nisa.oob_mode.error)", "nisa.dma_copy(dst=t, src=x)"
    )
    text = text.replace(
        "(x.shape, dtype=x.dtype, buffer=nl.shared_hbm", "((64, 8), nl.float32, nl.shared_hbm"
    )
    view = "t[0:64, 8:16].ap(pattern=[[32, 64], [1, 8]], offset=0)"
    text = text.replace("src=t)", f"src={view})")
    (tmp_path / "k.py").write_text(text)
    status, (file,) = upgrade("k.py")
    assert status == 0
    assert not file["changed"]
    assert [finding["rule"] for finding in file["findings"]] == ["MG-502"]
    assert kernels(file)["scale"][0] == "same"


PLAIN = HEAD + "def scale(x):\n" + BODY


def test_shapes_may_be_for_kernels_of_several_files(upgrade, tmp_path):
    """A name that the only file lacks is a mistake of the command line."""
    (tmp_path / "a.py").write_text(PLAIN)
    (tmp_path / "b.py").write_text(PLAIN.replace("(x)", "(y)").replace("x", "y"))
    shapes = ("--shapes", "x=f32[64,32] y=f32[8,4]")
    _, files = upgrade(".", *shapes)
    assert [kernels(file)["scale"][0] for file in files] == ["same", "same"]
    done = nkisim_command("upgrade", "a.py", "--verify", *shapes, cwd=tmp_path)
    assert done.returncode == 2
    assert "no kernel of a.py has a parameter 'y'; they have: x" in done.stderr
    assert "Traceback" not in done.stderr
