"""``nki.jit`` and ``nki.__version__`` by NKI version."""

import importlib
import inspect

import numpy as np
import pytest

import nkisim
from each_case import each_case
from releases import VERSIONS


def plain(x):
    """A kernel that returns its argument."""
    return x


@pytest.fixture
def nki():
    """The module that ``import nki`` gives."""
    nkisim.install(force=True)
    try:
        yield importlib.import_module("nki")
    finally:
        nkisim.uninstall()


def test_the_module_has_the_version_in_force(nki, monkeypatch):
    for version in VERSIONS:
        monkeypatch.setenv("NKISIM_NKI", version)
        assert nki.__version__ == version
    monkeypatch.delenv("NKISIM_NKI")
    assert nki.__version__ == VERSIONS[0]


def test_a_running_kernel_sees_its_version(nki):
    met = []

    def kernel(x):
        met.append(nki.__version__)
        return x

    nkisim.simulate(kernel, nki="0.5")(np.zeros((1, 1), np.float32))
    assert met == ["0.5.0"]


def test_a_missing_module_names_the_version_in_force(nki, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.4.0")
    with pytest.raises(ModuleNotFoundError, match=r"NKI 0\.4\.0"):
        importlib.import_module("nki.compiler")


def test_the_signature_of_jit_follows_the_version(nki, monkeypatch):
    for version in VERSIONS:
        monkeypatch.setenv("NKISIM_NKI", version)
        names = list(inspect.signature(nki.jit).parameters)
        assert names == (["func", "mode", "kwargs"] if version == "0.3.0" else ["fn", "kwargs"])
        assert nki.jit.__name__ == "jit"
        assert {"jit", "simulate", "isa", "language"} <= set(dir(nki))


@each_case("version", VERSIONS[1:])
def test_arguments_of_the_oldest_version_are_refused_later(nki, version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    assert isinstance(nki.jit(fn=plain), nkisim.api.Kernel)
    assert isinstance(nki.jit(plain), nkisim.api.Kernel)
    assert isinstance(nki.jit()(plain), nkisim.api.Kernel)
    for jit in (nki.jit, nkisim.jit):
        with pytest.raises(TypeError, match=f"no argument mode= in NKI {version}") as caught:
            jit(mode="torchxla")
        assert caught.value.rule_id == "A020"
        assert caught.value.finding.severity == "error"
    with pytest.raises(TypeError, match="no argument func="):
        nki.jit(func=plain)


@each_case("version", VERSIONS)
def test_flags_are_ignored_and_targets_refused_in_all_versions(nki, version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    with pytest.warns(DeprecationWarning, match=f"ignores debug in NKI {version}") as warned:
        nki.jit(debug=True)
    assert warned[0].filename == __file__
    with pytest.raises(nkisim.NkiValidationError, match=f"not supported in NKI {version}"):
        nki.jit(platform_target="trn2")
