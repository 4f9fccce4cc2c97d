"""MP2 energies at levels of precision: errors, launches, gradients, molecules against PySCF."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import nkisim
import trnblas
from each_case import each_case
from oracles.exact_pairs import exact_sum
from trnblas import mp2
from trnblas._kernels.doublefloat_energy import doublefloat_mp2_energy
from trnsci.core.counters import counts
from trnsci.core.errors import DTypeError, FlagError
from trnsci.core.testing import refusals_expected, strict_simulation

LEVELS = ("bfloat16", "float16x3", "float32", "doublefloat")
GENERATIONS = ("gen2", "gen3", "gen4")
U2 = 2.0**-48


def simulated(function, *args, **options):
    """Return the result of kernels, and how often each was launched."""
    before = counts()
    with trnblas.backend("simulator"):
        got = function(*args, **options)
    return got, (counts() - before).launches


def problem(nocc, nvir, naux, dtype=torch.float64, seed=0):
    rng = np.random.default_rng(seed)
    b = rng.standard_normal((nocc, nvir, naux))
    eps_occ, eps_vir = -0.3 - rng.random(nocc), 0.1 + rng.random(nvir)
    return tuple(torch.tensor(x, dtype=dtype) for x in (b, eps_occ, eps_vir))


def exact_terms(t, chunk, full, virtual):
    """Return the terms of the energy of integrals (ic, nvir, nocc, nvir), as fractions."""
    t, chunk, full, virtual = (x.tolist() for x in (t, chunk, full, virtual))
    terms = []
    for i, e_i in enumerate(chunk):
        for a, e_a in enumerate(virtual):
            for j, e_j in enumerate(full):
                for b, e_b in enumerate(virtual):
                    direct, swapped = Fraction(t[i][a][j][b]), Fraction(t[i][b][j][a])
                    gap = Fraction(e_i) + Fraction(e_j) - Fraction(e_a) - Fraction(e_b)
                    terms.append(direct * (2 * direct - swapped) / gap)
    return terms


# -- the kernel ------------------------------------------------------------------------------------


@each_case("sizes", [(1, 1, 1), (2, 3, 5), (1, 130, 4), (33, 1, 4)], ids=str)
def test_the_energy_of_integrals_is_within_the_bound(sizes):
    """21 roundings of a term and 3.1 of each sum, see the kernel; and 2 of a float64 operand."""
    ic, nocc, nvir = sizes
    rng = np.random.default_rng(sizes)
    t = torch.tensor(rng.standard_normal((ic, nvir, nocc, nvir)) * np.exp(rng.standard_normal()))
    chunk, full, virtual = (torch.tensor(rng.random(n) + 0.1) for n in (ic, nocc, nvir))
    energies = -chunk, -full, virtual
    got, launches = simulated(
        mp2.nki_mp2_energy, t.reshape(ic * nvir, -1), *energies, precision="doublefloat"
    )
    assert launches == {"doublefloat_mp2_energy": 1}
    terms = exact_terms(t, *energies)
    sums = -(-ic * nvir // 128) + -(-nocc * nvir // 512) + 16
    bound = (21 + 3.1 * sums) * U2 + 4 * 2.0**-53 + 3 * 2.0**-49
    assert abs(Fraction(float(got)) - exact_sum(terms)) <= bound * exact_sum(map(abs, terms))


@each_case("scale", [1e-200, 1e-30, 1e30, 1e100])
def test_integrals_and_energies_of_any_size(scale):
    b, eps_occ, eps_vir = problem(2, 5, 6)
    t = torch.einsum("iap,jbp->iajb", b, b).reshape(10, 10)
    want = float(mp2.nki_mp2_energy(t, eps_occ, eps_occ, eps_vir))
    args = t * scale, *(x * scale for x in (eps_occ, eps_occ, eps_vir))
    got, launches = simulated(mp2.nki_mp2_energy, *args, precision="doublefloat")
    assert launches
    # Scaling rounds each operand once.
    assert float(got) == pytest.approx(want * scale, rel=100 * U2)


@each_case("value", [np.nan, np.inf])
def test_a_nan_or_an_infinity_is_never_lost(value):
    b, eps_occ, eps_vir = problem(2, 5, 6)
    b[1, 2, 3] = value
    got, launches = simulated(
        mp2.nki_batched_pair_energy, b, eps_occ, eps_vir, precision="doublefloat"
    )
    assert launches == {"doublefloat_gemm": 1, "doublefloat_mp2_energy": 1}
    assert got.isnan()


@each_case("generation", GENERATIONS)
def test_the_kernel_is_clean_on_every_generation(generation):
    rng = np.random.default_rng(0)
    shape = (130, 3) if generation == "gen3" else (3, 530)
    t, s = rng.standard_normal((2, *shape)).astype(np.float32)
    rows, columns = -np.ones((shape[0], 1), np.float32), -np.ones((1, shape[1]), np.float32)
    operands = [x for part in (t, s, rows, columns) for x in (part, np.zeros_like(part))]
    assert not list(nkisim.check(doublefloat_mp2_energy, target=generation)(*operands).findings)


# -- levels ----------------------------------------------------------------------------------------

# Kernels of a level, for all pairs and for one.
KERNELS = {
    "bfloat16": ("batched_pair_energy", "pair_energy"),
    "float16x3": ("float16x3_gemm", "mp2_energy"),
    "float32": ("batched_pair_energy", "pair_energy"),
    "doublefloat": ("doublefloat_gemm", "doublefloat_mp2_energy"),
}
# Roundings of a factor and of the sums of 30 terms; a term is a product of two integrals, and the
# sum of |T (2 T - T')| is at most 3 times that of the terms.
ERRORS = {
    "bfloat16": 12 * 2.0**-8,
    "float16x3": 6 * (3 * 2.0**-22 + 90 * 2.0**-24) + 100 * 2.0**-24,
    "float32": 6 * 30 * 2.0**-24 + 100 * 2.0**-24,
    "doublefloat": 6 * 2.0**-45 * 30 + 100 * U2,
}


@each_case("level", LEVELS)
@each_case("backend", ["simulator", "pytorch"])
def test_all_pairs_and_single_pairs_have_the_accuracy_of_the_level(level, backend):
    dtype = torch.float64 if level == "doublefloat" else torch.float32
    b, eps_occ, eps_vir = problem(3, 7, 30, dtype)
    want = float(mp2.nki_batched_pair_energy(*(x.double() for x in (b, eps_occ, eps_vir))))
    before = counts()
    with trnblas.backend(backend):
        together = mp2.nki_batched_pair_energy(b, eps_occ, eps_vir, precision=level)
        pairs = sum(
            mp2.nki_fused_gemm_energy(
                b[i], b[j], float(eps_occ[i]), float(eps_occ[j]), eps_vir, precision=level
            )
            for i in range(3)
            for j in range(3)
        )
    launches = (counts() - before).launches
    assert set(launches) == (set(KERNELS[level]) if backend == "simulator" else set())
    for got in (together, pairs):
        assert got.dtype is dtype
        assert abs(float(got) - want) <= ERRORS[level] * abs(want)


def test_the_level_of_the_library_applies():
    b, eps_occ, eps_vir = problem(2, 3, 4, torch.float32)
    with trnblas.precision("doublefloat"):
        _, launches = simulated(mp2.nki_batched_pair_energy, b, eps_occ, eps_vir)
    assert launches == {"doublefloat_gemm": 1, "doublefloat_mp2_energy": 1}


def test_float32_operands_round_the_energy_once():
    operands = problem(2, 5, 6, torch.float32)
    got, _ = simulated(mp2.nki_batched_pair_energy, *operands, precision="doublefloat")
    wide = (x.double() for x in operands)
    want, _ = simulated(mp2.nki_batched_pair_energy, *wide, precision="doublefloat")
    assert torch.equal(got, want.float())


@each_case("level", ["float16x3", "doublefloat"])
def test_integrals_are_stored_for_some_orbitals_at_a_time(monkeypatch, level):
    monkeypatch.setattr("trnsci.core.pair_energies._MOST_INTEGRALS", 2 * 5 * 5 * 5)
    operands = problem(5, 5, 6, torch.float32)
    got, launches = simulated(mp2.nki_batched_pair_energy, *operands, precision=level)
    assert set(launches.values()) == {3}
    want = mp2.nki_batched_pair_energy(*(x.double() for x in operands))
    assert float(got) == pytest.approx(float(want), rel=ERRORS["float16x3"])


@refusals_expected()
def test_float64_is_refused_below_doublefloat():
    operands = problem(2, 3, 4)
    want = mp2.nki_batched_pair_energy(*operands)
    for level in (None, *LEVELS[:3]):
        before = counts()
        with trnblas.backend("simulator"):
            got = mp2.nki_batched_pair_energy(*operands, precision=level)
        found = counts() - before
        assert not found.launches, level
        assert found.refusals, level
        assert float(got) == pytest.approx(float(want), rel=1e-14)


@each_case("backend", ["simulator", "pytorch"])
@each_case("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_at_doublefloat(backend, dtype):
    """Against float64's own gradient of the definition, within the roundings of its products."""
    exact = [x.to(dtype).double().requires_grad_() for x in problem(3, 6, 20)]
    with trnblas.backend("pytorch"):
        want = torch.autograd.grad(mp2.nki_batched_pair_energy(*exact), exact)
    single = [x.detach().to(dtype).requires_grad_() for x in exact]
    before = counts()
    with trnblas.backend(backend):
        energy = mp2.nki_batched_pair_energy(*single, precision="doublefloat")
        got = torch.autograd.grad(energy, single)
    launches = (counts() - before).launches
    forward_and_backward = {"doublefloat_gemm": 3, "doublefloat_mp2_energy": 1}
    assert launches == (forward_and_backward if backend == "simulator" else {})
    rounding = 2.0**-41 + torch.finfo(dtype).eps
    for found, truth in zip(got, want, strict=True):
        assert found.dtype is dtype
        assert ((found - truth).abs() <= rounding * truth.abs().max()).all()


