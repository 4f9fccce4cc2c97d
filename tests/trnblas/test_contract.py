"""Known values, and identities over shapes that Hypothesis draws."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnblas
from drawn import examples
from oracles import blas as oracle

from .agreement import array, assert_agrees, draw

sizes = st.integers(0, 9)
seeds = st.integers(0, 2**16)


def test_level_1_values():
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
    assert torch.equal(trnblas.axpy(2.0, x, y), torch.tensor([6.0, 9.0, 12.0]))
    assert torch.equal(trnblas.axpy(0, x, y), y)
    assert trnblas.dot(x, y) == 32
    assert torch.equal(trnblas.scal(3.0, x), torch.tensor([3.0, 6.0, 9.0]))
    assert trnblas.asum(torch.tensor([1.0, -2.0, 3.0])) == 6
    assert trnblas.asum(torch.tensor([3 + 4j, -5j])) == 12  # |re| + |im|, as in BLAS
    assert trnblas.asum(torch.tensor([-128, 127], dtype=torch.int8)) == 255
    assert trnblas.nrm2(torch.tensor([3.0, 4.0])) == 5
    assert trnblas.iamax(torch.tensor([1.0, -5.0, 3.0, -2.0])) == 1
    z = torch.tensor([1j, 2.0])
    assert trnblas.dot(z, z) == 3  # nothing is conjugated
    assert trnblas.dotc(z, z) == 5
    assert [t.tolist() for t in trnblas.swap(x, y)] == [[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]]


def test_level_2_values():
    one = torch.ones(2)
    assert torch.equal(
        trnblas.trmv(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), one), torch.tensor([3.0, 3.0])
    )
    assert torch.equal(
        trnblas.trmv(torch.tensor([[99.0, 2.0], [0.0, 99.0]]), one, diag="unit"),
        torch.tensor([3.0, 1.0]),
    )
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    outer = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    assert torch.equal(trnblas.ger(1.0, x, y), outer)
    assert torch.equal(trnblas.ger(2.0, x, y, outer), 3 * outer)


def test_identities_give_back_the_operand():
    a, eye = draw((16, 16), torch.float32, 42), torch.eye(16)
    assert torch.equal(trnblas.gemm(1.0, a, eye), a)
    assert torch.equal(trnblas.gemm(1.0, eye, a), a)
    assert torch.equal(trnblas.trsm(1.0, eye, a), a)
    assert torch.equal(trnblas.symm(1.0, eye, a), a)
    upper = torch.tensor([[2.0, 1.0], [0.0, 3.0]])
    assert torch.equal(trnblas.trmm(1.0, upper, torch.eye(2)), upper)


def test_batches_equal_their_slices():
    a, b = draw((8, 16, 32), torch.float64, 0), draw((8, 32, 24), torch.float64, 1)
    got = trnblas.batched_gemm(1.0, a, b)
    for i in range(8):
        magnitude = np.abs(array(a[i])) @ np.abs(array(b[i]))
        want = array(trnblas.gemm(1.0, a[i], b[i]))
        assert_agrees(got[i], want, torch.float64, 2 * 34, magnitude)


def test_a_strided_batch_of_overlapping_windows():
    signal = draw((64,), torch.float64, 3)
    windows = signal.as_strided((5, 8, 4), (4, 2, 1))
    b = draw((4, 3), torch.float64, 4)
    got = trnblas.batched_gemm(1.0, windows, b)
    want = oracle.gemm(1.0, array(windows.clone()), array(b))
    assert_agrees(got, want, torch.float64, 6, np.abs(array(windows.clone())) @ np.abs(array(b)))


@given(m=sizes, n=sizes, k=sizes, seed=seeds, batch=st.lists(st.integers(1, 3), max_size=2))
def test_gemm_of_any_shape(m, n, k, seed, batch):
    a, b = draw((*batch, m, k), torch.float32, seed), draw((k, n), torch.float32, seed + 1)
    c = draw((n,), torch.float32, seed + 2)
    arrays = array(a), array(b), array(c)
    want = oracle.gemm(0.5, arrays[0], arrays[1], -2.0, arrays[2])
    moduli = [np.abs(x) for x in arrays]
    magnitude = oracle.gemm(0.5, moduli[0], moduli[1], 2.0, moduli[2])
    assert_agrees(trnblas.gemm(0.5, a, b, -2.0, c), want, torch.float32, k + 4, magnitude)


@given(m=st.integers(1, 40), n=sizes, seed=seeds, upper=st.booleans(), left=st.booleans())
def test_solving_undoes_multiplying(m, n, seed, upper, left):
    a = draw((m, m), torch.float64, seed) / m + 2 * torch.eye(m, dtype=torch.float64)
    b = draw((m, n) if left else (n, m), torch.float64, seed + 1)
    options = {"side": "left" if left else "right", "uplo": "upper" if upper else "lower"}
    x = trnblas.trsm(1.0, a, b, **options)
    back = trnblas.trmm(1.0, a, x, **options)
    triangle = np.abs(oracle.triangle(array(a), options["uplo"]))
    # Backward error of a triangular solve, and the error of the product that undoes it.
    magnitude = triangle @ np.abs(array(x)) if left else np.abs(array(x)) @ triangle
    assert_agrees(back, array(b), torch.float64, 2 * m + 8, magnitude)


@examples(50)
@given(n=st.integers(1, 300), k=st.integers(0, 20), seed=seeds, trans=st.booleans())
def test_syrk_equals_gemm_and_is_symmetric(n, k, seed, trans):
    a = draw((k, n) if trans else (n, k), torch.float64, seed)
    got = trnblas.syrk(1.0, a, trans=trans)
    assert torch.equal(got, got.mT)
    wide = array(a).T if trans else array(a)
    assert_agrees(got, wide @ wide.T, torch.float64, 2 * k + 4, np.abs(wide) @ np.abs(wide).T)


@given(exponents=st.lists(st.integers(-1060, 1020), min_size=1, max_size=6), seed=seeds)
def test_nrm2_over_the_whole_range(exponents, seed):
    factors = draw((len(exponents),), torch.float64, seed).clamp(-1.5, 1.5)
    x = torch.ldexp(factors / 4, torch.tensor([float(e) for e in exponents], dtype=torch.float64))
    want = float(oracle.nrm2(x.numpy()))
    assert abs(float(trnblas.nrm2(x)) - want) <= 12 * 2.0**-53 * want + 2.0**-1073
