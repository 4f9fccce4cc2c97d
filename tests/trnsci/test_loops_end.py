"""Every public loop ends within its limit, whatever the numbers are.

NaN, infinities, and values whose squares, products or quotients overflow or underflow are put into
every argument, in every dtype. Calls and products with the matrix are counted; the counters raise
at a limit, so that a loop without an end is a failure and not a wait.
"""

import inspect
import itertools
import math

import pytest
import torch
from torch.overrides import TorchFunctionMode

import nkisim
import trnsolver
import trnsparse
import trntensor
from each_case import each_case
from trnsci.core.backend.launch import SIMULATE
from trnsci.core.counters import counts
from trnsci.core.errors import TrnsciError
from trnsci.core.testing import random_tensor

LIMIT = 3
"""Steps that every loop is given."""
MOST_CALLS = 6000
"""Calls of torch within ``LIMIT`` steps: the longest loop, of Tucker factors, makes about 2,000."""
MOST_PRODUCTS = 40 * LIMIT
"""Products with one matrix: blocks of lobpcg take up to 30 for each step."""
MOST_INSTRUCTIONS = 200_000
"""Instructions of simulated kernels within ``LIMIT`` steps."""
N = 6
Z = random_tensor(N, N, dtype=torch.complex128, seed=3) / N**0.5
POSITIVE = Z @ Z.mH + 2 * torch.eye(N)
B = random_tensor(N, dtype=torch.complex128, seed=1)
CUBE = random_tensor(4, 3, 4, dtype=torch.complex128, seed=2)
BLOCK = random_tensor(N, 2, dtype=torch.complex128, seed=4)
DTYPES = (torch.complex128,)
OTHER_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)


class Endless(AssertionError):
    """A counter is over its limit."""


class Calls(TorchFunctionMode):
    """Counts calls of torch, and raises above a limit."""

    made = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.made += 1
        if self.made > MOST_CALLS:
            raise Endless(f"{self.made} calls of torch within {LIMIT} steps")
        return function(*args, **(kwargs or {}))


def counted(matrix):
    """Return the product with a matrix as a function that raises after too many products."""
    made = 0

    def product(v):
        nonlocal made
        made += 1
        if made > MOST_PRODUCTS:
            raise Endless(f"{made} products within {LIMIT} steps")
        return matrix.to(v.dtype) @ v

    return product


def counted_kernel(kernel):
    """Return a simulated kernel that raises after too many instructions."""
    made = 0

    def count(event):
        nonlocal made
        made += 1
        if made > MOST_INSTRUCTIONS:
            raise Endless(f"{made} instructions within {LIMIT} steps")

    return nkisim.simulate(kernel, watchers=(count,))


def krylov(solver, **options):
    def call(A, b, x0, tol, atol, **more):
        found = solver(A, b, x0, tol, LIMIT, atol=atol, on_failure="ignore", **options, **more)
        assert "restart" in options or found.iterations <= LIMIT
        return found

    return call, {"A": POSITIVE, "b": B, "x0": B, "tol": 1e-6, "atol": 0.0}


def of(kind, loop, *taken):
    """Return a loop whose arguments A, B and M are of another type."""
    call, operands = loop

    def typed(**arguments):
        for name in set(arguments) & {"A", "M", *taken}:
            arguments[name] = kind(arguments[name])
        return call(**arguments)

    return typed, operands


def with_m(loop):
    return loop[0], {**loop[1], "M": POSITIVE}


def in_blocks(matrix):
    return trnsparse.BSRMatrix.from_dense(matrix, 2)


def recycling(A, b, x0, tol, atol, U):
    kept = {"keep": 2, "recycle": (U, U), "restart": LIMIT, "on_failure": "ignore"}
    return trnsolver.fgmres(A, b, x0, tol, LIMIT, atol=atol, **kept)


def fixed(solver, scalars):
    def call(A, b, x0, **more):
        return solver(A, b, x0=x0, K=LIMIT, on_failure="ignore", **more)

    return call, {"A": POSITIVE, "b": B, "x0": B, **scalars}


