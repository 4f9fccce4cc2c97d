"""Quantum chemistry against its definition, on torch and on kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import trnblas
import trntensor
from each_case import each_case
from trnblas.nki import kernels
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, strict_simulation, unit_roundoff


def problem(nocc, nvir, naux, dtype=torch.float64):
    b = 0.3 * random_tensor(nocc, nvir, naux, dtype=dtype)
    eps_occ = (-2 + 0.3 * random_tensor(nocc, seed=1)).to(dtype)
    eps_vir = (1 + 0.3 * random_tensor(nvir, seed=2).abs()).to(dtype)
    return b, eps_occ, eps_vir


def by_definition(b, eps_occ, eps_vir):
    b, eps_occ, eps_vir = (x.double().numpy() for x in (b, eps_occ, eps_vir))
    t = np.einsum("iap,jbp->ijab", b, b)
    below = (
        eps_occ[:, None, None, None]
        + eps_occ[None, :, None, None]
        - eps_vir[:, None]
        - eps_vir[None, :]
    )
    terms = t * (2 * t - t.swapaxes(2, 3)) / below
    return terms.sum(), np.abs(terms).sum()


@pytest.mark.parametrize("shape", [(5, 19, 72), (1, 1, 1), (3, 4, 1), (1, 7, 9)])
def test_the_energy_is_that_of_the_definition(shape):
    tensors = problem(*shape)
    want, size = by_definition(*tensors)
    got = trntensor.mp2_energy(*tensors)
    assert got.shape == ()
    assert abs(float(got) - want) <= 1e-13 * size
    single = trntensor.mp2_energy(*(x.float() for x in tensors))
    assert single.dtype is torch.float32
    # Each term is off by the length of its sum, and the terms are summed in rows.
    assert abs(float(single) - want) <= (shape[2] + 40) * 2.0**-24 * 2 * size


def test_an_empty_space_has_no_energy():
    assert float(trntensor.mp2_energy(*problem(0, 3, 4))) == 0.0
    assert float(trntensor.mp2_energy(*problem(2, 0, 4))) == 0.0


@each_case("generation", ["gen2", "gen3", "gen4"])
@each_case("shape", [(2, 19, 30), (2, 129, 5)])
def test_the_energy_is_one_launch(shape, generation):
    tensors = [x.float() for x in problem(*shape)]
    want, size = by_definition(*tensors)
    before = counts()
    with trntensor.backend("simulator"), strict_simulation(generation):
        got = trntensor.mp2_energy(*tensors)
    assert dict((counts() - before).launches) == {"batched_pair_energy": 1}
    assert abs(float(got) - want) <= (shape[2] + 40) * 2.0**-24 * 2 * size


@each_case("generation", ["gen2", "gen3", "gen4"])
@each_case("dtype", [torch.float16, torch.bfloat16], ids=str)
@each_case("shape", [(2, 19, 30), (2, 129, 5), (1, 127, 3), (1, 128, 2)])
def test_the_energy_of_16_bit_factors(shape, dtype, generation):
    """Products of 16-bit factors are exact in float32, and the result is float32."""
    tensors = problem(*shape, dtype=dtype)
    want, size = by_definition(*tensors)
    with (
        trntensor.backend("simulator"),
        strict_simulation(generation),
        launched("batched_pair_energy"),
    ):
        got = trntensor.mp2_energy(*tensors)
    assert got.dtype is trntensor.mp2_energy(*tensors).dtype is torch.float32
    assert abs(float(got) - want) <= (shape[2] + 40) * 2.0**-24 * 2 * size


@each_case("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gradients_of_the_energy_by_16_bit_factors(dtype):
    tensors = problem(2, 5, 7, dtype=dtype)
    exact = [x.double().requires_grad_() for x in tensors]
    want = torch.autograd.grad(trntensor.mp2_energy(*exact), exact)
    leaves = [x.clone().requires_grad_() for x in tensors]
    with trntensor.backend("simulator"), launched("batched_pair_energy", "contract"):
        got = torch.autograd.grad(trntensor.mp2_energy(*leaves), leaves)
    for found, truth in zip(got, want, strict=True):
        assert found.dtype is dtype
        bound = (unit_roundoff(dtype) + 200 * 2.0**-24) * float(truth.abs().max())
        assert float((found - truth).abs().max()) <= bound


@each_case("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_stored_integrals_of_16_bit_factors_are_float32(dtype, monkeypatch):
    """Integrals of 200 squared times 20 overflow float16, and bfloat16 would round them."""
    monkeypatch.setattr(kernels, "most_functions", lambda dtype: 8)
    b, eps_occ, eps_vir = problem(2, 5, 20, dtype=dtype)
    tensors = 100 + 300 * b.abs(), eps_occ, eps_vir
    want, size = by_definition(*tensors)
    with trntensor.backend("simulator"), launched("contract", "mp2_energy"):
        got = trntensor.mp2_energy(*tensors)
    assert abs(float(got) - want) <= 60 * 2.0**-24 * 2 * size


def test_many_auxiliary_functions_go_through_memory(monkeypatch):
    monkeypatch.setattr(kernels, "most_functions", lambda dtype: 8)
    tensors = [x.float() for x in problem(2, 5, 20)]
    want, size = by_definition(*tensors)
    with trntensor.backend("simulator"), launched("contract", "mp2_energy"):
        got = trntensor.mp2_energy(*tensors)
    assert abs(float(got) - want) <= 60 * 2.0**-24 * 2 * size


@each_case("dtype", [torch.float32, torch.float64])
@each_case("most", [2**24, 19 * 19])
def test_at_doublefloat_the_energy_is_that_of_kernels(dtype, most, monkeypatch):
    monkeypatch.setattr("trnsci.core.pair_energies._MOST_INTEGRALS", most)
    shape = 2, 19, 30
    tensors = [x.to(dtype) for x in problem(*shape)]
    want, _ = by_definition(*tensors)
    b, occ, vir = (x.double().numpy() for x in tensors)
    norms = np.linalg.norm(b, axis=2).max() ** 2
    t = np.abs(np.einsum("iap,jbp->ijab", b, b))
    gaps = np.abs(occ[:, None, None, None] + occ[:, None, None] - vir[:, None] - vir)
    # Of the integrals 2**-45 of the norms, of the energies 2**-41 of the terms.
    terms = (t * (2 * t + t.swapaxes(2, 3)) / gaps).sum()
    bound = (2.0**-45 * norms * (4 * t + 2 * t.swapaxes(2, 3)) / gaps).sum() + 2.0**-41 * terms
    before = counts()
    with trntensor.backend("simulator"):
        got = trntensor.mp2_energy(*tensors, precision="doublefloat")
    products = 1 if most == 2**24 else 2
    launches = {"doublefloat_gemm": products, "doublefloat_mp2_energy": products}
    assert dict((counts() - before).launches) == launches
    assert got.dtype is dtype
    rounding = 2.0**-24 if dtype is torch.float32 else 0.0
    assert abs(float(got) - want) <= bound + rounding * abs(want)


def test_density_fitted_mp2_by_einsum_is_the_energy_of_trnblas():
    b, eps_occ, eps_vir = problem(4, 9, 25)
    t = trntensor.einsum("iap,jbp->ijab", b, b)
    below = (
        eps_occ[:, None, None, None] + eps_occ[:, None, None] - eps_vir[:, None] - eps_vir
    ).reciprocal()
    by_einsum = 2 * trntensor.einsum("ijab,ijab,ijab->", t, t, below)
    by_einsum -= trntensor.einsum("ijab,ijba,ijab->", t, t, below)
    theirs = trnblas.nki.nki_batched_pair_energy(b, eps_occ, eps_vir)
    assert torch.allclose(by_einsum, theirs, rtol=1e-12)
    assert torch.allclose(trntensor.mp2_energy(b, eps_occ, eps_vir), theirs, rtol=1e-12)


def fitted_energy(C_occ, C_vir, eri, metric, eps_occ, eps_vir):
    """Return the energy from integrals over atomic orbitals, by trntensor alone."""
    inverse = torch.linalg.inv(torch.linalg.cholesky(metric.double())).to(eri.dtype)
    integrals = trntensor.ao_to_mo_transform(eri, C_occ, C_vir)
    B = trntensor.einsum("iaP,QP->iaQ", integrals, inverse)
    return float(trntensor.mp2_energy(B, eps_occ, eps_vir))


def test_the_whole_pipeline_gives_the_energy_of_trnblas(load_example):
    df_mp2 = load_example("df_mp2.py")
    inputs = [x.double() for x in df_mp2.synthetic(*df_mp2.SHAPES["small"])]
    want = df_mp2.df_mp2_energy(*inputs)
    assert abs(fitted_energy(*inputs) - want) <= 1e-10 * abs(want)


@pytest.mark.slow
@pytest.mark.pyscf
@pytest.mark.parametrize(("name", "basis"), [("h2o", "cc-pvdz"), ("nh3", "sto-3g")])
def test_energies_of_molecules_are_those_of_pyscf(load_example, name, basis):
    pytest.importorskip("pyscf")
    bridge = load_example("_pyscf_bridge.py")
    mol = bridge.make_mol(name, basis)
    inputs = bridge.build_df_mp2_inputs(mol, dtype=torch.float64)
    assert abs(fitted_energy(*inputs) - bridge.pyscf_reference_energy(mol)) <= 1e-9


# -- transforms ------------------------------------------------------------------------------------


def coefficients(nbasis, nocc, nvir, naux, dtype=torch.float32):
    return (
        random_tensor(nbasis, nbasis, naux, dtype=dtype),
        random_tensor(nbasis, nocc, dtype=dtype, seed=1),
        random_tensor(nbasis, nvir, dtype=dtype, seed=2),
    )


@pytest.mark.parametrize("sizes", [(32, 5, 10, 16), (7, 1, 1, 3), (12, 8, 4, 1)])
def test_the_transform_is_that_of_the_definition(sizes):
    tensors = coefficients(*sizes, dtype=torch.float64)
    got = trntensor.ao_to_mo_transform(*tensors)
    want = np.einsum("mnP,mi,na->iaP", *(x.numpy() for x in tensors), optimize=True)
    assert got.shape == want.shape
    assert np.allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "generation"),
    [((20, 3, 7, 16), "gen2"), ((130, 2, 3, 5), "gen3"), ((20, 3, 7, 16), "gen4")],
)
def test_the_transform_is_one_launch(sizes, generation):
    tensors = coefficients(*sizes)
    before = counts()
    with trntensor.backend("simulator"), strict_simulation(generation):
        got = trntensor.ao_to_mo_transform(*tensors)
    assert dict((counts() - before).launches) == {"chain": 1}
    wide = [x.double().numpy() for x in tensors]
    want = np.einsum("mnP,mi,na->iaP", *wide, optimize=True)
    size = np.einsum("mnP,mi,na->iaP", *map(np.abs, wide), optimize=True)
    assert (np.abs(got.numpy() - want) <= (2 * sizes[0] + 4) * 2.0**-24 * size).all()


def test_four_indices_in_quarter_steps():
    eri = random_tensor(6, 6, 6, 6)
    c = [random_tensor(6, n, seed=n) for n in (2, 4, 3, 5)]
    want = torch.einsum("pqrs,pi,qa,rj,sb->iajb", *(x.double() for x in (eri, *c)))
    got = trntensor.four_index_transform(eri, *c)
    assert torch.allclose(got.double(), want, atol=1e-3)
    before = counts()
    with trntensor.backend("simulator"):
        kernels = trntensor.four_index_transform(eri, *c)
    assert torch.allclose(kernels.double(), want, atol=1e-3)
    assert dict((counts() - before).launches) == {"chain": 2}


def test_integrals_in_shards():
    eri, occ, vir = coefficients(6, 2, 3, 10)
    want = trntensor.ao_to_mo_transform(eri, occ, vir)
    shards = trntensor.ao_to_mo_transform(trntensor.parallel.scatter(eri, 2, 3), occ, vir)
    assert shards.partition_dim == 2  # by auxiliary functions, as they were
    assert torch.allclose(trntensor.parallel.gather(shards), want, atol=1e-4)
    summed = trntensor.ao_to_mo_transform(trntensor.parallel.scatter(eri, 0, 3), occ, vir)
    assert torch.allclose(summed, want, atol=1e-4)


def test_gradients_of_energy_and_transform():
    b, eps_occ, eps_vir = (x.requires_grad_() for x in problem(2, 3, 4))
    assert torch.autograd.gradcheck(trntensor.mp2_energy, (b, eps_occ, eps_vir))
    tensors = [x.requires_grad_() for x in coefficients(4, 2, 3, 2, torch.float64)]
    assert torch.autograd.gradcheck(trntensor.ao_to_mo_transform, tensors, fast_mode=True)


def test_shapes_that_do_not_fit():
    b, eps_occ, eps_vir = problem(2, 3, 4)
    with pytest.raises(ValueError, match=r"B must be 3D, got shape \(3, 4\)"):
        trntensor.mp2_energy(b[0], eps_occ, eps_vir)
    with pytest.raises(ValueError, match=r"eps_occ must have shape \(2,\)"):
        trntensor.mp2_energy(b, eps_vir, eps_vir)
    with pytest.raises(ValueError, match=r"eps_vir must have shape \(3,\)"):
        trntensor.mp2_energy(b, eps_occ, eps_occ)
    eri, occ, vir = coefficients(4, 2, 3, 2)
    with pytest.raises(ValueError, match="eri must be 3D"):
        trntensor.ao_to_mo_transform(eri[0], occ, vir)
    with pytest.raises(ValueError, match="first two dims must match"):
        trntensor.ao_to_mo_transform(eri[:3], occ, vir)
    with pytest.raises(ValueError, match="C_occ must be"):
        trntensor.ao_to_mo_transform(eri, occ[:3], vir)
    with pytest.raises(ValueError, match="C_vir must be"):
        trntensor.ao_to_mo_transform(eri, occ, vir[:, 0])
    with pytest.raises(ValueError, match="four dimensions of one size"):
        trntensor.four_index_transform(eri, occ, occ, occ, occ)
    with pytest.raises(TypeError, match="one dtype"):
        trntensor.ao_to_mo_transform(eri, occ.double(), vir)
