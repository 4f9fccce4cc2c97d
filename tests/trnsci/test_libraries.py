"""What every library of the suite has: the names of its backend, its version, its warning."""

from importlib import import_module

import pytest

import trnsci
from each_case import each_case
from fresh_process import printed_after
from trnsci.core.errors import NkiFallbackWarning, NkiRefusalWarning

LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")


@pytest.fixture(params=LIBRARIES)
def library(request):
    return import_module(request.param)


def test_version_and_warnings(library):
    assert library.__version__ == trnsci.__version__
    assert library.NkiFallbackWarning is NkiFallbackWarning
    assert library.NkiRefusalWarning is NkiRefusalWarning


def test_the_backend_is_chosen_and_wrong_names_are_refused(library):
    assert library.HAS_NKI is False or library.HAS_NKI is True
    with library.backend("pytorch"):
        assert library.get_backend() == "pytorch"
        with pytest.raises(ValueError, match="got 'cuda'"):
            library.set_backend("cuda")


def test_published_code_imports_the_backend_from_dispatch(library):
    """And spells its argument as the published libraries do; ``__all__`` has none of the names."""
    dispatch = import_module(f"{library.__name__}.nki.dispatch")
    assert dispatch.HAS_NKI is library.HAS_NKI
    with library.backend("auto"):
        dispatch.set_backend(backend="pytorch")
        assert dispatch.get_backend() == library.get_backend() == "pytorch"
        library.set_backend(backend="auto")
        assert dispatch.get_backend() == "auto"
    assert not {"HAS_NKI", "get_backend", "set_backend"} & set(getattr(dispatch, "__all__", ()))
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_the_kind'"):
        _ = dispatch.nothing_of_the_kind
    with pytest.raises(ValueError, match="backend is another spelling of name; got both"):
        dispatch.set_backend("auto", backend="auto")


def test_a_name_that_is_not_there_is_an_attribute_error(library):
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = library.nothing_of_the_kind


@each_case("package", [f"{name}{part}" for name in LIBRARIES for part in ("", ".nki")])
def test_a_package_shows_what_it_has_and_has_what_it_shows(package):
    module = import_module(package)
    shown = dir(module)
    assert set(module.__all__) <= set(shown)
    assert shown == sorted(shown)
    assert {name for name in shown if name.startswith("_") and not name.startswith("__")} == set()
    for name in shown:
        getattr(module, name)
    assert module.set_backend == import_module(package.partition(".")[0]).set_backend
    assert module.HAS_NKI in (True, False)


@pytest.mark.parametrize(("library", "parts"), [("trnblas", "mp2 nki plans"), ("trnfft", "nki nn")])
def test_submodules_need_no_import_of_their_own(library, parts):
    found = ", ".join(f"{library}.{part}.__name__" for part in parts.split())
    code = f"import {library}; print(json.dumps([{found}]))"
    assert printed_after("torch", code) == [f"{library}.{part}" for part in parts.split()]


@pytest.mark.parametrize(
    ("alias", "home", "names"),
    [
        ("trnblas.mp2", "trnblas.nki", ("nki_batched_pair_energy", "nki_mp2_energy")),
        ("trnfft.complex", "trnfft", ("ComplexTensor", "complex_matmul")),
        ("trnrand.distributions", "trnrand", ("uniform", "normal", "gamma", "poisson", "randperm")),
        ("trnrand.quasi", "trnrand", ("sobol", "halton", "latin_hypercube")),
    ],
)
def test_names_that_other_code_imports_are_the_same_objects(alias, home, names):
    module, library = import_module(alias), import_module(home)
    for name in names:
        assert getattr(module, name) is getattr(library, name)
        assert name in module.__all__
    assert len(set(module.__all__)) == len(module.__all__)
