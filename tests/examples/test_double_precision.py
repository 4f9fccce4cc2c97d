"""Pipelines at doublefloat: only kernels run, forward and backward, and no digits are lost.

References are SciPy in float64, and closed forms of the gradients; a script's own comparison is not
trusted.
"""

from pathlib import Path

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import torch

from required import requiring
from scripts import loaded
from trnsci.core.counters import counts

FOLDER = Path(__file__).parents[2] / "examples" / "double_precision"
LIMIT = 1e-12
LIBRARIES = ("trnblas", "trnfft", "trnsolver", "trntensor")


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return lambda name: loaded(FOLDER / f"{name}.py")


def on_kernels(load, pipeline, *operands):
    """The result and the gradients of half its squared norm, as arrays; nothing runs on torch."""
    before = counts()
    with requiring(*LIBRARIES, level="all"):
        parts = load("_comparison").passes(pipeline, operands, "simulator")
    since = counts() - before
    for part in parts:
        assert part.since.launches.total() > 0
    assert [since.refusals, since.fallbacks, since.no_kernel] == [{}] * 3
    return [x.detach().numpy() for part in parts for x in part.tensors], parts


def check(found, *exact):
    for got, want in zip(found, exact, strict=True):
        assert np.linalg.norm(got - want) <= LIMIT * np.linalg.norm(want)


def test_the_solution_of_poisson_is_its_own_gradient_solved_again(load):
    poisson = load("poisson")
    source, solution = poisson.problem((7, 8, 9))

    def solved(f):
        waves = np.meshgrid(*(scipy.fft.fftfreq(n, 1 / n) for n in f.shape), indexing="ij")
        squares = sum(w * w for w in waves)
        squares[0, 0, 0] = np.inf
        return scipy.fft.ifftn(-scipy.fft.fftn(f) / squares).real

    found, parts = on_kernels(load, poisson.solved, source)
    exact = solved(source.numpy())
    check(found, exact, solved(exact))  # the inverse of lap is symmetric
    assert [part.since.launches for part in parts] == [{"doublefloat_transform": 2}] * 2
    check([exact], solution.numpy())


def test_orbital_energies_and_their_gradients(load):
    molecule = load("_chain").chain(4)
    fock, overlap = molecule.fock.numpy(), molecule.overlap.numpy()
    energies, c = scipy.linalg.eigh(fock, overlap)
    found, parts = on_kernels(
        load, load("orbitals").orbital_energies, molecule.fock, molecule.overlap
    )
    # de = c^T (dF - e dS) c for each column c, with C^T S C = I.
    by_fock, by_overlap = ((c * w) @ c.T for w in (energies, -(energies**2)))
    # A gradient by F is in its lower triangle, which is read.
    check([found[0], *((x + x.T) / 2 for x in found[1:])], energies, by_fock, by_overlap)
    for part in parts:
        assert {"doublefloat_gemm", "trsm"} <= set(part.since.launches)
    assert {"cholesky", "jacobi_eigh"} <= set(parts[0].since.launches)


def test_a_correlation_energy_and_its_gradients(load):
    molecule, df_mp2 = load("_chain").chain(4), load("df_mp2")
    n = molecule.occupied
    operands = (molecule.repulsion, molecule.metric, molecule.orbitals, molecule.energies)
    found, parts = on_kernels(load, lambda *x: df_mp2.correlation_energy(*x, occupied=n), *operands)

    leaves = [x.clone().requires_grad_() for x in operands]
    repulsion, metric, orbitals, e = leaves
    half = torch.einsum("mi,na,mnp->iap", orbitals[:, :n], orbitals[:, n:], repulsion)
    t = torch.einsum("iap,pq,jbq->iajb", half, torch.linalg.inv(metric), half)
    gaps = e[:n, None, None, None] + e[:n, None] - e[n:, None, None] - e[n:]
    energy = (t * (2 * t - t.transpose(1, 3)) / gaps).sum()
    gradients = [x.numpy() for x in torch.autograd.grad(energy**2 / 2, leaves)]
    check(found, energy.detach().numpy(), *gradients)
    launches = [set(part.since.launches) for part in parts]
    assert {"cholesky", "trsm", "doublefloat_gemm", "doublefloat_mp2_energy"} <= launches[0]
    assert {"trsm", "doublefloat_gemm"} <= launches[1]


def test_integrals_are_those_of_the_hydrogen_molecule_in_sto_3g(load):
    """Szabo and Ostlund, Modern Quantum Chemistry (1996), section 3.5.2: to four digits."""
    chain = load("_chain")
    nuclei = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.4]], dtype=torch.float64)
    exponents = (0.168856, 0.623913, 3.42525)
    basis = chain.at_nuclei(nuclei, exponents)
    contraction = torch.zeros(6, 2, dtype=torch.float64)
    for atom in (0, 1):
        contraction[3 * atom : 3 * atom + 3, atom] = torch.tensor([0.444635, 0.535328, 0.154329])
    overlap, core = (contraction.T @ x @ contraction for x in chain.one_electron(basis, nuclei))
    assert overlap[0].tolist() == pytest.approx([1, 0.6593], abs=1e-4)
    assert core[0].tolist() == pytest.approx([-1.1204, -0.9584], abs=1e-4)
    # The product of two functions of one nucleus is one Gaussian, with the sum of the exponents.
    first = chain.Gaussians(basis.centres[:3], basis.exponents[:3])
    sums = (first.exponents[:, None] + first.exponents).flatten()
    products = chain.Gaussians(torch.zeros(9, 3, dtype=torch.float64), sums)
    weights = contraction[:3, 0].outer(contraction[:3, 0]) * first.norms.outer(first.norms)
    weights = weights.flatten() / products.norms
    repulsion, metric = chain.two_electron(basis, products)
    assert float(weights @ metric @ weights) == pytest.approx(0.7746, abs=1e-4)
    three = torch.einsum("ma,nb,mnp,p->ab", contraction, contraction, repulsion, weights)
    assert three.flatten().tolist() == pytest.approx([0.7746, 0.4441, 0.4441, 0.5697], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("poisson", ("--sides", "3", "8", "8"), "7 or more points"),
        ("orbitals", ("--atoms", "3"), "2, 4, 6"),
        ("df_mp2", ("--atoms", "0"), "2, 4, 6"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(load, name, arguments, wanted, capsys):
    with pytest.raises(SystemExit, match="2"):
        load(name).main(arguments)
    assert wanted in capsys.readouterr().err
