"""The scripts that use trnsolver: what they find is right."""

from pathlib import Path

import pytest
import torch

from scripts import loaded

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    return loaded(EXAMPLES / f"{name}.py")


@pytest.mark.parametrize("atom", ["he", "be"])
def test_energies_of_atoms_are_above_the_limit_and_near_it(atom):
    scf = load("scf")
    charge, occupied, limit = scf.ATOMS[atom]
    system = scf.integrals(scf.even_tempered(14), charge)
    found = scf.scf(system, occupied)
    assert found.converged
    # The method is variational, and a basis of 14 Gaussians is complete to a millihartree.
    assert limit <= found.energy <= limit + 1e-3
    c = found.orbitals
    assert torch.allclose(c.mT @ system.overlap @ c, torch.eye(14).double(), atol=1e-6)
    assert not scf.scf(system, occupied, max_iterations=2).converged


def test_muon_learns_and_faster_than_plain_steps_of_the_same_size():
    muon = load("muon")
    orthogonal, plain = muon.losses(120, True), muon.losses(120, False)
    assert orthogonal[-1] < 0.05 * orthogonal[0]
    assert orthogonal[-1] < plain[-1]


def test_conjugate_gradients_on_a_sparse_matrix():
    script = load("nvidia_samples/conjugate_gradient")
    A, b, found = script.solved(8, 1e-8)
    dense = A.to_dense()
    assert torch.equal(dense, dense.mT)
    assert float(dense.sum()) == 4 * 8  # what is missing at the border
    assert found.converged
    assert torch.allclose(found.x, torch.linalg.solve(dense, b), rtol=1e-6)


def test_the_symmetric_eigenproblem():
    residual, orthogonality = load("nvidia_samples/cusolver_syevd").errors(64)
    assert residual < 20 * 64 * torch.finfo(torch.float32).eps
    assert orthogonality < 20 * 64 * torch.finfo(torch.float32).eps