def power_iteration(A, v0, tol):
    return trnsparse.power_iteration(A, v0, LIMIT, tol, on_failure="ignore")


def lobpcg(A, X, B, M, tol):
    found = trnsolver.lobpcg(A, X, B, M, tol=tol, max_iter=LIMIT, on_failure="ignore")
    assert len(found.info.residuals) <= LIMIT + 1
    return found


def eigsh(A, v0, tol):
    found = trnsolver.eigsh(A, 2, v0=v0, ncv=4, tol=tol, max_iter=LIMIT, on_failure="ignore")
    assert len(found.info.residuals) <= LIMIT
    return found


def svds(A, v0, tol):
    return trnsolver.svds(A, 2, v0=v0, ncv=4, tol=tol, max_iter=LIMIT, on_failure="ignore")


def eigh(method):
    return lambda A, tol: trnsolver.eigh(
        A, tol, method=method, max_sweeps=LIMIT, on_failure="ignore"
    )


def cp(tensor, factor, tol):
    start = [factor[:size] for size in tensor.shape]
    found = trntensor.cp_decompose(
        tensor, 2, LIMIT, tol, factors=start, on_failure="ignore", return_report=True
    )
    assert found[-1].sweeps <= LIMIT
    return found


PAIRS = {"A": POSITIVE, "tol": 1e-6}
OF_PAIRS = {"A": POSITIVE, "X": BLOCK, "B": POSITIVE, "M": POSITIVE, "tol": 1e-6}
BOUNDS = {"lam_min": 1.0, "lam_max": 9.0}
SPARSE = trnsparse.from_dense
LOOPS = {
    **{
        f"trnsolver.{name}{kind}": each
        for name in ("cg", "minres", "bicgstab")
        for kind, each in {
            "": krylov(getattr(trnsolver, name)),
            " with M": with_m(krylov(getattr(trnsolver, name))),
            " of a function": of(counted, with_m(krylov(getattr(trnsolver, name)))),
        }.items()
    },
    "trnsolver.gmres": with_m(krylov(trnsolver.gmres, restart=LIMIT)),
    "trnsolver.gmres of a function": of(counted, krylov(trnsolver.gmres, restart=LIMIT)),
    "trnsolver.fgmres": (recycling, {**krylov(trnsolver.fgmres)[1], "U": BLOCK}),
    "trnsolver.fgmres of a function": of(counted, krylov(trnsolver.fgmres, restart=LIMIT, keep=1)),
    "trnsparse.cg": of(SPARSE, krylov(trnsparse.cg)),
    "trnsparse.cg with M": of(SPARSE, with_m(krylov(trnsparse.cg))),
    "trnsparse.cg of blocks": of(in_blocks, krylov(trnsparse.cg)),
    "trnsparse.cg of columns": (
        lambda b, x0, **others: krylov(trnsparse.cg)[0](
            b=torch.stack([b, 2 * b], -1), x0=torch.stack([x0, 0 * x0], -1), **others
        ),
        with_m(krylov(trnsparse.cg))[1],
    ),
    "trnsparse.cg of a function": of(counted, krylov(trnsparse.cg)),
    "trnsparse.minres": of(SPARSE, with_m(krylov(trnsparse.minres))),
    "trnsparse.minres of a function": of(counted, krylov(trnsparse.minres)),
    "trnsparse.chebyshev": of(SPARSE, fixed(trnsparse.chebyshev, BOUNDS)),
    "trnsparse.richardson": of(counted, fixed(trnsparse.richardson, {"omega": 0.1})),
    "trnsparse.power_iteration": of(counted, (power_iteration, {**PAIRS, "v0": B})),
    "trnsolver.lobpcg": (lobpcg, OF_PAIRS),
    "trnsolver.lobpcg of a function": of(counted, (lobpcg, OF_PAIRS), "B"),
    "trnsolver.eigsh": (eigsh, {**PAIRS, "v0": B}),
    "trnsolver.eigsh of a function": of(counted, (eigsh, {**PAIRS, "v0": B})),
    "trnsolver.svds": (svds, {**PAIRS, "v0": B}),
    "trnsolver.inv_sqrt_spd_ns": (
        lambda A, tol: trnsolver.inv_sqrt_spd_ns(A, max_iter=LIMIT, tol=tol, on_failure="ignore"),
        PAIRS,
    ),
    "trnsolver.msign": (
        lambda A: trnsolver.msign(A, LIMIT, LIMIT, on_failure="ignore"),
        {"A": BLOCK},
    ),
    "trnsolver.orthogonalize": (lambda A: trnsolver.orthogonalize(A, LIMIT), {"A": BLOCK}),
    "trnsolver.polar": (lambda A: trnsolver.polar(A, method="qdwh"), {"A": BLOCK}),
    **{f"trnsolver.eigh, {method}": (eigh(method), PAIRS) for method in ("exact", "chebyshev")},
    "trnsolver.eigh_randomized": (
        lambda A: trnsolver.eigh_randomized(A, 2, 1, power_iterations=LIMIT),
        {"A": POSITIVE},
    ),
    "trnsolver.rsvd": (
        lambda A: trnsolver.rsvd(A, 2, oversampling=1, power_iterations=LIMIT),
        {"A": POSITIVE},
    ),
    "trnsolver.solve": (
        lambda A, B, tol: trnsolver.solve(A, B, target_forward_error=tol, on_failure="ignore"),
        {"A": POSITIVE, "B": B, "tol": 1e-6},
    ),
    "trnsolver.solve_spd": (
        lambda A, B: trnsolver.solve_spd(A, B, True),
        {"A": POSITIVE, "B": B},
    ),
    "trntensor.cp_decompose": (cp, {"tensor": CUBE, "factor": BLOCK, "tol": 1e-6}),
    "trntensor.tucker_decompose": (
        lambda tensor, tol: trntensor.tucker_decompose(
            tensor, (2, 2, 2), LIMIT, tol, on_failure="ignore"
        ),
        {"tensor": CUBE, "tol": 1e-6},
    ),
}
COUNTS_OF_STEPS = ("max_iter", "max_sweeps", "steps", "power_iterations")
OTHERS = {
    "trnsparse.amg_preconditioner": "its sweeps are part of one product",
    "trnsparse.chebyshev_coeffs": "takes numbers only",
}


