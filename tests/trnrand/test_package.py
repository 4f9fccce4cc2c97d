"""What the package shows, and what importing it costs."""

from types import ModuleType

import pytest

import trnrand
from fresh_process import printed_after
from trnrand import published
from trnsci.core.errors import BackendError

# The names that callers of earlier releases know.
KNOWN = {
    "Generator",
    "manual_seed",
    "get_default_generator",
    "uniform",
    "normal",
    "standard_normal",
    "exponential",
    "bernoulli",
    "randint",
    "randperm",
    "truncated_normal",
    "gamma",
    "chi_squared",
    "beta",
    "poisson",
    "normal_into",
    "uniform_into",
    "exponential_into",
    "sobol",
    "halton",
    "latin_hypercube",
    "GeneratorProgram",
    "HAS_NKI",
    "set_backend",
    "get_backend",
}


def test_the_public_names_are_listed():
    plumbing = {"annotations", "Any", "TYPE_CHECKING", "LIBRARY"}
    plumbing |= {"PackageNotFoundError", "import_module", "version"}
    public = {
        name
        for name in dir(trnrand)
        if not name.startswith("_")
        and name not in plumbing
        and not isinstance(getattr(trnrand, name), ModuleType)
    }
    assert set(trnrand.__all__) == public
    assert public | set(published.__all__) >= KNOWN
    assert "ProgramBuilder" not in dir(trnrand)


def test_published_draws_import_from_the_module_of_distributions():
    for name in filter(str.islower, published.__all__):  # not the class
        assert getattr(trnrand.distributions, name) is getattr(published, name)
    with pytest.raises(AttributeError, match="distributions' has no attribute 'laplace_into'"):
        _ = trnrand.distributions.laplace_into


def test_the_import_brings_no_simulator_and_no_scipy():
    modules = printed_after("torch", "import sys, trnrand; print(json.dumps(list(sys.modules)))")
    imported = {name.partition(".")[0] for name in modules}
    assert not imported & {"nkisim", "scipy", "numba", "nki"}


def test_the_backend_is_chosen_as_in_the_other_libraries():
    assert trnrand.get_backend() == "auto"
    with trnrand.backend("pytorch"):
        assert trnrand.get_backend() == "pytorch"
    with pytest.raises(AssertionError, match="got 'cuda', accepted: auto"):
        trnrand.set_backend("cuda")
    with pytest.raises(ValueError, match="got 'cuda'"):
        trnrand.set_backend("cuda")
    if not trnrand.HAS_NKI:
        with pytest.raises(BackendError, match="requires neuronxcc"):
            trnrand.set_backend("nki")
    assert trnrand.get_backend() == "auto"


def test_other_names_are_missing():
    with pytest.raises(AttributeError, match="'trnrand' has no attribute 'random'"):
        _ = trnrand.random
