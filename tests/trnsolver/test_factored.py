"""Solutions from kept factors against systems solved by LAPACK in float64, on both paths.

A solution is off by at most 20 n roundings times the condition number, which is below 30 here.
"""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import trnsolver as ts
from each_case import each_case
from pairwise import pairwise
from required import requiring
from trnblas.nki.launches import MAX_ORDER
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError
from trnsci.core.interop import fake_tensor_mode
from trnsci.core.testing import (
    BACKENDS,
    launched,
    random_tensor,
    refusals_expected,
    strict_simulation,
    unit_roundoff,
)
from trnsolver.factored import CholeskyFactor, PivotedLU

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
OPS = {"N": lambda a: a, "T": lambda a: a.mT, "C": lambda a: a.mH}


def general(*shape, dtype=torch.float64):
    a = random_tensor(*shape, dtype=dtype)
    return a + 4 * torch.eye(shape[-1], dtype=dtype).flip(-1)


def definite(*shape, dtype=torch.float64):
    a = random_tensor(*shape, dtype=dtype)
    return a @ a.mH + 2 * torch.eye(shape[-1], dtype=dtype)


def assert_solves(a, x, b):
    """The backward error is of rounding: by the residual, which needs no condition number."""
    real = (a.real if a.is_complex() else a).dtype
    left = torch.linalg.vector_norm(a @ x - b)
    size = torch.linalg.vector_norm(a) * torch.linalg.vector_norm(x)
    assert float(left) <= 20 * a.shape[-1] * unit_roundoff(real) * float(size)


@each_case("n, dtype, backend", pairwise([1, 2, 5, 17], DTYPES, BACKENDS))
def test_solutions_of_every_dtype_and_transposition(n, dtype, backend):
    a, b = general(n, n, dtype=dtype), random_tensor(n, 3, dtype=dtype, seed=1)
    spd = definite(n, n, dtype=dtype)
    with ts.backend(backend), refusals_expected():
        factors, factor = ts.lu_factor(a), ts.cho_factor(spd)
        for trans, op in OPS.items():
            assert_solves(op(a), ts.lu_solve(factors, b, trans=trans), b)
            found = ts.lu_solve(factors, b[:, 0], trans=trans)
            torch.testing.assert_close(found, ts.lu_solve(factors, b, trans=trans)[:, 0])
        assert_solves(spd, ts.cholesky_solve(factor, b), b)
    if backend == "pytorch":
        assert np.array_equal(scipy.linalg.lu(a.numpy())[0].argmax(0), factors.rows.numpy())
        product = (factors.LU.tril(-1) + torch.eye(n, dtype=dtype)) @ factors.LU.triu()
        assert_solves(product, torch.eye(n, dtype=dtype), a[factors.rows])


@each_case("backend", BACKENDS)
def test_factors_and_sides_broadcast(backend):
    a, spd = general(2, 3, 4, 4).float(), definite(2, 3, 4, 4).float()
    sides = [
        random_tensor(*shape, seed=2)
        for shape in [(2, 3, 4, 2), (2, 3, 4), (4, 2), (4,), (3, 4, 1), (5, 1, 3, 4, 2)]
    ]
    with ts.backend(backend):
        for b in sides:
            for matrices in (a, a[0], a[0, 0]):
                vectors = b.ndim == 1 or (b.shape[:-1] == matrices.shape[:-2] and b.ndim < 4)
                if b.ndim > 1 and not vectors and b.shape[-2] != 4:
                    continue
                want = torch.linalg.solve(matrices.double(), b.double())
                found = ts.lu_solve(ts.lu_factor(matrices), b)
                assert found.shape == want.shape
                assert float((found - want).abs().max()) <= 20 * 4 * 6e-8 * 30
            want = torch.linalg.solve(spd.double(), b.double())
            found = ts.cholesky_solve(ts.cho_factor(spd), b)
            assert float((found - want).abs().max()) <= 20 * 4 * 6e-8 * 900