def test_every_public_function_with_a_number_of_steps_is_a_loop_of_this_test():
    tested = {name.partition(",")[0].partition(" ")[0] for name in LOOPS} | set(OTHERS)
    missing = set()
    for library in (trnsolver, trnsparse, trntensor):
        for name in library.__all__:
            function = getattr(library, name)
            if not callable(function) or inspect.isclass(function):
                continue
            parameters = inspect.signature(function).parameters
            if {*COUNTS_OF_STEPS, "sweeps"} & set(parameters) or "x0" in parameters:
                missing.add(f"{library.__name__}.{function.__name__}")
    assert not missing - tested, sorted(missing - tested)


def numbers(operand, dtype):
    """Return hostile variants of an operand by name: a tensor in a dtype, or a Python float."""
    if isinstance(operand, float):
        huge = torch.finfo(torch.float64).max
        return {str(n): n for n in (math.nan, math.inf, -math.inf, huge, 1 / huge, -1.0, 0.0)}
    limits = torch.finfo(dtype)
    plain = (operand if dtype.is_complex else operand.real).to(dtype)
    singles = {"NaN": math.nan, "inf": math.inf, "-inf": -math.inf, "largest": limits.max}
    if dtype.is_complex:
        singles |= {
            "inf and NaN": complex(math.inf, math.nan),
            "largest and largest": complex(limits.max, -limits.max),
        }
    found = {f"all {name}": torch.full_like(plain, number) for name, number in singles.items()}
    for name, number in singles.items():
        found[f"one {name}"] = plain.clone()
        found[f"one {name}"].view(-1)[1] = number
    peak = float(operand.abs().max())
    for name, size in (
        ("large", limits.max / 8),
        ("small", limits.tiny),
        ("root", limits.max**0.6),
    ):
        found[name] = (plain.to(operand.dtype) * (size / peak)).to(operand.dtype)
        found[name] = (found[name] if dtype.is_complex else found[name].real).to(dtype)
    return {**found, "zero": torch.zeros_like(plain)}


