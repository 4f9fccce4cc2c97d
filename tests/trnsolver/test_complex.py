"""Complex matrices, Hermitian and general, on the torch path and where kernels are wanted.

Kernels are real and refuse them, so that both paths compute in complex128. Values are compared with
NumPy and SciPy, derivatives with differences of values. Vectors have a free phase, so that results
are magnitudes, projectors and products. All condition numbers are below 20.
"""

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from trnsci.core.testing import random_tensor, refusals_expected

N = 4


def drawn(*shape, seed=0):
    return random_tensor(2, *shape, dtype=torch.complex128, seed=seed)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


APART = torch.diag(torch.tensor([1.0, 3.0, 5.0, 8.0], dtype=torch.complex128))
GENERAL = 0.3 * drawn(N, N) + APART
TALL = torch.cat([GENERAL, drawn(2, N, seed=1)], -2)
# Batches of two, by what is differentiated and what is made of it.
OPERANDS = {
    "general": (GENERAL, lambda x: x),
    "hermitian": (GENERAL, lambda x: 0.5 * (x + x.mH)),
    "positive": (GENERAL, lambda x: 0.1 * x @ x.mH + torch.eye(N, dtype=x.dtype)),
    "tall": (TALL, lambda x: x),
    "wide": (TALL, lambda x: x.mH),
    "sides": (drawn(N, 3, seed=2), lambda x: x),
    "vectors": (drawn(N, 1, seed=2), lambda x: x[..., 0]),
    "long sides": (drawn(N + 2, 3, seed=3), lambda x: x),
}


def each(oracle):
    """An oracle of one matrix for a batch."""

    def of_batch(*batches):
        found = [oracle(*parts) for parts in zip(*batches, strict=True)]
        if isinstance(found[0], tuple):
            return tuple(np.stack(parts) for parts in zip(*found, strict=True))
        return np.stack(found)

    return of_batch


def first(function):
    """A function of the first matrices of batches."""
    return lambda *batches: function(*(batch[0] for batch in batches))


def pairs(function):
    """Eigenvalues, and eigenvectors by their magnitudes."""
    return lambda *a: (lambda w, v: (w, abs(v)))(*function(*a))


def factors(function):
    """Singular values, and vectors by their magnitudes."""
    return lambda *a: (lambda u, s, vh: (abs(u), s, abs(vh)))(*function(*a))


def positive_qr(a):
    q, r = np.linalg.qr(a)
    phase = np.diag(r) / abs(np.diag(r))
    return q * phase, r * phase.conj()[:, None]


def solved_to(a, b):
    return trnsolver.solve(a, b, target_forward_error=1e-12).x


def inverse_root(a):
    return np.linalg.inv(scipy.linalg.sqrtm(a))


def unitary_factor(a):
    return scipy.linalg.polar(a)[0]


def thin_svd(a):
    return np.linalg.svd(a, full_matrices=False)


def numpy_solved(a, vector):
    return np.linalg.solve(a, vector[..., None])[..., 0]