@each_case("shape", [(0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
@each_case("backend", BACKENDS)
def test_nothing_is_solved(shape, backend):
    with ts.backend(backend):
        a = torch.zeros(shape)
        b = torch.zeros(*shape[:-1], 2)
        assert ts.lu_solve(ts.lu_factor(a), b).shape == b.shape
        assert ts.cholesky_solve(ts.cho_factor(a), b).shape == b.shape
        assert ts.lu_solve(ts.lu_factor(torch.eye(3)), torch.zeros(3, 0)).shape == (3, 0)


@each_case("n, generation", [(5, "gen2"), (5, "gen3"), (5, "gen4"), (130, "gen2")])
def test_kernels_are_clean_on_every_generation(n, generation):
    dtype = torch.complex64 if n == 5 else torch.float32
    a, spd = general(n, n, dtype=dtype) + n * torch.eye(n), definite(n, n, dtype=dtype)
    b = random_tensor(n, 2, dtype=dtype, seed=1)
    with ts.backend("simulator"), strict_simulation(generation):
        with launched("lu", "cholesky"):
            factors, factor = ts.lu_factor(a), ts.cho_factor(spd)
        with launched("batched_trsm"):
            for trans, op in OPS.items():
                assert_solves(op(a), ts.lu_solve(factors, b, trans=trans), b)
        with launched("batched_trsm"):
            assert_solves(spd, ts.cholesky_solve(factor, b), b)


def test_kernels_take_every_order_up_to_a_limit_that_is_named():
    """The factor need not come from a kernel: that of order 1,024 and beyond is solved with too."""
    assert MAX_ORDER >= 1024
    with ts.backend("simulator"), fake_tensor_mode():
        for order, dtype in ((MAX_ORDER, torch.float32), (MAX_ORDER // 2, torch.complex64)):
            for n, path in ((order, "simulator"), (order + 1, "pytorch")):
                factor, b = torch.empty(n, n, dtype=dtype), torch.empty(n, 1, dtype=dtype)
                steps = explain(ts.cholesky_solve, CholeskyFactor(factor), b).steps
                assert [step.path for step in steps] == [path]
                assert (path == "simulator") or f"orders up to {order}" in steps[0].reason


def test_factors_of_a_torch_path_are_solved_with_on_kernels_and_back():
    a, b = general(6, 6).float(), random_tensor(6, 2, seed=1)
    with ts.backend("simulator"):
        on_kernel = ts.lu_factor(a)
    on_torch = ts.lu_factor(a)
    assert on_torch.scales is None
    assert on_kernel.scales is not None
    before = counts()
    assert_solves(a, ts.lu_solve(on_kernel, b), b)
    assert not (counts() - before).launches
    with ts.backend("simulator"), launched("batched_trsm"):
        assert_solves(a, ts.lu_solve(on_torch, b), b)


def test_graded_matrices_have_no_zero_pivots_on_kernels():
    scales = torch.tensor([1e-16, 1e3, 1.0, 1e-3])
    a = general(4, 4).float() * scales * scales.unsqueeze(-1)
    b = torch.ones(4)
    with ts.backend("simulator"):
        factors = ts.lu_factor(a)
        for trans, op in OPS.items():
            found = ts.lu_solve(factors, b, trans=trans)
            want = torch.linalg.solve(op(a).double(), b.double())
            assert float(((found - want) / want).abs().max()) <= 20 * 4 * 6e-8 * 30


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@each_case("dtype", [torch.float64, torch.complex128], ids=str)
@each_case("trans", [*OPS, "definite"])
def test_derivatives_by_the_matrix_the_factors_and_the_sides(trans, dtype):
    a, b = general(2, 3, 3, dtype=dtype), random_tensor(3, 2, dtype=dtype, seed=1)
    rows = ts.lu_factor(a).rows
    functions = (
        lambda a, b: ts.lu_solve(ts.lu_factor(a), b, trans=trans),
        lambda factors, b: ts.lu_solve(PivotedLU(factors, rows), b, trans=trans),
    )
    if trans == "definite":
        a = definite(3, 3, dtype=dtype)
        functions = (
            lambda a, b: ts.cholesky_solve(ts.cho_factor(0.5 * (a + a.mH)), b),
            lambda factor, b: ts.cholesky_solve(CholeskyFactor(factor), b),
        )
    for function in functions:
        leaves = [x.clone().requires_grad_() for x in (a, b)]
        assert gradcheck(function, leaves, check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(function, leaves, fast_mode=True)


@each_case("dtype", [torch.float32, torch.complex64], ids=str)
@each_case("name", ["N", "T", "C", "cholesky"])
def test_the_rules_of_kernels_are_the_derivatives_of_torch(name, dtype):
    a, b = general(2, 4, 4, dtype=dtype), random_tensor(2, 4, 3, dtype=dtype, seed=1)
    moved = random_tensor(2, 4, 4, dtype=dtype, seed=4), random_tensor(2, 4, 3, dtype=dtype, seed=5)
    rows = torch.tensor([[2, 0, 1, 3], [0, 1, 3, 2]])

    def solution(factor, b):
        if name == "cholesky":
            return ts.cholesky_solve(CholeskyFactor(factor + 3 * torch.eye(4)), b)
        return ts.lu_solve(PivotedLU(factor + 3 * torch.eye(4), rows), b, trans=name)

    found = []
    for backend, wide in (
        ("simulator", dtype),
        ("pytorch", torch.promote_types(dtype, torch.float64)),
    ):
        given = [x.to(wide).requires_grad_() for x in (a, b)]
        with ts.backend(backend):
            x = solution(*given)
            grads = torch.autograd.grad(
                x, given, random_tensor(*x.shape, dtype=dtype, seed=6).to(wide)
            )
            with forward_ad.dual_level():
                duals = [
                    forward_ad.make_dual(v.detach(), t.to(wide))
                    for v, t in zip(given, moved, strict=True)
                ]
                tangent = forward_ad.unpack_dual(solution(*duals)).tangent
        found.append([x.detach(), *grads, tangent])
    for got, want in zip(*found, strict=True):
        # Conditions of the triangles are below 30, and derivatives have their squares.
        allowed = 20 * 4 * unit_roundoff(torch.float32) * 900
        assert float((got - want).abs().max()) <= allowed * max(1.0, float(want.abs().max()))


SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_bad_matrices_are_named(backend):
    with ts.backend(backend):
        for a in (SINGULAR, torch.zeros(3, 3), torch.stack([torch.eye(2), SINGULAR])):
            with pytest.raises(ts.SingularMatrixError, match="lu_factor: A must not be singular"):
                ts.lu_factor(a)
        with pytest.raises(ts.NotPositiveDefiniteError, match="cho_factor: A must be"):
            ts.cho_factor(-torch.eye(2))
        for function in (ts.lu_factor, ts.cho_factor):
            with pytest.raises(ValueError, match="A must be square"):
                function(torch.ones(2, 3))


BAD = {
    "lu_solve: factors must be what lu_factor returns, got Tensor": (
        TypeError,
        lambda: ts.lu_solve(torch.eye(2), torch.ones(2)),
    ),
    "cholesky_solve: factor must be what cho_factor returns, got PivotedLU": (
        TypeError,
        lambda: ts.cholesky_solve(ts.lu_factor(torch.eye(2)), torch.ones(2)),
    ),
    "lu_solve: trans must be one of N, T, C, got 'H'": (
        ValueError,
        lambda: ts.lu_solve(ts.lu_factor(torch.eye(2)), torch.ones(2), trans="H"),
    ),
    "lu_solve: A and B must have as many rows": (
        ValueError,
        lambda: ts.lu_solve(ts.lu_factor(torch.eye(2)), torch.ones(3)),
    ),
    "cholesky_solve: A and B must have as many rows": (
        ValueError,
        lambda: ts.cholesky_solve(ts.cho_factor(torch.eye(2)), torch.ones(3, 1)),
    ),
    "cholesky_solve: the batch dimensions of A and B must broadcast": (
        ValueError,
        lambda: ts.cholesky_solve(ts.cho_factor(torch.eye(2).expand(3, 2, 2)), torch.ones(4, 2, 1)),
    ),
    "lu_solve: .*float32 .*float64": (
        TypeError,
        lambda: ts.lu_solve(ts.lu_factor(torch.eye(2)), torch.ones(2).double()),
    ),
}


@each_case("message", BAD)
def test_bad_arguments_are_named(message):
    error, call = BAD[message]
    with pytest.raises(error, match=message):
        call()


def test_a_refusal_raises_where_kernels_are_required():
    factors = ts.lu_factor(torch.eye(2).double())
    with requiring("trnsolver"), pytest.raises(BackendError, match="float64"):
        ts.lu_solve(factors, torch.ones(2).double())
