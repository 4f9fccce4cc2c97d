"""The calculation over five libraries: its parts have the stated shapes, its energy is right."""

import math
from pathlib import Path

import pytest
import torch

import trnsparse
from required import on_simulator
from scripts import loaded

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    return loaded(EXAMPLES / name)


@pytest.fixture(scope="module")
def demo():
    return load("quantum_chemistry/df_mp2_synthetic.py")


SIZES = {"n_ao": 8, "n_aux": 12, "n_occ": 3}


def test_the_shapes_of_every_step(demo):
    system = demo.synthetic_system(**SIZES, seed=1)
    assert system.eri.shape == (8, 8, 12)
    assert torch.equal(system.eri, system.eri.transpose(0, 1))
    assert torch.linalg.eigvalsh(system.metric).min() > 0
    ia_P = demo.half_transform(system.eri, system.C_occ, system.C_vir)
    assert ia_P.shape == (3, 5, 12)
    B = demo.metric_contract(ia_P, system.metric)
    assert B.shape == (3, 5, 12)
    energy, flops = demo.pair_energy(B, system.eps_occ, system.eps_vir)
    assert math.isfinite(energy)
    assert energy < 0
    assert flops > 0


def test_the_energy_is_that_of_its_definition_and_of_its_seed(demo):
    systems = [demo.synthetic_system(**SIZES, seed=seed) for seed in (1, 1, 2)]
    energies = [demo.energy_of(system)[0] for system in systems]
    assert energies[0] == energies[1] != energies[2]
    assert energies[0] == pytest.approx(demo.defined_energy(systems[0]), rel=1e-5)


def test_screening_keeps_all_at_zero_and_none_beyond_everything(demo):
    Q = demo.synthetic_system(**SIZES, seed=1).Q
    assert trnsparse.screen_quartets(Q, 0.0).all()
    assert not trnsparse.screen_quartets(Q, 1e30).any()
    report = demo.screening_report(Q, 1e30)
    assert report["significant_pairs"] == 0
    assert report["total_pairs"] == 64
    assert report["pair_sparsity"] == 1.0


def test_every_library_runs_on_its_kernels(demo):
    from trnsci.core.counters import counts

    system = demo.synthetic_system(**SIZES, seed=1)
    before = counts()
    with on_simulator("trnblas", "trnsolver", "trntensor"):
        energy, _ = demo.energy_of(system)
    since = counts() - before
    assert {"gemm", "batched_gemm", "cholesky", "trsm", "contract"} <= set(since.launches)
    assert not since.fallbacks
    assert energy == pytest.approx(demo.defined_energy(system), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("option_pricing.py", (), marks=pytest.mark.slow),
        ("poisson_fft.py", ("--grid", "32")),
        pytest.param("preconditioned_cg.py", ("--grid", "24"), marks=pytest.mark.slow),
        pytest.param("nvidia_samples/mc_estimate_pi.py", (), marks=pytest.mark.slow),
    ],
)
def test_pictures_are_drawn(name, arguments, tmp_path, capsys):
    picture = tmp_path / "picture.png"
    load(name).main([*arguments, "--plot", str(picture)])
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "passed" in capsys.readouterr().out


@pytest.mark.parametrize("file", ["no/such/folder/picture.png", "picture.no_such_kind"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("block_sparse_attention.py", ("--seq-len", "64", "--picture")),
        ("nvidia_samples/mc_estimate_pi.py", ("--plot",)),
        ("option_pricing.py", ("--plot",)),
        ("poisson_fft.py", ("--grid", "32", "--plot")),
        ("quantum_dynamics.py", ("--backend", "pytorch", "--plot")),
        ("preconditioned_cg.py", ("--grid", "8", "--plot")),
        ("sparse_fock.py", ("--atoms", "6", "--picture")),
    ],
)
def test_a_picture_that_cannot_be_written_is_said_in_a_line(
    name, arguments, file, tmp_path, monkeypatch
):
    example = load(name)
    # What is drawn does not matter.
    monkeypatch.setattr("matplotlib.figure.Figure.draw", lambda figure, renderer: None)
    if hasattr(example, "COUNTS"):
        example.COUNTS = example.COUNTS[:1]
    with pytest.raises(SystemExit, match=rf"^{arguments[-1]}: .*") as said:
        example.main([*arguments, str(tmp_path / file)])
    assert "\n" not in str(said.value)


def test_an_electron_on_a_ring_moves_as_the_closed_form_says():
    dynamics = load("quantum_dynamics.py")
    sites, flux, dt, steps = 24, 0.25, 0.25, 12
    states = dynamics.motion(sites, dt, steps)
    # Plane waves are the eigenvectors: hopping by a phase shifts the momentum.
    momenta = 2 * math.pi * (torch.arange(sites, dtype=torch.float64) - flux) / sites
    waves = torch.exp(
        2j * math.pi * torch.arange(sites).double().outer(torch.arange(sites)) / sites
    )
    waves = waves.to(torch.complex128) / sites**0.5
    phases = torch.exp(2j * dt * steps * torch.cos(momenta))
    want = waves @ (phases * (waves.mH @ dynamics.packet(sites).to(torch.complex128)))
    assert (states[:, -1] - want).abs().max() <= 1e-5


def test_the_price_is_that_of_a_fine_grid_of_paths():
    option = load("option_pricing.py")
    # The mean over the normal distribution of the one number that the geometric mean depends on.
    step = option.YEARS / option.DAYS
    weights = torch.arange(option.DAYS, 0, -1, dtype=torch.float64) / option.DAYS
    deviation = option.VOLATILITY * math.sqrt(step) * float(weights.norm())
    x = torch.linspace(-10, 10, 200_001, dtype=torch.float64)
    drift = (option.RATE - option.VOLATILITY**2 / 2) * step * float(weights.sum())
    mean = torch.exp(math.log(option.SPOT) + drift + deviation * x)
    density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
    value = torch.trapezoid((mean - option.STRIKE).clamp_min(0) * density, x)
    assert option.price() == pytest.approx(math.exp(-option.RATE) * float(value), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("df_mp2.py", ("--nocc", "30"), "0 < nocc < nbasis"),
        ("df_mp2.py", ("--naux", "-1"), "0 < naux"),
        ("df_mp2.py", ("--shape", "huge"), "'small', 'medium', 'large'"),
        ("quantum_chemistry/df_mp2_synthetic.py", ("--n-occ", "99"), "0 < n-occ < n-ao"),
        ("poisson_fft.py", ("--grid", "0"), "2 or more points"),
        ("preconditioned_cg.py", ("--grid", "0"), "2 or more points"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(name, arguments, wanted, capsys):
    with pytest.raises(SystemExit, match="2"):
        load(name).main(arguments)
    assert wanted in capsys.readouterr().err