# A function, an oracle, and operands of both.
CASES = {
    "solve": (trnsolver.solve, np.linalg.solve, ("general", "sides")),
    "solve of vectors": (trnsolver.solve, numpy_solved, ("general", "vectors")),
    "solve of one": (first(trnsolver.solve), first(np.linalg.solve), ("general", "sides")),
    "solve with a target": (solved_to, np.linalg.solve, ("general", "sides")),
    "solve_spd": (trnsolver.solve_spd, np.linalg.solve, ("positive", "sides")),
    "solve_spd of vectors": (trnsolver.solve_spd, numpy_solved, ("positive", "vectors")),
    "solve_spd of one": (first(trnsolver.solve_spd), first(np.linalg.solve), ("positive", "sides")),
    "solve_spd, refined": (
        lambda a, b: trnsolver.solve_spd(a, b, iterative_refinement=True),
        np.linalg.solve,
        ("positive", "sides"),
    ),
    "inv": (trnsolver.inv, np.linalg.inv, ("general",)),
    "inv_spd": (trnsolver.inv_spd, np.linalg.inv, ("positive",)),
    "inv_spd of one": (first(trnsolver.inv_spd), first(np.linalg.inv), ("positive",)),
    "pinv": (trnsolver.pinv, np.linalg.pinv, ("tall",)),
    "pinv of wide": (trnsolver.pinv, np.linalg.pinv, ("wide",)),
    "lstsq": (
        lambda a, b: trnsolver.lstsq(a, b).solution,
        each(lambda a, b: np.linalg.lstsq(a, b)[0]),
        ("tall", "long sides"),
    ),
    "det": (trnsolver.det, np.linalg.det, ("general",)),
    "slogdet": (trnsolver.slogdet, lambda a: tuple(np.linalg.slogdet(a)), ("general",)),
    "cholesky": (trnsolver.cholesky, np.linalg.cholesky, ("positive",)),
    "cholesky, upper": (
        lambda a: trnsolver.cholesky(a, upper=True),
        lambda a: adjoint(np.linalg.cholesky(a)),
        ("positive",),
    ),
    "lu": (
        lambda a: trnsolver.lu(a)[1:],
        each(lambda a: scipy.linalg.lu(a)[1:]),
        ("general",),
    ),
    "lu, back": (
        lambda a: (lambda p, lower, upper: p @ lower @ upper)(*trnsolver.lu(a)),
        lambda a: a,
        ("general",),
    ),
    "qr": (
        lambda a: (lambda q, r: (q @ q.mH, r.mH @ r))(*trnsolver.qr(a)),
        lambda a: (a @ np.linalg.pinv(a), adjoint(a) @ a),
        ("tall",),
    ),
    "cholqr2": (trnsolver.cholqr2, each(positive_qr), ("tall",)),
    "cholqr2 of one": (first(trnsolver.cholqr2), first(positive_qr), ("tall",)),
    "svd": (factors(trnsolver.svd), factors(thin_svd), ("tall",)),
    "svd of wide": (factors(trnsolver.svd), factors(thin_svd), ("wide",)),
    "svd, back": (
        lambda a: (lambda u, s, vh: (u * s.unsqueeze(-2)) @ vh)(*trnsolver.svd(a)),
        lambda a: a,
        ("wide",),
    ),
    "svdvals": (trnsolver.svdvals, lambda a: np.linalg.svd(a, compute_uv=False), ("tall",)),
    "eigvalsh": (trnsolver.eigvalsh, np.linalg.eigvalsh, ("hermitian",)),
    "eigh": (pairs(trnsolver.eigh), pairs(np.linalg.eigh), ("hermitian",)),
    "eigh, back": (
        lambda a: (lambda w, v: (v * w.unsqueeze(-2)) @ v.mH)(*trnsolver.eigh(a)),
        lambda a: a,
        ("hermitian",),
    ),
    "eigh, one pair": (
        pairs(first(lambda a: trnsolver.eigh(a, k=1))),
        pairs(first(lambda a: scipy.linalg.eigh(a, subset_by_index=(0, 0)))),
        ("hermitian",),
    ),
    "eigh to a tolerance": (
        pairs(first(lambda a: trnsolver.eigh(a, 1e-12))),
        pairs(first(np.linalg.eigh)),
        ("hermitian",),
    ),
    "eigh_generalized": (
        pairs(trnsolver.eigh_generalized),
        pairs(each(scipy.linalg.eigh)),
        ("hermitian", "positive"),
    ),
    "inv_sqrt_spd": (trnsolver.inv_sqrt_spd, each(inverse_root), ("positive",)),
    "inv_sqrt_spd of one": (first(trnsolver.inv_sqrt_spd), first(inverse_root), ("positive",)),
    "inv_sqrt_spd_ns": (
        lambda a: trnsolver.inv_sqrt_spd_ns(a, max_iter=30, tol=1e-13)[0],
        each(inverse_root),
        ("positive",),
    ),
    "expm": (lambda a: trnsolver.expm(0.2 * a), lambda a: scipy.linalg.expm(0.2 * a), ("general",)),
    "msign": (trnsolver.msign, each(unitary_factor), ("general",)),
    "msign of wide": (trnsolver.msign, each(unitary_factor), ("wide",)),
    "rsvd": (factors(lambda a: trnsolver.rsvd(a, N)), factors(thin_svd), ("tall",)),
    "eigh_randomized": (
        pairs(lambda a: trnsolver.eigh_randomized(a, N)),
        pairs(np.linalg.eigh),
        ("hermitian",),
    ),
    **{
        f"polar, {side} by {method}": (
            first(lambda a, side=side, method=method: trnsolver.polar(a, side, method=method)),
            first(lambda a, side=side: scipy.linalg.polar(a, side)),
            ("tall" if side == "right" else "wide",),
        )
        for side in ("right", "left")
        for method in ("svd", "qdwh")
    },
}
# Without a derivative, or of random numbers.
VALUES = {
    "schur": (
        lambda a: (lambda t, q: q @ t @ q.mH)(*trnsolver.schur(a)),
        lambda a: a,
        ("general",),
    ),
    "eigh by chebyshev": (
        pairs(first(lambda a: trnsolver.eigh(a, 1e-9, method="chebyshev"))),
        pairs(first(np.linalg.eigh)),
        ("hermitian",),
    ),
    "nystrom": (
        first(lambda a: (lambda u, w: (u * w) @ u.mH)(*trnsolver.nystrom(a, N))),
        first(lambda a: a),
        ("positive",),
    ),
    "hutch_plus_plus": (
        first(lambda a: trnsolver.hutch_plus_plus(a).value),
        first(lambda a: np.trace(a).real),
        ("hermitian",),
    ),
}


