"""Pictures of patterns, and the Fock matrix that draws one."""

from pathlib import Path

import numpy as np
import pytest
import torch

import trnsparse as ts
from scripts import loaded

from .cases import random_dense

EXAMPLE = Path(__file__).parents[2] / "examples" / "sparse_fock.py"


def drawn(ax):
    return np.asarray(ax.get_images()[0].get_array())


def test_a_small_matrix_is_drawn_entry_by_entry():
    dense = random_dense(5, 7)
    ax = ts.plot_pattern(ts.from_dense(dense))
    assert np.array_equal(drawn(ax), (dense != 0).numpy())
    assert ax.get_title() == repr(ts.from_dense(dense))


def test_a_large_one_shows_how_full_its_cells_are():
    dense = torch.zeros(40, 40)
    dense[:2, :2] = 1
    dense[39, 39] = 1
    image = drawn(ts.plot_pattern(ts.from_dense(dense), pixels=20))
    assert image.shape == (20, 20)
    assert (image[0, 0], image[-1, -1], image.sum()) == (1.0, 0.25, 1.25)


def test_blocks_are_drawn_as_blocks_and_nothing_as_nothing():
    A = ts.BSRMatrix.from_dense(torch.block_diag(torch.ones(8, 8), torch.ones(3, 3)), 8)
    ax = ts.plot_pattern(A)
    assert np.array_equal(drawn(ax), np.eye(2))
    assert ts.plot_pattern(A, ax) is ax
    assert drawn(ts.plot_pattern(ts.from_dense(torch.zeros(0, 3)))).sum() == 0
    with pytest.raises(TypeError, match="sparse matrix"):
        ts.plot_pattern(torch.eye(2))


@pytest.fixture
def fock():
    return loaded(EXAMPLE)


def test_integrals_are_those_of_gaussians(fock):
    """(ij|kl) of s functions, by numerical integration of the Laplace transform of 1/r."""
    eri = fock.integrals(3, spacing=1.1, exponent=0.6).reshape(3, 3, 3, 3)
    a, places = 0.6, np.arange(3) * 1.1
    u, weights = np.polynomial.legendre.leggauss(60)
    u, weights = (u + 1) / 2, weights / 2
    for i, j, k, m in ((0, 0, 0, 0), (0, 1, 1, 2), (0, 2, 0, 2)):
        p = q = 2 * a
        overlap = np.exp(-a / 2 * (places[i] - places[j]) ** 2)
        overlap *= np.exp(-a / 2 * (places[k] - places[m]) ** 2)
        distance = (places[i] + places[j]) / 2 - (places[k] + places[m]) / 2
        t = p * q / (p + q) * distance**2
        boys = (weights * np.exp(-t * u**2)).sum()
        scale = 2 * np.pi**2.5 / (p * q * np.sqrt(p + q)) * (2 * a / np.pi) ** 3
        assert eri[i, j, k, m].item() == pytest.approx(scale * overlap * boys, rel=1e-12)


def test_paths_agree_and_stay_within_what_screening_allows(fock, capsys, tmp_path):
    fock.main(["--atoms", "8", "--threshold", "1e-5", "--picture", str(tmp_path / "p.png")])
    shown = capsys.readouterr().out
    error, allowed = (float(w.strip(",")) for w in shown.split("max |error| ")[1].split()[:3:2])
    assert 0 < error <= allowed
    assert float(shown.split("differ by ")[1].split()[0]) < 1e-12
    assert (tmp_path / "p.png").stat().st_size > 1000
