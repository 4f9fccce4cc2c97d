"""Operands that an iterative solver cannot use, or only with care, and what is said of them."""

import math

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch

import trnsolver
from each_case import each_case
from trnsci.core.errors import DTypeError, FlagError, ShapeError, TrnsciError
from trnsci.core.testing import random_tensor

SOLVERS = ("cg", "minres", "bicgstab", "gmres", "fgmres")


def system(n=8, dtype=torch.float64):
    z = random_tensor(n, n, dtype=dtype)
    return z @ z.mH + torch.eye(n), random_tensor(n, dtype=dtype, seed=1)


@each_case("name", SOLVERS)
@each_case("dtype", [torch.float32, torch.float64], ids=str)
@each_case("edge", ["largest", "smallest"])
@each_case("dense", [True, False])
def test_right_sides_at_the_ends_of_the_numbers(name, dtype, edge, dense):
    a, b = system(dtype=torch.float64)
    a = a.to(dtype)
    info = torch.finfo(dtype)
    # The norm of the one is infinite, that of the other zero, in the precision of b.
    unit = info.max / 16 if edge == "largest" else info.tiny * 2**24
    unit = 2.0 ** math.floor(math.log2(unit))
    want = getattr(trnsolver, name)(a, b.to(dtype) / 8)
    told = []
    found = getattr(trnsolver, name)(
        a if dense else (lambda v: a @ v),
        (b.to(dtype) / 8) * unit,
        callback=told.append,
    )
    assert found.converged
    assert found.iterations == want.iterations
    assert 0 < found.residual <= 1e-6
    close = (found.x.double() / unit - want.x.double()).abs().max()
    assert float(close) <= 1e-5 * float(want.x.abs().max())
    if told[-1].x is not None:
        assert float((told[-1].x.double() / unit - want.x.double()).abs().max()) <= 1e-4


@each_case("name", SOLVERS)
@each_case("bad", [math.nan, math.inf])
@each_case("place", ["A", "b", "x0"])
def test_what_is_no_number_is_never_a_solution(name, bad, place):
    a, b = system()
    operands = {"A": a, "b": b, "x0": torch.zeros_like(b)}
    operands[place][2] = bad
    result = getattr(trnsolver, name)(**operands, on_failure="ignore")
    assert (result.converged, result.info.reason) == (False, "diverged")


@each_case("name", SOLVERS)
@each_case("which", ["A", "M"])
def test_products_that_do_not_fit_are_named(name, which):
    a, b = system()
    right = (lambda v: a @ v) if which == "A" else (lambda v: v / a.diagonal())

    def call(product):
        given = {"A": a, "M": None, which: product}
        return getattr(trnsolver, name)(given["A"], b, M=given["M"], tol=1e-4)

    for wrong in (lambda v: right(v)[:4], lambda v: right(v)[:1], lambda v: right(v)[:, None]):
        with pytest.raises(ShapeError, match=rf"{name}: products with {which}"):
            call(wrong)
    for wrong in (lambda v: None, lambda v: 3.0, lambda v: right(v) + 0j):
        with pytest.raises(DTypeError, match=rf"{name}: products with {which}"):
            call(wrong)
    for fine in (lambda v: right(v).float(), lambda v: right(v).numpy()):
        assert call(fine).converged
    with pytest.raises(ShapeError, match=f"{name}: {which} must be square"):
        call(torch.eye(7, dtype=b.dtype))
    with pytest.raises(DTypeError, match=f"{name}: {which} must be a tensor"):
        call("eye")


@pytest.mark.parametrize("name", SOLVERS)
def test_imaginary_parts_are_not_dropped(name):
    a, b = system()
    solver = getattr(trnsolver, name)
    for given in ((a + 0j, b), (a, b, b + 0j)):
        with pytest.raises(DTypeError, match="complex, where b is real"):
            solver(*given)
    with pytest.raises(DTypeError, match="complex, where b is real"):
        solver(a, b, M=torch.eye(8) + 0j)
    assert solver(a, b + 1j * b).converged


@pytest.mark.parametrize("function", [trnsolver.solve, trnsolver.solve_spd, trnsolver.lstsq])
def test_complex_right_sides_of_real_matrices_are_refused(function):
    a, b = system()
    with pytest.raises(DTypeError, match="A and B must have one dtype"):
        function(a, b + 1j * b)


@pytest.mark.parametrize("name", SOLVERS)
def test_operators_of_scipy_and_their_gradients(name):
    a, b = system()
    solver = getattr(trnsolver, name)
    want = torch.linalg.solve(a, b)
    operators = (
        scipy.sparse.linalg.aslinearoperator(a.numpy()),
        scipy.sparse.csr_array(a.numpy()),
        a.numpy(),
    )
    for operator in operators:
        side = b.clone().requires_grad_()
        found = solver(operator, side, tol=1e-12)
        assert float((found.x.detach() - want).abs().max()) <= 1e-9
        (grad,) = torch.autograd.grad(found.x.sum(), side)
        assert float((a.mH @ grad - 1).abs().max()) <= 1e-5
    inverse = scipy.sparse.linalg.aslinearoperator(np.linalg.inv(a.numpy()))
    assert solver(a, b, M=inverse).iterations <= 2


