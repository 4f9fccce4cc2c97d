"""The contract of operations, for the operation of trnrand."""

from __future__ import annotations

import pytest
import torch

import trnrand
from required import requiring
from trnrand import Generator
from trnrand._library import LIBRARY
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, NkiRefusalWarning
from trnsci.core.testing.contract import OperationContract, Sample


def drawn(kind):
    """A draw that depends on nothing but its shape, and takes its dtype from a tensor."""
    sampler = getattr(trnrand, kind)

    def call(like, generator=None):
        generator = Generator(3) if generator is None else generator
        return sampler(*like.shape, dtype=like.dtype, generator=generator)

    return call


class TestOperations(OperationContract):
    library = LIBRARY
    # Other draws than the kernel's, in float64: results are compared with torch's float32 below.
    truth = torch.float32
    samples = (
        Sample("draw", drawn("uniform"), (torch.zeros(5),), growth=4),
        Sample("draw", drawn("normal"), (torch.zeros(5),), growth=16),
        Sample("draw", drawn("exponential"), (torch.zeros(5),), growth=16),
    )

    def test_compiled_as_one_graph(self, sample, backend):
        generator = Generator(3)  # a graph draws from generators, and makes none
        compiled = torch.compile(
            lambda like: sample.call(like, generator), fullgraph=True, backend="eager"
        )
        with self.running(backend):
            got = compiled(*sample.tensors)
        self.assert_close(sample, got, self.result_of(sample))


def test_wide_samples_are_refused_and_counted():
    with trnrand.backend("simulator"):
        before = counts()
        with pytest.warns(
            NkiRefusalWarning, match=r"^trnrand.uniform: torch computes trnrand.draw"
        ):
            trnrand.uniform(3, dtype=torch.float64, generator=Generator(1))
        assert (counts() - before).refusals == {
            ("trnrand.draw", "the kernel does not take torch.float64"): 1
        }
        refused = pytest.raises(BackendError, match="TRNRAND_REQUIRE_NKI")
        with requiring("trnrand"), refused:
            trnrand.uniform(3, dtype=torch.float64, generator=Generator(1))
