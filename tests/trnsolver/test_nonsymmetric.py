"""Eigenvalues of general matrices by their definition, against SciPy and exact spectra.

Each computed pair is exact for a matrix that differs from A by a small multiple of n roundings of
its norm (Anderson and others, LAPACK Users' Guide, section 4.8): 20 n are allowed.
"""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, jvp, vmap

import trnsolver as ts
from each_case import each_case
from required import requiring
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, DerivativeError
from trnsci.core.testing import BACKENDS, random_tensor, refusals_expected, unit_roundoff

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def allowed(a):
    return 20 * a.shape[-1] * unit_roundoff(a.real.dtype if a.is_complex() else a.dtype)


def companion(roots):
    """The matrix of the polynomial with these roots."""
    coefficients = np.poly(roots)
    return torch.from_numpy(scipy.linalg.companion(coefficients))


@each_case("backend", BACKENDS)
@each_case("dtype", DTYPES, ids=str)
@each_case("shape", [(1, 1), (2, 2), (9, 9), (3, 6, 6), (2, 2, 4, 4)], ids=str)
def test_pairs_of_every_dtype_and_batch(shape, dtype, backend):
    a = random_tensor(*shape, dtype=dtype)
    with ts.backend(backend), refusals_expected():
        w, v = found = ts.eig(a)
        values = ts.eigvals(a)
    assert found.eigenvalues is w
    assert found.eigenvectors is v
    assert w.dtype == v.dtype == values.dtype == torch.promote_types(dtype, torch.complex64)
    size = torch.linalg.matrix_norm(a)[..., None, None]
    assert bool(((a.to(v.dtype) @ v - v * w.unsqueeze(-2)).abs() <= allowed(a) * size).all())
    norms = torch.linalg.vector_norm(v, dim=-2)
    assert float((norms - 1).abs().max()) <= allowed(a)
    for got, got_alone, matrix in zip(
        w.reshape(-1, shape[-1]),
        values.reshape(-1, shape[-1]),
        a.reshape(-1, *shape[-2:]),
        strict=True,
    ):
        want, left, right = scipy.linalg.eig(matrix.numpy(), left=True)
        # First order: the error of a value is that of the matrix over the cosine of its vectors.
        cosine = np.abs((left.conj() * right).sum(0)).min()
        bound = 4 * allowed(a) * np.linalg.norm(matrix.numpy()) / cosine
        for computed in (got, got_alone):
            distances = np.abs(computed.numpy()[:, None] - want[None])
            assert distances.min(0).max() <= bound
            assert distances.min(1).max() <= bound


def test_exact_spectra():
    rotation = torch.tensor([[0.0, -3.0], [3.0, 0.0]], dtype=torch.float64)
    found = ts.eigvals(rotation).imag.sort().values
    assert float((found - torch.tensor([-3.0, 3.0])).abs().max()) <= 3 * allowed(rotation)
    roots = np.array([-2.0, 0.5, 1 + 2j, 1 - 2j])
    found = ts.eigvals(companion(roots)).numpy()
    assert np.abs(np.sort_complex(found) - np.sort_complex(roots)).max() <= 1e-13
    triangle = random_tensor(5, 5, dtype=torch.float64).triu()
    assert torch.equal(ts.eigvals(triangle).real.sort().values, triangle.diagonal().sort().values)


