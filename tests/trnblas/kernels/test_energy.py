"""MP2 energy kernels against the definition in float64, and the work that symmetry saves."""

import numpy as np
import pytest

from each_case import each_case
from oracles import blas_energy as oracle
from pairwise import pairwise
from trnblas._kernels import energy_panels
from trnblas._kernels.energy import batched_pair_energy, mp2_energy, pair_energy

from .harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")


def energies(nocc, nvir, seed=0):
    """Occupied energies below -0.5 and virtual ones above 0.1, as of a molecule."""
    rng = np.random.default_rng((nocc, nvir, seed))
    occupied = -np.sort(rng.random(nocc)) - 0.5
    return occupied.astype(np.float32), (np.sort(rng.random(nvir)) + 0.1).astype(np.float32)


def length(nocc, nvir):
    """A bound of the levels' lengths: along a strip, over strips and windows, i, j, partitions."""
    tiles = -(-nvir // 128)
    return nvir + tiles * (tiles + 1) + 2 * nocc + 128


def assert_energy(got, want, nocc, nvir, naux=0):
    assert got.shape == (1, 1)
    assert got.dtype == np.float32
    assert abs(float(got[0, 0]) - want.value) <= want.tolerance(length(nocc, nvir), naux)


def assert_reduction(chunk, nocc, nvir, dtype="float32", generation="gen3"):
    eps_occ, eps_vir = energies(nocc, nvir)
    t_flat = values(chunk * nvir, nocc * nvir, dtype=dtype)
    got = run(mp2_energy, generation, t_flat, eps_occ[:chunk], eps_occ, eps_vir)
    assert_energy(got, oracle.of_flat(t_flat, eps_occ[:chunk], eps_occ, eps_vir), nocc, nvir)


def assert_pair(nvir, naux, dtype="float32", generation="gen3"):
    eps_occ, eps_vir = energies(2, nvir)
    b = values(2, nvir, naux, dtype=dtype)
    eps_i, eps_j = eps_occ[:1].reshape(1, 1), eps_occ[1:].reshape(1, 1)
    got = run(pair_energy, generation, b[0], b[1], eps_i, eps_j, eps_vir)
    want = oracle.of_pair(b[0], b[1], eps_occ[0], eps_occ[1], eps_vir)
    assert_energy(got, want, 1, nvir, naux)
    mirrored = run(pair_energy, generation, b[1], b[0], eps_j, eps_i, eps_vir)
    assert_energy(mirrored, want, 1, nvir, naux)


def assert_all_pairs(nocc, nvir, naux, dtype="float32", generation="gen3"):
    eps_occ, eps_vir = energies(nocc, nvir)
    b = values(nocc, nvir, naux, dtype=dtype)
    got = run(batched_pair_energy, generation, b, eps_occ, eps_vir)
    assert_energy(got, oracle.of_all_pairs(b, eps_occ, eps_vir), nocc, nvir, naux)


@each_case("nvir", [8, 16, 64, 256, 448])
def test_reduction_at_published_sizes(nvir):
    assert_reduction(2, 3, nvir)


@each_case("nvir", [1, 2, 127, 128, 129, 131, 257, 511, 512, 513, 641])
def test_reduction_of_ragged_and_prime_sizes(nvir):
    assert_reduction(1, 2, nvir)


@pytest.mark.slow
def test_reduction_of_a_large_prime_size():
    assert_reduction(2, 2, 1031)


@each_case(
    ("nvir", "generation", "dtype"),
    pairwise([112, 200, 600], GENERATIONS, list(DTYPES)),
)
def test_reduction_on_every_generation(generation, dtype, nvir):
    assert_reduction(1, 2, nvir, dtype, generation)


PAIRS = [(128, 128), (256, 256), (512, 512), (256, 128), (200, 137), (256, 200), (144, 128)]


@each_case("shape", PAIRS)
def test_one_pair_at_published_shapes_both_ways(shape):
    assert_pair(*shape)


@each_case("shape", [(1, 1), (1, 200), (2, 1), (127, 3), (129, 129), (641, 131)])
def test_one_pair_of_ragged_shapes(shape):
    assert_pair(*shape)


@each_case("generation", GENERATIONS)
@each_case("dtype", DTYPES)
def test_one_pair_on_every_generation(generation, dtype):
    assert_pair(200, 137, dtype, generation)


BATCHES = [
    (4, 128, 128),
    (8, 128, 128),
    (4, 200, 137),
    (4, 256, 200),
    (4, 144, 128),
]
# Published with 16 occupied orbitals, all of which stay in SBUF; work grows with their square.
LARGE_BATCHES = [(4, 256, 128), (4, 256, 256), (6, 384, 512), (6, 256, 640), (16, 256, 384)]


@each_case("shape", BATCHES)
def test_all_pairs_at_published_shapes(shape):
    assert_all_pairs(*shape)


@pytest.mark.slow
@each_case("shape", LARGE_BATCHES)
def test_all_pairs_at_large_published_shapes(shape):
    assert_all_pairs(*shape)


@each_case("shape", [(1, 1, 1), (2, 1, 5), (1, 129, 2), (3, 131, 127), (2, 641, 11)])
def test_all_pairs_of_ragged_shapes(shape):
    assert_all_pairs(*shape)


@each_case("generation", GENERATIONS)
@each_case("dtype", DTYPES)
def test_all_pairs_on_every_generation(generation, dtype):
    assert_all_pairs(2, 200, 137, dtype, generation)


@each_case("generation", GENERATIONS)
@each_case("nvir", [127, 128, 129])
def test_float16_around_a_tile(generation, nvir):
    assert_reduction(1, 2, nvir, "float16", generation)
    assert_pair(nvir, nvir, "float16", generation)
    assert_all_pairs(2, nvir, nvir, "float16", generation)


@each_case("generation", GENERATIONS)
@each_case("size", [300.0, 2.0**-16])
def test_integrals_of_float16_factors_are_float32(generation, size):
    """Integrals of 300 squared times 140 overflow float16; those of subnormal factors vanish."""
    eps_occ, eps_vir = energies(2, 140)
    b = (size * (1 + np.abs(values(2, 140, 140)))).astype(np.float16)
    t = np.einsum("iap,jbp->ijab", *2 * [b.astype(np.float64)])
    assert (t > 65520).all() or (t < 2.0**-14).all()
    want = oracle.of_all_pairs(b, eps_occ, eps_vir)
    got = run(batched_pair_energy, generation, b, eps_occ, eps_vir)
    assert_energy(got, want, 2, 140, 140)


def test_more_orbitals_than_a_group_holds(monkeypatch):
    monkeypatch.setattr(energy_panels, "GROUP", 4)
    assert_all_pairs(11, 9, 5)


@pytest.mark.parametrize("held", [3, 4, 5])
def test_orbitals_that_pass_by_a_small_group(held, monkeypatch):
    # Room for so many panels of 130 columns and one tile of auxiliary functions.
    monkeypatch.setattr(energy_panels, "PANEL_BYTES", held * 130 * 4)
    assert energy_panels.group_size(7, (0, 130, 0, 0), values(7, 130, 70)) == held - 2
    assert_all_pairs(7, 130, 70)


@each_case(
    ("nvir", "dtype"),
    [(257, "float32"), (384, "float32"), (300, "bfloat16"), (385, "float16")],
)
def test_virtual_orbitals_in_windows(nvir, dtype, monkeypatch):
    monkeypatch.setattr(energy_panels, "PANEL_BYTES", 6 * 128 * DTYPES[dtype].itemsize)
    assert energy_panels.window_width(nvir, 100, DTYPES[dtype].name) == 128
    assert_all_pairs(2, nvir, 100, dtype)
    assert_pair(nvir, 100, dtype)


def test_windows_come_with_many_virtual_orbitals():
    assert energy_panels.window_width(2100, 2, "float32") == 768
    assert_all_pairs(1, 2100, 2)


@pytest.mark.slow
def test_as_many_auxiliary_functions_as_fit():
    assert energy_panels.window_width(300, 5376, "float32") == 128
    assert_all_pairs(2, 300, 5376)


def test_too_many_auxiliary_functions_are_refused():
    assert energy_panels.most_functions("float32") == 5376
    assert energy_panels.most_functions("bfloat16") == 10880
    assert energy_panels.most_functions("float16") == 10880
    eps_occ, eps_vir = energies(1, 300)
    with pytest.raises(AssertionError, match="naux must be at most 5376, got 5377"):
        run(batched_pair_energy, "gen3", values(1, 300, 5377), eps_occ, eps_vir)


def test_no_denominator_belongs_to_padding():
    # With zeros behind the end of eps_vir, eps_i + eps_j - eps_a would be 0 for a = 7.
    eps_occ, eps_vir = energies(2, 130)
    eps_vir[7] = 2 * eps_occ[0]
    eps_vir[:7] = 3.0
    b = values(2, 130, 60)
    eps = np.array([[eps_occ[0]]])
    got = run(pair_energy, "gen3", b[0], b[1], eps, eps, eps_vir)
    want = oracle.of_pair(b[0], b[1], eps_occ[0], eps_occ[0], eps_vir)
    assert_energy(got, want, 1, 130, 60)


def test_the_three_kernels_agree():
    nocc, nvir, naux = 3, 150, 40
    eps_occ, eps_vir = energies(nocc, nvir)
    b = values(nocc, nvir, naux)
    flat = b.reshape(nocc * nvir, naux).astype(np.float64)
    t_flat = (flat @ flat.T).astype(np.float32)
    want = oracle.of_all_pairs(b, eps_occ, eps_vir)
    single = sum(
        run(pair_energy, "gen3", b[i], b[j], eps_occ[i : i + 1], eps_occ[j : j + 1], eps_vir)
        for i in range(nocc)
        for j in range(nocc)
    )
    for got in (
        single,
        run(batched_pair_energy, "gen3", b, eps_occ, eps_vir),
        # One rounding of T is well inside the bound for computing it.
        run(mp2_energy, "gen3", t_flat, eps_occ, eps_occ, eps_vir),
    ):
        assert_energy(got, want, nocc, nvir, naux)


def moving_columns(nocc, nvir, naux):
    b, occupied, virtual = (np.zeros(s, np.float32) for s in ((nocc, nvir, naux), nocc, nvir))
    return Count(batched_pair_energy, "gen2", b, occupied, virtual).moving_columns


@each_case("shape", [(2, 256, 128), (5, 256, 384), (3, 384, 256), (16, 128, 128)])
def test_products_are_a_quarter_of_those_of_all_ordered_pairs(shape):
    """All ordered pairs with two products per 128 by 128 tile move 2 n^2 t^2 k tiles.

    Pairs i < j need t^2 of them: two for a tile above the diagonal, one for a tile on it. i = j
    needs one product for each of t (t + 1) / 2 tiles.
    """
    nocc, nvir, naux = shape
    t, k = nvir // 128, naux // 128
    pairs = nocc * (nocc - 1) // 2 * t * t + nocc * t * (t + 1) // 2
    got = (
        moving_columns(*shape) - 2
    )  # the last product sums over partitions, by two columns of ones
    assert got == pairs * k * 128
    ordered = 2 * nocc**2 * t**2 * k * 128
    # Twice the diagonal pairs and tiles are what keeps a finite number of them from 4.
    assert ordered / got == pytest.approx(4 / (1 + 1 / (nocc * t)))


def test_every_panel_is_made_once_when_all_fit():
    nocc, nvir, naux = 5, 256, 384
    b, occupied, virtual = (np.zeros(s, np.float32) for s in ((nocc, nvir, naux), nocc, nvir))
    count = Count(batched_pair_energy, "gen3", b, occupied, virtual)
    diagonal_tiles = 10 * 2
    assert count.instructions["nc_transpose"] == nocc * 2 * 3 + diagonal_tiles


def test_reduction_loads_every_amplitude_once():
    chunk, nocc, nvir = 2, 3, 700
    t_flat = np.zeros((chunk * nvir, nocc * nvir), np.float32)
    eps = [np.zeros(n, np.float32) for n in (chunk, nocc, nvir)]
    count = Count(mp2_energy, "gen2", t_flat, *eps)
    # Orbital energies go to every partition, the virtual ones to a column as well.
    vectors = 4 * (128 * (chunk + nocc + nvir) + nvir)
    assert count.hbm_bytes == t_flat.nbytes + vectors + 4


@pytest.mark.parametrize(
    "shape",
    [
        *((3, 672, 2304), (18, 128, 1280), (3, 300, 5376)),
        pytest.param((18, 448, 384), marks=pytest.mark.slow),
    ],
)
def test_panels_fit_the_smallest_sbuf(shape):
    b, occupied, virtual = (np.zeros(s, np.float32) for s in (shape, shape[0], shape[1]))
    Count(batched_pair_energy, "gen2", b, occupied, virtual)