@pytest.mark.parametrize("name", SOLVERS)
def test_options_that_are_none(name):
    a, b = system()
    solver = getattr(trnsolver, name)
    for options in ({"max_iter": -1}, {"max_iter": 2.5}, {"tol": math.nan}, {"callback": 3}):
        with pytest.raises(FlagError, match=next(iter(options))):
            solver(a, b, **options)
    with pytest.raises(KeyError, match="mine"):
        solver(a, b, callback=lambda progress: {}["mine"])


def test_minres_starts_anew_where_its_recurrence_is_ahead_of_x():
    for seed in range(20):
        z = random_tensor(30, 30, seed=seed)
        a, b = z @ z.mT + 4 * torch.eye(30), random_tensor(30, seed=seed + 100)
        result = trnsolver.minres(a, b, tol=3e-6)
        assert result.converged
        left = torch.linalg.vector_norm(b.double() - a.double() @ result.x.double()) / b.norm()
        assert float(left) <= 3.5e-6


@pytest.mark.parametrize("directions", ["zeros", "equal"])
def test_recycled_directions_may_depend_on_each_other(directions):
    a, b = system()
    d = torch.zeros(8, 3) if directions == "zeros" else b[:, None].expand(8, 3)
    assert trnsolver.fgmres(a, b, recycle=(d, d)).converged
    with pytest.raises(ShapeError, match="recycle"):
        trnsolver.fgmres(a, b, recycle=(d[:5], d[:5]))


def test_real_preconditioners_take_complex_vectors():
    a, b = system(20)
    side = b + 1j * random_tensor(20, dtype=torch.float64, seed=2)
    makers = (
        trnsolver.jacobi_preconditioner,
        trnsolver.block_jacobi_preconditioner,
        trnsolver.ssor_preconditioner,
        trnsolver.ichol_preconditioner,
    )
    for make in makers:
        apply = make(a)
        parts = torch.complex(apply(side.real), apply(side.imag))
        assert float((apply(side) - parts).abs().max()) <= 1e-13
        assert trnsolver.cg(a, side, M=apply).converged
        make(torch.empty(0, 0))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_matrices_that_are_no_numbers_are_named(bad, capfd):
    a, b = system()
    a[3, 1] = bad
    side = b.clone()
    side[0] = bad
    calls = {
        "lstsq: A": lambda: trnsolver.lstsq(a, b),
        "lstsq: B": lambda: trnsolver.lstsq(system()[0], side),
        "pinv": lambda: trnsolver.pinv(a),
        "eigsh": lambda: trnsolver.eigsh(a, 2),
        "svds": lambda: trnsolver.svds(a, 2),
        "rsvd": lambda: trnsolver.rsvd(a, 2),
        "eigh_randomized": lambda: trnsolver.eigh_randomized(a, 2),
        "nystrom": lambda: trnsolver.nystrom(a, 2),
        "eigh_generalized: A": lambda: trnsolver.eigh_generalized(a, system()[0]),
    }
    for message, call in calls.items():
        with pytest.raises(trnsolver.NotFiniteError, match=message):
            call()
    assert trnsolver.inv_sqrt_spd_ns(a, on_failure="ignore").info.reason == "diverged"
    assert trnsolver.lobpcg(a, 2, on_failure="ignore").info.reason == "diverged"
    assert capfd.readouterr() == ("", "")


def test_finite_numbers_whose_sum_has_no_modulus_are_finite():
    a = torch.diag(torch.tensor([1.5e308, 1.5e308j], dtype=torch.complex128))
    assert torch.equal(trnsolver.schur(a)[0], a)
    unit = trnsolver.lstsq(a, a).solution - torch.eye(2)
    assert float(unit.abs().max()) <= 1e-15


@pytest.mark.parametrize("options", [{}, {"k": 1}, {"tol": 1e-8}, {"tol": 1e-8, "k": 1}], ids=str)
def test_the_upper_triangle_may_hold_anything(options):
    a, _ = system()
    want = torch.linalg.eigvalsh(a)
    a[1, 3] = math.nan
    w = trnsolver.eigh(a, **options)[0]
    assert float((w - want[: len(w)]).abs().max()) <= 1e-12
    root = trnsolver.inv_sqrt_spd(a)
    assert bool(torch.isfinite(root).all())


def test_newton_schulz_of_a_negative_matrix_diverges():
    assert trnsolver.inv_sqrt_spd_ns(-system()[0], on_failure="ignore").info.reason == "diverged"


