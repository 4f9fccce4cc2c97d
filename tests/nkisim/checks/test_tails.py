"""The second run that tells whether old elements of a tile matter: when it comes, and when not."""

import ml_dtypes
import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from kernels import f32
from tiles import sbuf, stored


def summed(runs, width_read, op=nl.add):
    """Return a kernel that reduces rows of 100 elements by 64, reading ``width_read(width)``."""

    def kernel(a):
        runs.append(1)
        total, part = sbuf((8, 1)), sbuf((8, 1))
        tile = sbuf((8, 64), a.dtype)
        nisa.memset(dst=total, value=0.0)
        for c in range(0, 100, 64):
            width = min(64, 100 - c)
            nisa.dma_copy(dst=tile[0:8, 0:width], src=a[0:8, c : c + width])
            used = tile[0:8, 0 : width_read(width)]
            nisa.tensor_reduce(dst=part, op=op, data=used, axis=1)
            nisa.tensor_tensor(dst=total, data1=total, data2=part, op=op)
        return stored(total)

    return kernel


def whole(width):
    return 64


def test_a_kernel_runs_once_more_only_on_suspicion():
    runs = []
    report = nkisim.check(summed(runs, lambda width: width), source=False)(f32(8, 100))
    assert report.codes == set()
    assert len(runs) == 1
    report = nkisim.check(summed(runs, whole), source=False)(f32(8, 100))
    assert report.codes == {"S067"}
    assert len(runs) == 3


@each_case("op", [nl.add, nl.maximum])
@each_case("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_old_elements_are_found_in_any_type_and_reduction(dtype, op):
    a = (8 * f32(8, 100)).astype(dtype)
    assert nkisim.check(summed([], whole, op), source=False)(a).codes == {"S067"}


def test_constant_inputs_show_it_too():
    a = np.ones((8, 100), np.float32)
    assert nkisim.check(summed([], whole), source=False)(a).codes == {"S067"}


def test_the_result_is_that_of_the_first_run():
    a = f32(8, 100)
    kernel = summed([], whole)
    assert np.array_equal(nkisim.check(kernel)(a).outputs, nkisim.simulate(kernel)(a))


def test_old_elements_that_are_smaller_than_the_largest_do_not_matter_to_it():
    """A mistake all the same, but none that this input shows."""
    a = f32(8, 100)
    a[:, 80] = a.max() + 1
    assert nkisim.check(summed([], whole, nl.maximum), source=False)(a).codes == set()


def test_nothing_is_said_where_a_second_run_would_begin_otherwise():
    def kernel(a):
        tile = sbuf((8, 64))
        for c in range(0, 100, 64):
            width = min(64, 100 - c)
            nisa.dma_copy(dst=tile[0:8, 0:width], src=a[0:8, c : c + width])
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(dst=a[0:8, 36:100], src=tile)
        return a

    assert "S067" not in nkisim.check(kernel, source=False)(f32(8, 100)).codes


def test_without_values_nothing_is_said():
    runs = []
    report = nkisim.check(summed(runs, whole), source=False, values=False)(f32(8, 100))
    assert report.codes == set()
    assert len(runs) == 1


def test_a_kernel_that_fails_the_second_time_keeps_its_first_report(dropped):
    runs, reads = [], summed([], whole)

    def kernel(a):
        runs.append(1)
        if len(runs) > 1:
            raise ValueError("only once")
        return reads(a)

    report = nkisim.check(kernel, source=False)(f32(8, 100))
    assert report.codes == set()
    assert report.outputs is not None
    assert len(runs) == 2
    assert len(dropped) == 1
    assert "a second run of kernel failed" in dropped[0]
    assert "only once" in dropped[0]
    dropped.clear()
