"""DF-MP2 energies: random input with recorded energies, and molecules against PySCF."""

import pytest
import torch

import trnblas
from required import on_simulator, requiring
from trnsci.core.counters import counts


def test_the_synthetic_energy_is_the_recorded_one(load_example):
    df_mp2 = load_example("df_mp2.py")
    inputs = df_mp2.synthetic(*df_mp2.SHAPES["small"])
    timings = {}
    energy = df_mp2.df_mp2_energy(*inputs, timings=timings)
    assert f"{energy:.6e}" == f"{df_mp2.PUBLISHED['small']:.6e}" == "-1.619250e-04"
    # More digits than these depend on how a machine rounds the numbers that are drawn in float32.
    wide = df_mp2.df_mp2_energy(*(x.double() for x in inputs))
    assert f"{wide:.6e}" == "-1.619250e-04"
    exact = df_mp2.defined_energy(inputs)
    # T is made of two sums of 128 terms and two of 384, and comes twice.
    assert abs(wide - exact) <= 2 * (2 * 128 + 2 * 384) * 2.0**-53 * abs(exact)
    assert list(timings) == ["chol", "half", "metric", "energy"]


@pytest.mark.parametrize("slice_bytes", [1, 9000, 2**28])
def test_slices_do_not_change_the_energy(load_example, monkeypatch, slice_bytes):
    df_mp2 = load_example("df_mp2.py")
    monkeypatch.setattr(df_mp2, "SLICE_BYTES", slice_bytes)
    inputs = tuple(x.double() for x in df_mp2.synthetic(12, 5, 20))
    exact = df_mp2.defined_energy(inputs)
    # Products of 20 and 12 terms and sums of 1225; nothing cancels by more than the exchange does.
    assert abs(df_mp2.df_mp2_energy(*inputs) - exact) <= 2000 * 2.0**-53 * abs(exact)


def test_the_command_line(load_example, capsys, monkeypatch):
    df_mp2 = load_example("df_mp2.py")
    assert df_mp2.flops(*df_mp2.SHAPES["small"]) == pytest.approx(3.4e9, rel=0.02)
    df_mp2.main(["--demo", "--nbasis", "8", "--nocc", "3"])
    assert "8 basis functions, 3 occupied, 24 auxiliary" in capsys.readouterr().out
    monkeypatch.setitem(df_mp2.SHAPES, "small", (9, 2, 20))
    df_mp2.main(["--fused-energy", "--shape", "small"])
    shown = capsys.readouterr().out
    assert "9 basis functions, 2 occupied, 20 auxiliary" in shown
    assert "published -1.619250000e-04" in shown
    df_mp2.main(["--bench", "--nbasis", "8", "--nocc", "3", "--naux", "9", "--passes", "warm"])
    out = capsys.readouterr().out
    assert "warm: " in out
    assert "cold: " not in out


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
@pytest.mark.parametrize("flag", ["--fused-energy", "--fused-gemm-energy", "--batched-pair-energy"])
def test_every_energy_step_on_every_path(load_example, flag, backend):
    df_mp2 = load_example("df_mp2.py")
    inputs = df_mp2.synthetic(12, 3, 20)
    before = counts()
    with requiring("trnblas"), trnblas.backend(backend):
        energy = df_mp2.df_mp2_energy(*inputs, energy_step=df_mp2.ENERGY_STEPS[flag])
    assert bool((counts() - before).launches) == (backend == "simulator")
    exact = df_mp2.defined_energy(inputs)
    # T is a product of sums of 12, 12, 20 and 20 terms, the energy 729 terms of its square.
    assert abs(energy - exact) <= (2 * 64 + 729) * 2.0**-24 * abs(exact)


def test_every_product_runs_on_a_kernel(load_example):
    df_mp2 = load_example("df_mp2.py")
    inputs = df_mp2.synthetic(12, 3, 20)
    before = counts()
    with on_simulator("trnblas", "trnsolver", "trntensor"):
        energy = df_mp2.df_mp2_energy(*inputs, energy_step=df_mp2.fused_energy)
    since = counts() - before
    assert {"batched_gemm", "chain", "mp2_energy"} <= set(since.launches)
    assert not since.fallbacks
    exact = df_mp2.defined_energy(inputs)
    assert abs(energy - exact) <= (2 * 64 + 729) * 2.0**-24 * abs(exact)


def test_screening_is_by_the_fitted_integrals(load_example):
    df_mp2 = load_example("df_mp2.py")
    inputs = df_mp2.synthetic(6, 2, 9)
    _, _, eri, metric, _, _ = (x.double() for x in inputs)
    diagonal = torch.einsum("mnp,pq,mnq->mn", eri, torch.linalg.inv(metric), eri)
    products = torch.outer(diagonal.flatten(), diagonal.flatten()).sqrt()
    below, above = products.flatten().unique()[100:102].tolist()
    threshold = (below + above) / 2
    kept = int((products > threshold).sum())
    assert 0 < kept < 6**4
    assert df_mp2.screening(inputs, threshold)["significant_quartets"] == kept


# float32 bounds are the gates of the published tests of these molecules and bases.
MOLECULES = [
    ("h2o", "sto-3g", 1e-6),
    ("h2o", "cc-pvdz", 1e-5),
    ("ch4", "cc-pvdz", 1e-5),
    ("nh3", "cc-pvdz", 1e-5),
    ("glycine", "sto-3g", 1e-5),
    ("glycine", "cc-pvdz", 1e-5),
]


@pytest.mark.slow
@pytest.mark.pyscf
@pytest.mark.parametrize(("name", "basis", "narrow"), MOLECULES)
def test_molecules_against_pyscf(load_example, name, basis, narrow):
    pytest.importorskip("pyscf")
    bridge, df_mp2 = load_example("_pyscf_bridge.py"), load_example("df_mp2.py")
    mol = bridge.make_mol(name, basis)
    reference = bridge.pyscf_reference_energy(mol)
    wide = df_mp2.df_mp2_energy(*bridge.build_df_mp2_inputs(mol, dtype=torch.float64))
    assert abs(wide - reference) <= 1e-9
    energy = df_mp2.df_mp2_energy(*bridge.build_df_mp2_inputs(mol))
    assert abs(energy - reference) <= narrow


@pytest.mark.slow
@pytest.mark.pyscf
def test_unknown_molecules_are_refused(load_example):
    pytest.importorskip("pyscf")
    with pytest.raises(ValueError, match=r"make_mol: name must be one of h2o, .*, got 'xenon'"):
        load_example("_pyscf_bridge.py").make_mol("xenon")
