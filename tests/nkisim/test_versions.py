"""The NKI version in force: who chooses it, what follows it, and who says so."""

import importlib
import inspect
import json
import shutil

import numpy as np
import pytest

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim import check_source, versions
from nkisim.cli import commands
from nkisim.spec.signatures import CALLS, home_of
from releases import VERSIONS

ONES = np.ones((128, 64), np.float32)
MODULES = {"nki.isa": nisa, "nki.language": nl, "nki.collectives": ncc}

SOURCE = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copied(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x, priority=1)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def nkisim_examples():
    import numpy as np

    return {"copied": (np.ones((4, 4), np.float32),)}
"""


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Return a function that installs an ``nki`` of a version, in place of an earlier one."""
    (tmp_path / "nki.py").touch()

    def install(version):
        for record in tmp_path.glob("nki-*"):
            shutil.rmtree(record)
        record = tmp_path / f"nki-{version}.dist-info"
        record.mkdir()
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nki\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        versions._installed.cache_clear()

    yield install
    versions._installed.cache_clear()


def copies(x, **more):
    """Copy a tensor through SBUF; ``more`` are arguments of the first transfer."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x, **more)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("version", VERSIONS)
def test_both_spellings_name_a_version(version):
    assert versions.resolve(version) == versions.resolve(version[:-2]) == version


@pytest.mark.parametrize("wrong", ["0.2", "0.8", "6", "", "latest"])
def test_an_unknown_version_is_refused_with_the_known_ones(wrong):
    with pytest.raises(ValueError, match=f"got '.*', accepted: {', '.join(VERSIONS)}, also"):
        nkisim.simulate(copies, nki=wrong)


def test_precedence(monkeypatch, installed):
    def judged(**options):
        return nkisim.check(copies, **options)(ONES).nki

    assert judged() == "0.3.0"
    installed("0.5.2+abc")
    assert judged() == "0.5.0"
    monkeypatch.setenv("NKISIM_NKI", "0.4")
    assert judged() == "0.4.0"
    assert judged(nki="0.6") == "0.6.0"


@pytest.mark.parametrize(
    ("found", "used"), [("0.0.1", "0.3.0"), ("0.3.1", "0.3.0"), ("1.2", "0.7.0"), ("dev", "0.3.0")]
)
def test_an_installed_nki_gives_the_nearest_known_version(installed, found, used):
    installed(found)
    assert versions.chosen() == used


def test_a_call_decides_what_is_legal_whatever_was_imported():
    assert nkisim.check(copies, nki="0.4", target="trn3")(ONES, priority=1).ok
    report = nkisim.check(copies, nki="0.3", target="trn3")(ONES, priority=1)
    assert report.codes == {"A025"}
    assert "NKI 0.4.0 has it" in report.errors[0].fix


def test_a_function_imported_from_another_version_is_judged_by_the_call(monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.6")
    later = nisa.dma_copy
    monkeypatch.delenv("NKISIM_NKI")

    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        later(dst=tile, src=x, priority=2)
        return x

    report = nkisim.check(kernel, target="trn3")(ONES)
    assert "dma_copy(priority=) does not exist in NKI 0.3.0" in report.errors[0].message


@pytest.mark.parametrize("version", VERSIONS)
def test_signatures_names_and_exports_follow_the_variable(monkeypatch, version):
    monkeypatch.setenv("NKISIM_NKI", version)
    for name, in_version in CALLS.items():
        module, plain = home_of(name)
        there = versions.has(version, module, plain) or not versions.differs(module, plain)
        assert (plain in dir(MODULES[module])) == there, name
        assert hasattr(MODULES[module], plain) == there, name
        if there:
            found = inspect.signature(getattr(MODULES[module], plain))
            assert list(found.parameters) == list(in_version[version].signature.parameters), name


def test_a_missing_argument_is_one_of_the_version_in_force(monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.4")
    with pytest.raises(TypeError, match="dma_copy is called without src"):
        nisa.dma_copy(dst=None)


def test_every_report_names_its_version(tmp_path, cli):
    report = nkisim.check(copies, nki="0.5")(ONES)
    assert str(report).endswith(" on gen3, NKI 0.5.0)")
    assert json.loads(report.to_json())["nki"] == "0.5.0"
    assert "NKI 0.5.0" in report._repr_html_()
    file = tmp_path / "kernels.py"
    file.write_text(SOURCE)
    assert check_source(file, nki="0.4").nki == "0.4.0"
    for form in ("text", "json", "sarif", "html", "github"):
        status, out = cli("check", str(file), "--target", "trn3", "--nki", "0.6", "--format", form)
        assert status == 0, out
        assert "0.6.0" in out, form
    status, out = cli("check", str(file), "--target", "trn3")
    assert status == 1
    assert "by NKI 0.3.0" in out


def test_a_project_chooses_and_the_option_and_the_variable_override(tmp_path, monkeypatch, cli):
    (tmp_path / "pyproject.toml").write_text('[tool.nkisim]\nnki = "0.5"\n')
    file = tmp_path / "kernels.py"
    file.write_text(SOURCE)
    arguments = ("check", str(file), "--target", "trn3")
    assert "by NKI 0.5.0" in cli(*arguments)[1]
    assert "by NKI 0.6.0" in cli(*arguments, "--nki", "0.6")[1]
    monkeypatch.setenv("NKISIM_NKI", "0.4")
    assert "by NKI 0.4.0" in cli(*arguments)[1]


def test_the_option_ends_with_the_command(tmp_path, cli):
    file = tmp_path / "kernels.py"
    file.write_text(SOURCE)
    cli("check", str(file), "--nki", "0.6")
    assert versions.chosen() == "0.3.0"
    status, out = cli("check", str(file), "--nki", "0.9")
    assert status == 2
    assert "--nki: got '0.9'" in out


@pytest.fixture
def cli():
    """Return a function that runs a command and returns its status and what it prints."""
    from click.testing import CliRunner

    def run(*arguments):
        result = CliRunner().invoke(commands, arguments, standalone_mode=False)
        problem = result.exception
        if problem is not None:
            return problem.exit_code, problem.format_message()
        return result.return_value, result.output

    return run