@each_case("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@each_case("edge", ["largest", "smallest"])
def test_signs_and_roots_at_the_ends_of_the_numbers(dtype, edge):
    info = torch.finfo(dtype)
    unit = 2.0 ** round(math.log2(info.max) - 8 if edge == "largest" else math.log2(info.tiny) + 12)
    a, _ = system(dtype=torch.float64)
    a = (a / a.abs().max()).to(dtype)
    for function in (trnsolver.msign, trnsolver.orthogonalize):
        want, found = function(a), function(a * unit)
        assert float((found - want).double().abs().max()) <= 8 * info.eps
        batch = function(torch.stack([a, a * unit]))
        assert float((batch[0] - batch[1]).double().abs().max()) <= 8 * info.eps
    if dtype is not torch.bfloat16:
        tol = 100 * info.eps
        found = trnsolver.inv_sqrt_spd_ns(a * unit, tol=tol)
        want = trnsolver.inv_sqrt_spd_ns(a, tol=tol)
        assert found.converged
        assert found.iterations == want.iterations
        # The root of a unit that is no square is not exact.
        error = found.x.double() * unit**0.5 - want.x.double()
        assert float(error.abs().max()) <= 1e4 * info.eps * float(want.x.abs().max())


def test_options_of_direct_solvers_that_are_none():
    a, b = system()
    calls = {
        "subset must be two": lambda: trnsolver.eigh(a, subset=(0, 1, 2)),
        "subset must be": lambda: trnsolver.eigh(a, subset=3),
        "max_sweeps": lambda: trnsolver.eigh(a, max_sweeps=0),
        "eigh_randomized: power_iterations": lambda: trnsolver.eigh_randomized(
            a, 2, power_iterations=-1
        ),
        "pinv: rcond": lambda: trnsolver.pinv(a, rcond=math.nan),
        "lstsq: rcond": lambda: trnsolver.lstsq(a, b, rcond=-1.0),
        "tol must be at least 0": lambda: trnsolver.inv_sqrt_spd_ns(a, tol=math.nan),
    }
    for message, call in calls.items():
        with pytest.raises(FlagError, match=message):
            call()
    for message, given in (("2-D", (a.expand(2, 8, 8),)), ("pattern", (a, torch.ones(3, 3)))):
        with pytest.raises(ShapeError, match=message):
            trnsolver.ichol_preconditioner(*given)


def test_a_matrix_of_zeros_is_semidefinite():
    found = trnsolver.nystrom(torch.zeros(8, 8), 3)
    # What is left is the rounding of the shift that was taken off again.
    assert float(found.eigenvalues.abs().max()) <= 1e-5 * torch.finfo(torch.float32).tiny ** 0.5
    assert float((found.U.mT @ found.U - torch.eye(3)).abs().max()) <= 1e-5


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_lobpcg_names_a_start_that_is_not_finite(bad):
    start = torch.ones(12, 2, dtype=torch.float64)
    start[0, 1] = bad
    with pytest.raises(trnsolver.NotFiniteError, match="lobpcg: X must be finite"):
        trnsolver.lobpcg(torch.eye(12, dtype=torch.float64), start)


# -- values that cannot be read --------------------------------------------------------------------

BATCH = torch.stack([3.0 * torch.eye(6), 4.0 * torch.eye(6)]) + 0.1
READ = {
    "block_jacobi_preconditioner": lambda a: trnsolver.block_jacobi_preconditioner(a, 2)(a[0]),
    "cg": lambda a: trnsolver.cg(a, a[0].detach(), M=a).x,
    "eigh": lambda a: trnsolver.eigh(a, 1e-5)[0],
    "ichol_preconditioner": lambda a: trnsolver.ichol_preconditioner(a)(a[0]),
    "jacobi_preconditioner": lambda a: trnsolver.jacobi_preconditioner(a)(a[0]),
    "eigsh": lambda a: trnsolver.eigsh(a, 2)[0],
    "lobpcg": lambda a: trnsolver.lobpcg(a, 2)[0],
    "svds": lambda a: trnsolver.svds(a, 2).s,
    "polar": lambda a: trnsolver.polar(a, method="qdwh")[0],
    "schur": lambda a: trnsolver.schur(a)[0],
    "solve": lambda a: trnsolver.solve(a, a[0], target_forward_error=1e-5).x,
    "ssor_preconditioner": lambda a: trnsolver.ssor_preconditioner(a)(a[0]),
}


@pytest.mark.parametrize("name", READ)
def test_functions_of_values_name_themselves_under_vmap(name):
    with pytest.raises(TrnsciError, match=f"^{name}: "):
        torch.func.vmap(READ[name])(BATCH)
    for one in BATCH:
        READ[name](one)


@pytest.mark.parametrize("name", [name for name in READ if "preconditioner" in name])
def test_preconditioners_are_made_inside_of_derivatives(name):
    torch.func.grad(lambda a: READ[name](a).sum())(BATCH[0])