def test_wrong_levels_are_named():
    b, eps_occ, eps_vir = problem(1, 3, 4, torch.float32)
    calls = {
        "nki_mp2_energy": (b[0] @ b[0].mT, eps_occ, eps_occ, eps_vir),
        "nki_fused_gemm_energy": (b[0], b[0], -1.0, -1.0, eps_vir),
        "nki_batched_pair_energy": (b, eps_occ, eps_vir),
    }
    for name, args in calls.items():
        with pytest.raises(FlagError, match=rf"{name}: got precision 'float128'"):
            getattr(mp2, name)(*args, precision="float128")
        narrow = [x.to(torch.bfloat16) if isinstance(x, torch.Tensor) else x for x in args]
        with pytest.raises(DTypeError, match=rf"{name}: precision='doublefloat' takes .*bfloat16"):
            getattr(mp2, name)(*narrow, precision="doublefloat")


# -- molecules -------------------------------------------------------------------------------------

MOLECULES = ("h2o", "nh3", "ch4", "hf", "n2", "co")


def molecule(name):
    """Return factors, orbital energies, and PySCF's energy; tools/gen_molecules.py wrote them."""
    with np.load(Path(__file__).parents[2] / "data" / "molecules.npz") as stored:
        arrays = (stored[f"{name}_{part}"] for part in ("B", "eps_occ", "eps_vir"))
        return *map(torch.tensor, arrays), float(stored[f"{name}_energy"])


@each_case("name", MOLECULES)
def test_energies_of_molecules_are_those_of_pyscf(name):
    *operands, reference = molecule(name)
    with strict_simulation("gen3"):
        got, launches = simulated(mp2.nki_batched_pair_energy, *operands, precision="doublefloat")
    assert launches == {"doublefloat_gemm": 1, "doublefloat_mp2_energy": 1}
    assert got.dtype is torch.float64
    assert abs(float(got) - reference) <= 1e-9


@each_case("name", MOLECULES)
def test_other_levels_on_molecules(name):
    """Within the bounds of their arithmetic, and farther from PySCF's energy than doublefloat."""
    *operands, reference = molecule(name)
    single = [x.float() for x in operands]
    errors = {}
    for level in LEVELS[:3]:
        got, launches = simulated(mp2.nki_batched_pair_energy, *single, precision=level)
        assert set(launches) <= set(KERNELS[level])
        errors[level] = abs(float(got) - reference)
    assert 1e-6 < errors["bfloat16"] < 1e-3
    assert 1e-10 < errors["float16x3"] < 1e-6
    assert 1e-10 < errors["float32"] < 1e-6
