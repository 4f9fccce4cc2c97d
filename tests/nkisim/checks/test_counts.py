"""Loops with a count from memory, and sums in a narrow type: what is said, and what is not."""

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import bf16, f32
from tiles import hbm, loaded, sbuf, stored

THREE = np.array([[3]], np.int32)


def codes(kernel, *arguments):
    return nkisim.check(kernel, source=False)(*arguments).codes


def test_a_count_that_the_kernel_knows_is_not_zero():
    def kernel(a):
        out, tile = hbm((8, 16)), loaded(a)
        count = nisa.register_alloc(3)
        for _ in nl.dynamic_range(count):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
            nisa.dma_copy(dst=out, src=tile)
        return out

    assert codes(kernel, f32(8, 16)) == set()


def test_a_count_is_followed_from_register_to_register():
    def kernel(a, n):
        out, tile = hbm((8, 16)), loaded(a)
        first, count = nisa.register_alloc(), nisa.register_alloc(0)
        nisa.register_load(first, loaded(n))
        nisa.register_move(count, first)
        for _ in nl.dynamic_range(count):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
            nisa.dma_copy(dst=out, src=tile)
        return out

    assert codes(kernel, f32(8, 16), THREE) == {"R017"}


def test_the_finding_counts_what_stays_unwritten():
    def kernel(a, n):
        out, tile = hbm((8, 16)), loaded(a)
        nisa.dma_copy(dst=out[0:4], src=tile[0:4])
        count = nisa.register_alloc()
        nisa.register_load(count, loaded(n))
        for _ in nl.dynamic_range(count):
            nisa.dma_copy(dst=out[4:8], src=tile[4:8])
        return out

    report = nkisim.check(kernel, source=False)(f32(8, 16), THREE)
    (finding,) = (f for f in report.findings if f.rule.id == "R017")
    assert "64 of 128 elements" in finding.message


def test_a_loop_that_had_no_turn_is_no_suspicion():
    def kernel(a, n):
        tile = loaded(a)
        count = nisa.register_alloc()
        nisa.register_load(count, loaded(n))
        for _ in nl.dynamic_range(count):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
        return stored(tile)

    assert codes(kernel, f32(8, 16), 0 * THREE) == set()


def test_short_sums_products_and_decays_are_no_long_sums():
    def kernel(a):
        tile = loaded(a)
        total, product, mean = (sbuf((8, 1), nl.bfloat16) for _ in range(3))
        for held in (total, product, mean):
            nisa.memset(dst=held, value=1.0)
        for i in range(300):
            column = tile[0:8, i : i + 1]
            if i < 256:
                nisa.tensor_tensor(dst=total, data1=total, data2=column, op=nl.add)
            nisa.tensor_tensor(dst=product, data1=product, data2=column, op=nl.multiply)
            nisa.scalar_tensor_tensor(
                dst=mean, data=mean, op0=nl.multiply, operand0=0.9, op1=nl.add, operand1=column
            )
        out = hbm((8, 3), nl.bfloat16)
        for i, held in enumerate((total, product, mean)):
            nisa.dma_copy(dst=out[0:8, i : i + 1], src=held)
        return out

    assert "D043" not in codes(kernel, bf16(8, 300))
