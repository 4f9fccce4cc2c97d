"""Public functions where kernels compute: what is launched, what is right, what is refused.

Results are judged by their definitions in float64, to 20 n u times the condition number of what is
asked; without the kernels they would not be right, as replacing them by noise shows.
"""

import importlib

import numpy as np
import pytest
import torch

import trnsolver
from each_case import each_case
from oracles.solver_matrices import with_condition, with_values
from trnsci.core.backend.explanation import explain
from trnsci.core.counters import counts
from trnsci.core.errors import NkiRefusalWarning
from trnsci.core.testing import launched, random_tensor, refusals_expected, unit_roundoff

N = 6
CONDITION = 10.0
BOUND = 20 * N * unit_roundoff(torch.float32) * CONDITION
GENERAL = with_condition(CONDITION, N).float()
POSITIVE = with_values(np.logspace(0, -1, N)).float()
TALL = random_tensor(9, 4)
WIDE = torch.stack([TALL.mT, 2 * TALL.mT])
SIDES = random_tensor(N, 2, seed=1)


@pytest.fixture(autouse=True)
def on_the_simulator():
    with trnsolver.backend("simulator"):
        yield


def off(found, want):
    return float((found.double() - want.double()).abs().max() / want.double().abs().max())


def eigh(a):
    w, v = trnsolver.eigh(a)
    return (v * w.unsqueeze(-2)) @ v.mT


def svd(a):
    u, s, vh = trnsolver.svd(a)
    return (u * s.unsqueeze(-2)) @ vh


def inverse_root(a, method):
    x = method(a)
    return torch.linalg.inv(x.double() @ x.double())


def _generalized():
    a = POSITIVE + GENERAL + GENERAL.mT
    w, v = trnsolver.eigh_generalized(a, POSITIVE)
    inverse = torch.linalg.inv(v.double())
    return inverse.mT * w.double() @ inverse


EYE = torch.eye(N)
# The kernels, what is computed, and what it must be.
CALLS = {
    "eigh": (["jacobi_eigh"], lambda: eigh(POSITIVE), POSITIVE),
    "eigh of a batch": (
        ["jacobi_eigh"],
        lambda: eigh(torch.stack([POSITIVE, GENERAL + GENERAL.mT])),
        torch.stack([POSITIVE, GENERAL + GENERAL.mT]),
    ),
    "eigvalsh": (
        ["jacobi_eigh"],
        lambda: trnsolver.eigvalsh(POSITIVE),
        torch.linalg.eigvalsh(POSITIVE.double()),
    ),
    "cholesky": (
        ["cholesky"],
        lambda: trnsolver.cholesky(POSITIVE) @ trnsolver.cholesky(POSITIVE, upper=True),
        POSITIVE,
    ),
    "lu": (["lu"], lambda: torch.linalg.multi_dot(list(trnsolver.lu(GENERAL))), GENERAL),
    "qr": (["cholesky_qr"], lambda: torch.linalg.multi_dot(list(trnsolver.qr(TALL))), TALL),
    "svd": (["jacobi_svd"], lambda: svd(TALL), TALL),
    "svd of wide matrices": (["jacobi_svd"], lambda: svd(WIDE), WIDE),
    "solve": (["lu"], lambda: trnsolver.solve(GENERAL, SIDES), None),
    "solve_spd": (["cholesky"], lambda: POSITIVE @ trnsolver.solve_spd(POSITIVE, SIDES), SIDES),
    "inv": (["lu"], lambda: trnsolver.inv(GENERAL) @ GENERAL, EYE),
    "inv_spd": (["cholesky"], lambda: trnsolver.inv_spd(POSITIVE) @ POSITIVE, EYE),
    "pinv": (["jacobi_svd"], lambda: trnsolver.pinv(TALL) @ TALL, torch.eye(4)),
    "lstsq": (
        ["jacobi_svd"],
        lambda: trnsolver.lstsq(TALL, TALL[:, 0]).solution,
        torch.tensor([1.0, 0.0, 0.0, 0.0]),
    ),
    "eigh_generalized": (
        ["cholesky", "jacobi_eigh"],
        _generalized,
        POSITIVE + GENERAL + GENERAL.mT,
    ),
    "inv_sqrt_spd": (
        ["jacobi_eigh"],
        lambda: inverse_root(POSITIVE, trnsolver.inv_sqrt_spd),
        POSITIVE,
    ),
    "inv_sqrt_spd_ns": (
        ["inverse_root"],
        lambda: inverse_root(POSITIVE, lambda a: trnsolver.inv_sqrt_spd_ns(a, tol=1e-6)[0]),
        POSITIVE,
    ),
    "svdvals": (["jacobi_svd"], lambda: trnsolver.svdvals(TALL), torch.linalg.svdvals(TALL)),
    "cholqr2": (
        ["cholesky_qr"],
        lambda: torch.linalg.multi_dot(list(trnsolver.cholqr2(TALL))),
        TALL,
    ),
    "matrix_power": (
        ["matrix_power"],
        lambda: trnsolver.matrix_power(POSITIVE, 5),
        torch.linalg.matrix_power(POSITIVE.double(), 5),
    ),
    "msign": (["msign"], lambda: trnsolver.msign(GENERAL), None),
    "cg": (
        ["conjugate_gradients"],
        lambda: trnsolver.cg(POSITIVE, SIDES[:, 0], tol=1e-6, max_iter=12).x,
        None,
    ),
}
WANTED = {
    "solve": torch.linalg.solve(GENERAL.double(), SIDES.double()),
    "cg": torch.linalg.solve(POSITIVE.double(), SIDES[:, 0].double()),
}