@each_case("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_matrices_have_results_in_complex64(dtype):
    a = random_tensor(4, 4).to(dtype)
    for got, want in zip(ts.eig(a), ts.eig(a.float()), strict=True):
        assert got.dtype is torch.complex64
        assert torch.equal(got, want)


@each_case("shape", [(0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
def test_nothing_has_no_pairs(shape):
    w, v = ts.eig(torch.zeros(shape))
    assert w.shape == ts.eigvals(torch.zeros(shape)).shape == shape[:-1]
    assert v.shape == shape


def free(a):
    """What does not depend on the order of pairs within rounding, nor on phases."""
    w, v = ts.eig(a)
    return torch.view_as_real(w), v.abs()


@each_case("dtype", [torch.float64, torch.complex128], ids=str)
@each_case("shape", [(3, 3), (2, 3, 3)], ids=str)
def test_derivatives(shape, dtype):
    a = random_tensor(*shape, dtype=dtype) + torch.diag(torch.tensor([1.0, 4.0, -3.0])).to(dtype)
    a.requires_grad_()
    assert gradcheck(free, a, check_forward_ad=True)
    assert gradcheck(lambda x: torch.view_as_real(ts.eigvals(x)), a, check_forward_ad=True)
    assert gradgradcheck(lambda x: ts.eigvals(x).abs(), a)
    assert gradgradcheck(lambda x: ts.eig(x).eigenvectors.abs(), a)


def test_transforms():
    a = random_tensor(4, 3, 3, dtype=torch.float64)
    energy = lambda x: (ts.eigvals(x).abs() ** 2).sum() + (ts.eig(x)[1].abs() ** 4).sum()  # noqa: E731
    want = torch.stack([grad(energy)(x) for x in a])
    torch.testing.assert_close(vmap(grad(energy))(a), want)
    direction = random_tensor(3, 3, dtype=torch.float64, seed=1)
    along = jvp(energy, (a[0],), (direction,))[1]
    torch.testing.assert_close(along, (want[0] * direction).sum())


JORDAN = torch.tensor([[2.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
TWICE = torch.diag(torch.tensor([2.0, 2.0, 5.0], dtype=torch.float64))


def test_derivatives_that_do_not_exist_are_refused_by_name():
    vectors = lambda x: ts.eig(x).eigenvectors.abs().pow(3).sum()  # noqa: E731
    for function in (lambda x: ts.eigvals(x).abs().sum(), lambda x: ts.eig(x)[0].abs().sum()):
        for matrix in (JORDAN, torch.stack([JORDAN, JORDAN.mT])):
            with pytest.raises(DerivativeError, match="A has no basis of eigenvectors"):
                function(matrix.clone().requires_grad_()).backward()
            with pytest.raises(DerivativeError, match="A has no basis of eigenvectors"):
                grad(function)(matrix)
            with pytest.raises(DerivativeError, match=r"no basis|equal eigenvalues"):
                jvp(function, (matrix,), (torch.ones_like(matrix),))
    for transformed in (
        lambda: vectors(TWICE.clone().requires_grad_()).backward(),
        lambda: grad(vectors)(TWICE),
        lambda: jvp(vectors, (TWICE,), (torch.ones_like(TWICE),)),
    ):
        with pytest.raises(DerivativeError, match="eigenvectors of equal eigenvalues have no"):
            transformed()


def test_equal_values_with_a_basis_have_the_derivatives_of_their_sum():
    """As ``eigvalsh``: the sum of all values is the trace."""
    a = TWICE.clone().requires_grad_()
    ts.eigvals(a).real.sum().backward()
    torch.testing.assert_close(a.grad, torch.eye(3, dtype=a.dtype))
    b = TWICE.clone().requires_grad_()
    ts.eig(b).eigenvalues.real.sum().backward()
    torch.testing.assert_close(b.grad, torch.eye(3, dtype=a.dtype))


@each_case("function", [ts.eig, ts.eigvals])
def test_what_is_refused_is_named(function):
    name = function.__name__
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ts.NotFiniteError, match=f"{name}: A must be finite"):
            function(torch.tensor([[1.0, bad], [0.0, 1.0]]))
    with pytest.raises(ValueError, match=f"{name}: A must be square"):
        function(torch.ones(2, 3))
    with pytest.raises(TypeError, match="floating point"):
        function(torch.ones(2, 2, dtype=torch.int64))


@each_case("function", [ts.eig, ts.eigvals])
def test_calls_on_kernels_are_counted(function):
    a, before = random_tensor(3, 3), counts()
    with ts.backend("simulator"), refusals_expected():
        function(a)
        steps = explain(function, a).steps
    assert [step.path for step in steps] == ["pytorch"]
    assert "no kernel" in steps[0].reason
    assert (counts() - before).no_kernel == {f"trnsolver.{function.__name__}": 1}
    with requiring("trnsolver", level="all"), pytest.raises(BackendError, match="no kernel"):
        function(a)


def test_an_iteration_that_fails_is_named(monkeypatch):
    def fails(*given):
        raise torch.linalg.LinAlgError("the algorithm failed to converge")

    monkeypatch.setattr(torch.linalg, "eig", fails)
    with pytest.raises(ts.ConvergenceError, match="eig: the algorithm failed"):
        ts.eig(torch.eye(2))
