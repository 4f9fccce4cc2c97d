"""What each launch tells its kernel, and what its cut is chosen for."""

from __future__ import annotations

import itertools

import pytest
import torch

from trnblas._paths import kernel_path

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

    monkeypatch.setattr(kernel_path, "gemm_tiling", Cut)
    monkeypatch.setattr(kernel_path, "syrk_tiling", Cut)
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
    run = kernel_path.batched_gemm if batch > 1 else kernel_path.gemm
    run(launch, a, b, None, 2.0, 0.5, of_a, of_b)
    assert launch.kernel == ("batched_gemm" if batch > 1 else "gemm")
    assert launch.args == (a, b, None, 2.0, 0.5, of_a == "T", of_b == "T", 1)
    layouts = {
        "a_layout": "rows" if of_a == "T" else "columns",
        "b_layout": "columns" if of_b == "T" else "rows",
    }
    assert cuts == [((M, N, K, "float32"), {**layouts, "batch": batch, "shared": shared})]


@pytest.mark.parametrize(("of_a", "of_b"), FLAGS)
def test_triangles_of_products(launch, cuts, of_a, of_b):
    a, b = operand(M, K, of_a, dtype=torch.bfloat16), operand(K, M, of_b, dtype=torch.bfloat16)
    kernel_path.gemmt(launch, a, b, None, 2.0, 0.0, of_a, of_b, True)
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
    kernel_path.symm(launch, a, b, None, 2.0, 0.0, left, upper)
    assert launch.args == (a, b, None, 2.0, 0.0, left, upper, 1)
    wanted = {"a_layout": layouts[0], "b_layout": layouts[1]}
    assert cuts == [((M, N, M if left else N, "float32"), wanted)]


@pytest.mark.parametrize("trans", ["N", "T"])
def test_rank_k_updates(launch, cuts, trans):
    a = operand(M, K, trans)
    kernel_path.syrk(launch, a, None, 2.0, 0.0, trans)
    assert launch.args == (a, None, 2.0, 0.0, trans == "T", 1)
    kernel_path.syr2k(launch, a, a, None, 2.0, 0.0, trans)
    assert launch.args == (a, a, None, 2.0, 0.0, trans == "T", 2)
    layout = "rows" if trans == "T" else "columns"
    assert cuts == [((M, K, "float32"), {"layout": layout, "operands": n}) for n in (1, 2)]


@pytest.mark.parametrize("name", ["trsm", "batched_trsm", "trmm"])
def test_triangular_operands(launch, name):
    a, b = torch.zeros(M, M), torch.zeros(M, N)
    for trans in "NT":
        getattr(kernel_path, name)(launch, a, b, 2.0, True, False, trans, True)
        assert launch.kernel == name
        assert launch.args == (a, b, 2.0, True, False, trans == "T", True)


def test_energies_are_float32_in_one_dimension(launch):
    b, wide = torch.zeros(M, N, K), torch.arange(3.0, dtype=torch.float64).reshape(3, 1)
    for run, args in (
        (kernel_path.mp2_energy, (b[0], wide, wide, wide)),
        (kernel_path.batched_pair_energy, (b, wide, wide)),
        (kernel_path.pair_energy, (b[0], b[1], -1.5, -0.25, wide)),
    ):
        assert run(launch, *args).shape == ()
        energies = [x for x in launch.args if x.ndim == 1]
        assert len(energies) == len(args) - (2 if run is kernel_path.pair_energy else 1)
        assert all(x.dtype is torch.float32 for x in energies)
        assert energies[-1].tolist() == [0.0, 1.0, 2.0]
    assert [x.tolist() for x in energies[:2]] == [[-1.5], [-0.25]]
