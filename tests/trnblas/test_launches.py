"""What each launch tells its kernel, and what its cut is chosen for."""

from __future__ import annotations

import itertools

import pytest
import torch

import trnblas._paths.launches
import trnblas.symmetric
from trnblas import mp2
from trnblas._kernels import tiling_syrk
from trnblas.matrix_products import BATCHED_GEMM, GEMM, GEMMT
from trnblas.rank_k import SYR2K, SYRK
from trnblas.symmetric import SYMM
from trnblas.triangular import TRMM
from trnblas.triangular_systems import BATCHED_TRSM, TRSM

M, N, K, BATCH = 2, 3, 5, 4
FLAGS = list(itertools.product("NT", repeat=2))


class Noted:
    """Stands for a launcher: notes the kernel and its arguments."""

    def __call__(self, kernel, *args):
        self.kernel, self.args = kernel.__name__, args
        return torch.zeros(1)


@pytest.fixture
def launch():
    return Noted()


@pytest.fixture
def cuts(monkeypatch):
    """What cuts are asked for; the blocks are their number."""
    asked = []

    class Cut:
        def __init__(self, *args, **options):
            asked.append((args, options))
            self.blocks = len(asked)

    monkeypatch.setattr(trnblas._paths.launches, "gemm_tiling", Cut)
    monkeypatch.setattr(trnblas.symmetric, "gemm_tiling", Cut)
    monkeypatch.setattr(tiling_syrk, "syrk_tiling", Cut)
    return asked


def operand(rows, columns, flag, *batch, dtype=torch.float32):
    shape = (columns, rows) if flag == "T" else (rows, columns)
    return torch.zeros(*batch, *shape, dtype=dtype)


@pytest.mark.parametrize(("of_a", "of_b"), FLAGS)
@pytest.mark.parametrize(
    ("a_batch", "b_batch", "batch", "shared"),
    [
        ((), (), 1, ""),
        ((BATCH,), (BATCH,), BATCH, ""),
        ((), (BATCH,), BATCH, "a"),
        ((BATCH,), (), BATCH, "b"),
    ],
)
def test_products(launch, cuts, of_a, of_b, a_batch, b_batch, batch, shared):
    a, b = operand(M, K, of_a, *a_batch), operand(K, N, of_b, *b_batch)
    run = BATCHED_GEMM if batch > 1 else GEMM
    run.launch(launch, 2.0, a, b, 0.5, None, of_a, of_b)
    assert launch.kernel == ("batched_gemm" if batch > 1 else "gemm")
    assert launch.args == (a, b, None, 2.0, 0.5, of_a == "T", of_b == "T", 1)
    layouts = {
        "a_layout": "rows" if of_a == "T" else "columns",
        "b_layout": "columns" if of_b == "T" else "rows",
    }
    assert cuts == [
        ((M, N, K, "float32"), {**layouts, "batch": batch, "shared": shared, "parts": 1})
    ]


@pytest.mark.parametrize(("of_a", "of_b"), FLAGS)
def test_triangles_of_products(launch, cuts, of_a, of_b):
    a, b = operand(M, K, of_a, dtype=torch.bfloat16), operand(K, M, of_b, dtype=torch.bfloat16)
    GEMMT.launch(launch, 2.0, a, b, 0.0, None, True, of_a, of_b)
    assert launch.args == (a, b, None, 2.0, 0.0, of_a == "T", of_b == "T", True, 1)
    # Neither operand is turned on the chip where both have the contraction on their rows.
    layout = "rows" if (of_a, of_b) == ("T", "N") else "columns"
    assert cuts == [((M, K, "bfloat16"), {"layout": layout, "operands": 2})]


@pytest.mark.parametrize(
    ("left", "upper", "layouts"),
    [
        (True, True, ("upper", "rows")),
        (True, False, ("lower", "rows")),
        (False, True, ("columns", "upper")),
        (False, False, ("columns", "lower")),
    ],
)
def test_symmetric_products(launch, cuts, left, upper, layouts):
    a, b = torch.zeros((M, M) if left else (N, N)), torch.zeros(M, N)
    SYMM.launch(launch, 2.0, a, b, 0.0, None, left, upper, False)
    assert launch.args == (a, b, None, 2.0, 0.0, left, upper, 1)
    wanted = {"a_layout": layouts[0], "b_layout": layouts[1]}
    assert cuts == [((M, N, M if left else N, "float32"), wanted)]


@pytest.mark.parametrize("trans", ["N", "T"])
def test_rank_k_updates(launch, cuts, trans):
    a = operand(M, K, trans)
    SYRK.launch(launch, 2.0, a, 0.0, None, trans, False)
    assert launch.args == (a, None, 2.0, 0.0, trans == "T", 1)
    SYR2K.launch(launch, 2.0, a, a, 0.0, None, trans)
    assert launch.args == (a, a, None, 2.0, 0.0, trans == "T", 2)
    layout = "rows" if trans == "T" else "columns"
    assert cuts == [((M, K, "float32"), {"layout": layout, "operands": n}) for n in (1, 2)]


@pytest.mark.parametrize("operation", [TRSM, BATCHED_TRSM, TRMM], ids=lambda it: it.name)
def test_triangular_operands(launch, operation):
    a, b = torch.zeros(M, M), torch.zeros(M, N)
    if operation is BATCHED_TRSM:
        b = b.expand(BATCH, M, N)
    for trans in "NT":
        operation.launch(launch, 2.0, a, b, True, False, trans, True)
        assert launch.kernel == operation.name
        assert launch.args == (a, b, 2.0, True, False, trans == "T", True)


def test_energies_are_float32_in_one_dimension(launch):
    b, wide = torch.zeros(M, N, K), torch.arange(3.0, dtype=torch.float64).reshape(3, 1)
    for run, args in (
        (mp2.MP2_ENERGY, (b[0], wide, wide, wide)),
        (mp2.BATCHED_PAIR_ENERGY, (b, wide, wide)),
        (mp2.PAIR_ENERGY, (b[0], b[1], -1.5, -0.25, wide)),
    ):
        assert run.launch(launch, *args).shape == ()
        energies = [x for x in launch.args if x.ndim == 1]
        assert len(energies) == len(args) - (2 if run is mp2.PAIR_ENERGY else 1)
        assert all(x.dtype is torch.float32 for x in energies)
        assert energies[-1].tolist() == [0.0, 1.0, 2.0]
    assert [x.tolist() for x in energies[:2]] == [[-1.5], [-0.25]]