def hostile(operands, dtype):
    """Return sets of operands by name: one of them hostile, or one large and another small."""
    plain = {
        name: operand if isinstance(operand, float) else numbers_of(operand, dtype)
        for name, operand in operands.items()
    }
    for name, operand in operands.items():
        for kind, value in numbers(operand, dtype).items():
            yield f"{name} {kind}", {**plain, name: value}
    tensors = [name for name, operand in operands.items() if not isinstance(operand, float)]
    for large, small in itertools.permutations(tensors, 2):
        pair = numbers(operands[large], dtype)["large"], numbers(operands[small], dtype)["small"]
        yield f"{large} large, {small} small", {**plain, large: pair[0], small: pair[1]}


def numbers_of(operand, dtype):
    return (operand if dtype.is_complex else operand.real).to(dtype)


def failures(name, dtype):
    """Return hostile cases for which a loop neither returns nor raises an error of the libraries.

    A result that claims convergence is finite.
    """
    call, operands = LOOPS[name]
    found = {}
    for case, arguments in hostile(operands, dtype):
        try:
            with Calls(), SIMULATE.scope(counted_kernel):
                result = call(**arguments)
        except TrnsciError:
            continue
        except Exception as error:
            found[case] = f"{type(error).__name__}: {error}"
            continue
        info = getattr(result, "info", None)
        if info is not None and info.converged:
            parts = [part for part in result if isinstance(part, torch.Tensor)]
            if not all(bool(torch.isfinite(part).all()) for part in parts):
                found[case] = "converged, but not finite"
    return found


def check(name, dtype):
    found = failures(name, dtype)
    assert not found, "\n".join(f"{case}: {reason}" for case, reason in found.items())


@each_case("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_end_within_their_limit_whatever_the_numbers_are(name, dtype):
    check(name, dtype)


@pytest.mark.slow
@each_case("dtype", OTHER_DTYPES, ids=str)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_end_in_other_dtypes(name, dtype):
    check(name, dtype)


ON_KERNELS = {
    "trnsolver.cg": "conjugate_gradients",
    "trnsparse.cg": "spmm_one_hot",
    "trnsparse.cg of blocks": "bsr_cg",
    "trnsolver.eigh, exact": "jacobi_eigh",
    "trnsolver.inv_sqrt_spd_ns": "inverse_root",
    "trnsolver.msign": "msign",
}


# A kernel whose squares overflow is a finding, and torch computes in its place.
@pytest.mark.filterwarnings("ignore::trnsci.core.errors.NkiFallbackWarning")
@pytest.mark.parametrize(
    "name",
    [
        name if name.startswith("trnsparse") else pytest.param(name, marks=pytest.mark.slow)
        for name in ON_KERNELS
    ],
)
def test_loops_on_kernels_end_within_their_limit(name):
    before = counts()
    with trnsolver.backend("simulator"), trnsparse.backend("simulator"):
        check(name, torch.float32)  # the kernels take no complex numbers
    launches = (counts() - before).launches
    assert launches[ON_KERNELS[name]], dict(launches)


def test_endless_loops_are_found():
    def endless(step):
        v = torch.ones(2)
        while True:
            v = step(v)

    with pytest.raises(Endless), Calls():
        endless(lambda v: v + 1)
    with pytest.raises(Endless):
        endless(counted(torch.eye(2)))
