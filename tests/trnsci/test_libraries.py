"""What every library of the suite has: the names of its backend, its version, its warning."""

from importlib import import_module
from importlib.metadata import version

import pytest

from trnsci.core.errors import NkiFallbackWarning

LIBRARIES = ("trnblas", "trnfft", "trnrand")


@pytest.fixture(params=LIBRARIES)
def library(request):
    return import_module(request.param)


def test_version_and_warning(library):
    assert library.__version__ == version("trnsci")
    assert library.NkiFallbackWarning is NkiFallbackWarning


def test_the_backend_is_chosen_and_wrong_names_are_refused(library):
    assert library.HAS_NKI is False or library.HAS_NKI is True
    with library.backend("pytorch"):
        assert library.get_backend() == "pytorch"
        with pytest.raises(ValueError, match="got 'cuda'"):
            library.set_backend("cuda")


def test_a_name_that_is_not_there_is_an_attribute_error(library):
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = library.nothing_of_the_kind