@pytest.fixture(params=["pytorch", "simulator"], autouse=True)
def path(request):
    with trnsolver.backend(request.param):
        yield request.param


def tensors(found):
    return [found] if isinstance(found, torch.Tensor) else list(found)


@each_case("name", [*CASES, *VALUES])
@refusals_expected()
def test_values_are_those_of_numpy(name):
    function, oracle, operands = (CASES | VALUES)[name]
    given = [prepared(leaf) for leaf, prepared in map(OPERANDS.get, operands)]
    want = oracle(*(x.resolve_conj().numpy() for x in given))
    found = tensors(function(*given))
    want = [np.asarray(x) for x in (want if isinstance(want, tuple) else (want,))]
    assert len(found) == len(want)
    for ours, theirs in zip(found, want, strict=True):
        np.testing.assert_allclose(ours.resolve_conj().numpy(), theirs, rtol=0, atol=1e-9)


def assert_gradients(name):
    function, _, operands = CASES[name]
    leaves = [leaf.clone().requires_grad_() for leaf, _ in map(OPERANDS.get, operands)]
    prepare = [OPERANDS[operand][1] for operand in operands]

    def values(*given):
        made = (prepared(x) for prepared, x in zip(prepare, given, strict=True))
        return tuple(tensors(function(*made)))

    assert torch.autograd.gradcheck(values, leaves, fast_mode=True, rtol=1e-4)


@pytest.mark.parametrize(
    "path", ["pytorch", pytest.param("simulator", marks=pytest.mark.slow)], indirect=True
)
@each_case("name", CASES)
@refusals_expected()
def test_gradients_are_differences_of_values(name):
    assert_gradients(name)


@pytest.mark.parametrize("path", ["simulator"], indirect=True)
@each_case("name", ["solve", "solve_spd", "lstsq", "cholesky", "qr", "svd", "eigh", "msign"])
@refusals_expected()
def test_gradients_where_kernels_are_wanted(name):
    assert_gradients(name)


# Their steps depend on values, or they draw from a generator that they make.
NOT_IN_A_GRAPH = ("target", "tolerance", "qdwh", "lstsq", "rsvd", "randomized")


@pytest.mark.slow
@refusals_expected()
def test_compiled_results_are_those_of_the_calls():
    names = [name for name in CASES if not any(word in name for word in NOT_IN_A_GRAPH)]
    names = [name for name in names if " of one" not in name and "back" not in name]
    given = {name: prepared(leaf) for name, (leaf, prepared) in OPERANDS.items()}

    def every(given):
        found = []
        for name in names:
            function, _, operands = CASES[name]
            found.append(tensors(function(*(given[operand] for operand in operands))))
        return found

    compiled = torch.compile(every, fullgraph=True, backend="aot_eager")(given)
    torch.compiler.reset()
    for name, ours, theirs in zip(names, compiled, every(given), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9, msg=name)


# The kernels take no complex128, so a graph is that of torch on the simulator too.
@pytest.mark.parametrize(
    "path", ["pytorch", pytest.param("simulator", marks=pytest.mark.slow)], indirect=True
)
@refusals_expected()
def test_compiled_pseudo_inverses_of_low_rank_have_gradients():
    low = (TALL[..., :2] @ drawn(2, N, seed=5)).detach().requires_grad_()
    results = []
    compiled = torch.compile(trnsolver.pinv, fullgraph=True, backend="aot_eager")
    for function in (trnsolver.pinv, compiled):
        for rcond in (None, 1e-9):
            found = function(low, rcond)
            results.append((found, *torch.autograd.grad((found.abs() ** 2).sum(), low)))
    torch.compiler.reset()
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-9, atol=1e-9)