def wanted(name):
    want = CALLS[name][2]
    if name == "msign":
        u, _, vh = torch.linalg.svd(GENERAL.double())
        return u @ vh
    return WANTED[name] if want is None else want


@pytest.mark.parametrize("name", CALLS)
def test_kernels_compute_what_the_definition_says(name):
    kernels, call, _ = CALLS[name]
    with launched(*kernels):
        found = call()
    assert off(found, wanted(name)) <= BOUND


@pytest.mark.filterwarnings("ignore::trnsci.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_right_when_kernels_return_noise(name, monkeypatch):
    # A backstop on the host would hide that a device path computes nothing.
    launches = importlib.import_module("trnsci.core.backend.launch")
    generator = torch.Generator().manual_seed(0)
    call = launches.Launcher.__call__

    def noise(self, kernel, *arguments):
        found = call(self, kernel, *arguments)
        parts = found if isinstance(found, tuple) else (found,)
        drawn = tuple(
            torch.randn(part.shape, generator=generator).abs().to(part.dtype) for part in parts
        )
        return drawn if isinstance(found, tuple) else drawn[0]

    monkeypatch.setattr(launches.Launcher, "__call__", noise)
    try:
        found = CALLS[name][1]()
    except trnsolver.LinAlgError:
        return
    assert not off(found, wanted(name)) <= 100 * BOUND


def test_matrices_that_do_not_allow_it_are_named_on_kernels_too():
    indefinite = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    for call in (
        trnsolver.cholesky,
        trnsolver.inv_spd,
        lambda a: trnsolver.solve_spd(a, torch.ones(2)),
        lambda a: trnsolver.eigh_generalized(a, a),
    ):
        with pytest.raises(trnsolver.NotPositiveDefiniteError):
            call(indefinite)
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    for call in (trnsolver.inv, lambda a: trnsolver.solve(a, torch.ones(2))):
        with pytest.raises(trnsolver.SingularMatrixError):
            call(singular)
    with pytest.raises(trnsolver.LinAlgError):
        trnsolver.eigh(torch.full((2, 2), float("nan")))


@refusals_expected()
def test_what_kernels_do_not_take_is_refused_and_counted():
    before = counts()
    trnsolver.lu(torch.complex(TALL, TALL).to(torch.complex128))
    trnsolver.cg(lambda v: POSITIVE @ v, SIDES[:, 0])
    trnsolver.cholesky(POSITIVE.double())
    since = counts() - before
    assert not since.launches
    assert sum(since.refusals.values()) >= 3
    assert not since.fallbacks


def test_iterations_are_those_of_the_kernel():
    result = trnsolver.cg(POSITIVE, SIDES[:, 0], tol=1e-5, max_iter=20)
    assert result.converged
    assert 0 < result.iterations <= N + 2
    assert len(result.info.residuals) == result.iterations + 1
    stopped = trnsolver.cg(POSITIVE, SIDES[:, 0], tol=1e-6, max_iter=2, on_failure="ignore")
    assert (stopped.iterations, stopped.info.reason) == (2, "limit")


def test_refinement_starts_from_the_factor_of_the_kernel():
    a = with_condition(1e3, 8).float()
    with launched("lu"):
        x, info = trnsolver.solve(a, torch.ones(8), target_forward_error=1e-12)
    assert info.precision[0] == "float32 LU"
    want = torch.linalg.solve(a.double(), torch.ones(8, dtype=torch.float64))
    assert off(x, want) <= 1e-12


def test_randomized_methods_are_made_of_kernels():
    a = with_values(2.0 ** -np.arange(12.0)).float()
    with launched("cholesky_qr", "jacobi_svd"):
        s = trnsolver.rsvd(a, 3, oversampling=3).s
    assert off(s, torch.tensor([1.0, 0.5, 0.25])) <= 1e-3
    with launched("cholesky_qr", "jacobi_eigh"):
        w = trnsolver.eigh_randomized(a, 3, 3).eigenvalues
    assert off(w, torch.tensor([0.25, 0.5, 1.0])) <= 1e-3


def test_kernels_are_the_exact_way_to_a_tolerance():
    with launched("jacobi_eigh"):
        assert trnsolver.eigh(POSITIVE, 1e-4).info.method == "exact"
    before = counts()
    with pytest.warns(NkiRefusalWarning, match="by method 'chebyshev'"):
        trnsolver.eigh(POSITIVE, 1e-4, k=2, method="chebyshev")
    assert (counts() - before).refusals


def test_explain_names_the_kernels_path():
    text = str(explain(trnsolver.cholesky, POSITIVE))
    assert "trnsolver.cholesky" in text
    assert "simulator" in text


@each_case("name", ["eigh", "cholesky", "lu", "qr", "svd", "msign", "inv", "polar"])
def test_vmap_over_no_matrices(name):
    function = getattr(trnsolver, name)
    found, want = (part(POSITIVE.expand(0, N, N)) for part in (torch.vmap(function), function))
    for got, like in zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]:
        assert (got.shape, got.dtype) == (like.shape, like.dtype)
