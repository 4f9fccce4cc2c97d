"""topk of NKI 0.6.0, value by value."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from each_case import each_case
from nkisim.arch import resolve_target
from nkisim.arch.timing import timing_of
from nkisim.profiling.model.program import Capture
from tiles import loaded, sbuf, stored

GROUP = 16


def kernel(x, n, k):
    src = loaded(x)
    values, indices = sbuf((x.shape[0], k), nl.bfloat16), sbuf((x.shape[0], k), nl.uint32)
    nisa.topk(val_dst=values, idx_dst=indices, src=src, n=n)
    return stored(values), stored(indices)


def largest(x, n, k):
    """Each group's list, sorted: the k largest, ascending, the lower index last of equal ones."""
    values, indices = [], []
    for first in range(0, x.shape[0], GROUP):
        listed = [float(x[first + i % GROUP, i // GROUP]) for i in range(n)]
        order = sorted(range(n), key=lambda i: (-listed[i], i))[:k][::-1]
        values += [[listed[i] for i in order]] * GROUP
        indices += [order] * GROUP
    return np.array(values, ml_dtypes.bfloat16), np.array(indices, np.uint32)


@examples(30)
@given(
    groups=st.sampled_from([1, 2, 8]),
    n=st.integers(8, 200),
    spare=st.integers(0, 2),
    k=st.integers(1, 40),
    few=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_largest_values_and_where_they_are(groups, n, spare, k, few, seed):
    rng, k = np.random.default_rng(seed), min(k, n)
    shape = groups * GROUP, -(-n // GROUP) + spare
    x = rng.integers(-3, 4, shape) if few else rng.standard_normal(shape) * 100
    x = x.astype(np.float32).astype(ml_dtypes.bfloat16)
    values, indices = nkisim.simulate(kernel, nki="0.6.0")(x, n, k)
    want = largest(x, n, k)
    np.testing.assert_array_equal(values.astype(float), want[0].astype(float))
    np.testing.assert_array_equal(indices, want[1])


def test_only_the_first_n_elements_are_read():
    def partly_written(x, n, k):
        src = sbuf((GROUP, 3), nl.bfloat16)
        nisa.dma_copy(dst=src[:, 0:2], src=x[:, 0:2])
        nisa.dma_copy(dst=src[0:4, 2:3], src=x[0:4, 2:3])
        values, indices = sbuf((GROUP, k), nl.bfloat16), sbuf((GROUP, k), nl.uint32)
        nisa.topk(values, indices, src, n)
        return stored(values), stored(indices)

    x = np.arange(48).reshape(16, 3).astype(ml_dtypes.bfloat16)
    for n, unwritten in ((36, False), (37, True)):
        report = nkisim.check(partly_written, nki="0.6.0")(x, n, 2)
        assert ("M001" in report.codes) is unwritten, str(report)


BF16 = ml_dtypes.bfloat16
REFUSED = {
    "too few elements": ((16, 1), BF16, 7, 1, "S048"),
    "too many elements": ((16, 4096), BF16, 65536, 1, "S048"),
    "more than there are": ((16, 1), BF16, 8, 9, "S048"),
    "no room for them": ((16, 2), BF16, 33, 8, "S048"),
    "partitions of no whole group": ((24, 2), BF16, 32, 8, "S048"),
    "another type": ((16, 2), np.float32, 32, 8, "D032"),
    "a number that is not known": ((16, 2), BF16, 8.5, 8, "A048"),
}


@each_case("name", REFUSED)
def test_what_is_refused(name):
    shape, dtype, n, k, rule = REFUSED[name]
    report = nkisim.check(kernel, nki="0.6.0")(np.ones(shape, dtype), n, k)
    assert rule in report.codes, str(report)


def test_other_result_types_are_refused():
    def narrow(x):
        src, values = loaded(x), sbuf((GROUP, 8), nl.bfloat16)
        indices = sbuf((GROUP, 8), nl.uint16)
        nisa.topk(values, indices, src, 32)
        return stored(values)

    report = nkisim.check(narrow, nki="0.6.0")(np.ones((16, 2), BF16))
    assert "D032" in report.codes


def test_the_cost_is_that_of_the_documentation():
    x = np.ones((16, 20), BF16)
    timing = timing_of(resolve_target("gen3"))
    for n, k in ((160, 8), (320, 8), (320, 108)):
        capture = Capture(resolve_target("gen3"))
        nkisim.simulate(kernel, target="gen3", nki="0.6.0", watchers=(capture,))(x, n, k)
        [work] = [o.work for o in capture.program.operations if o.work.engine.name == "gpsimd"]
        cycles = timing.gpsimd_start_cycles + 4 * n + k
        assert work.busy == pytest.approx(cycles / timing.gpsimd_ghz)
