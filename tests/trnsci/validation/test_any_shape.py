"""Kernels are clean at any size: smaller than a tile, a tile, one more, one row, one column."""

import pytest

from required import on_simulator, requiring
from trnsci.core.counters import counts
from trnsci.core.evidence import kernels_of
from trnsci.core.testing import clean_simulation, launched
from trnsci.validation import GENERATIONS, LIBRARIES

from .any_shape import CALLS

SMALL = (2, 1)
TINY = [(1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (3, 2), (4, 5)]
EVERY_CALL = pytest.mark.parametrize("sized", CALLS.values(), ids=map(" ".join, CALLS))


@pytest.fixture
def on_the_simulator():
    """Kernels compute everything; what the solvers leave to trnblas too."""
    with requiring(*LIBRARIES), on_simulator(*LIBRARIES):
        yield


@pytest.mark.nki_simulator
@pytest.mark.usefixtures("on_the_simulator")
@EVERY_CALL
def test_small_operands(sized):
    with clean_simulation("gen2"), launched():
        sized.call(*SMALL)


@pytest.mark.slow
@pytest.mark.nki_simulator
@pytest.mark.usefixtures("on_the_simulator")
@EVERY_CALL
def test_the_grid_of_sizes(sized):
    for sizes in (*TINY, *sized.larger):
        with clean_simulation(*GENERATIONS), launched():
            sized.call(*sizes)


@pytest.mark.slow
@pytest.mark.nki_simulator
@pytest.mark.usefixtures("on_the_simulator")
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_calls_reach_every_kernel(library):
    before = counts()
    for (owner, _), sized in CALLS.items():
        for sizes in ((2, 3), sized.larger[0], sized.larger[1]):
            if owner == library:
                sized.call(*sizes)
    names = {source.name for source in kernels_of(library)}
    assert names <= set((counts() - before).launches)
