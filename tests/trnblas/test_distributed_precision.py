"""Levels of precision over ranks: they reach the single-rank functions, backward included."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard

import trnblas.mp2
import trnsci
from ranks import pool, refusal, sharded
from trnblas import distributed
from trnsci.core.counters import counts

WHOLE, COLUMNS, ROWS = (Replicate(),), (Shard(1),), (Shard(0),)


def _matrix(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator)


def _doublefloat():
    """Each rank has whole sums of these products, so they are rounded once."""
    mesh = init_device_mesh("cpu", (3,))
    A, B = _matrix(40, 200, 1), _matrix(200, 30, 2)
    a, b = sharded(A, mesh, WHOLE), sharded(B, mesh, COLUMNS).requires_grad_()
    wanted = A.double() @ B.double()
    C = distributed.gemm(1.0, a, b, precision="doublefloat")
    with trnsci.precision("bfloat16"):  # the backward has the level of the forward
        C.backward(sharded(wanted.float(), mesh, COLUMNS))
    of_B = A.double().mT @ wanted.float().double()
    with trnsci.precision("doublefloat"):
        within = distributed.gemm(1.0, a, b)
    rows = sharded(A.mT.contiguous(), mesh, COLUMNS)
    found = {
        "gemm": (C, wanted),
        "gradient": (b.grad, of_B),
        "in a block": (within, wanted),
        "syrk": (
            distributed.syrk(1.0, sharded(A, mesh, WHOLE), precision="doublefloat"),
            A.double() @ A.double().mT,
        ),
        "transposed": (
            distributed.gemm(1.0, a, rows, placements=COLUMNS, precision="doublefloat"),
            A.double() @ A.double().mT,
        ),
    }
    return {name: bool((x.full_tensor() == y.float()).all()) for name, (x, y) in found.items()}


def test_doublefloat_products_are_rounded_once():
    for found in pool(3).run(_doublefloat):
        assert all(found.values()), found


def _triangular():
    mesh = init_device_mesh("cpu", (3,))
    A = _matrix(60, 60, 3).triu() + 8 * torch.eye(60)
    B = _matrix(60, 6, 4)
    exact = torch.linalg.solve_triangular(A.double(), B.double(), upper=True)
    errors = []
    for whole, split in ((WHOLE, COLUMNS), (ROWS, ROWS)):  # rows of B are solved rank by rank
        a, b = sharded(A, mesh, whole), sharded(B, mesh, split).requires_grad_()
        X = distributed.trsm(1.0, a, b, precision="doublefloat")
        X.sum().backward()
        of_B = torch.linalg.solve_triangular(A.double().mT, torch.ones_like(exact), upper=False)
        errors.append([_ulps(X, exact), _ulps(b.grad, of_B)])
    return errors


def _ulps(found, wanted):
    u = torch.finfo(torch.float32).eps / 2
    return float((found.full_tensor() - wanted).abs().max() / (u * wanted.abs().max()))


def test_doublefloat_solutions_are_rounded_once_by_columns_and_once_per_rank_by_rows():
    for (by_columns, back), by_rows in pool(3).run(_triangular):
        assert max(by_columns, back) <= 1
        # Two updates and the solution are rounded, amplified by |A^-1| |A|, which is below 4 here.
        assert max(by_rows) <= 12


def _energies():
    mesh = init_device_mesh("cpu", (3,))
    B = torch.randn(6, 5, 40, generator=torch.Generator().manual_seed(5))
    occupied, virtual = -2 - torch.rand(6), 1 + torch.rand(5)
    occupied, virtual = occupied.sort().values, virtual.sort().values
    dist.broadcast(occupied, 0)
    dist.broadcast(virtual, 0)
    exact = trnblas.mp2.nki_batched_pair_energy(B.double(), occupied.double(), virtual.double())
    whole = sharded(B, mesh, ROWS)
    return [
        float(
            distributed.batched_pair_energy(whole, occupied, virtual, precision=level).full_tensor()
        )
        / float(exact)
        - 1
        for level in ("doublefloat", "float16x3", "bfloat16")
    ]


def test_energies_at_levels():
    for double, half, brain in pool(3).run(_energies):
        # Energies of six orbitals with others are rounded and summed; all are negative.
        assert abs(double) <= 8 * 2.0**-24
        assert abs(half) <= 1e-5  # six digits
        assert abs(brain) <= 2.0**-5  # operands rounded to 8 bits, squared products


def _launched():
    """Values that bfloat16 rounds to 1: the product counts its terms where kernels compute."""
    mesh = init_device_mesh("cpu", (2,))
    value = torch.full((64, 64), 1 + 2.0**-10)
    a, b = (sharded(value, mesh, ROWS).requires_grad_() for _ in range(2))
    before = counts()
    with trnblas.backend("simulator"):
        C = distributed.gemm(1.0, a, b, precision="bfloat16")
        C.backward(sharded(value, mesh, C.placements))
    launches = (counts() - before).launches
    return launches, [float((x.to_local() - 64).abs().max()) for x in (C, a.grad, b.grad)]


def test_the_level_reaches_the_kernels_of_the_product_and_of_its_gradients():
    for launches, distances in pool(2).run(_launched):
        assert sum(launches.values()) >= 3, launches
        assert distances == [0.0, 0.0, 0.0]


def _disagreeing():
    mesh, odd = init_device_mesh("cpu", (3,)), dist.get_rank() == 1
    A = sharded(torch.eye(6), mesh, ROWS)
    B = sharded(torch.ones(6, 2, 3), mesh, ROWS)
    level = "bfloat16" if odd else None
    narrow = sharded(torch.eye(6, dtype=torch.bfloat16), mesh, ROWS)

    def in_block():
        with trnsci.precision("doublefloat" if odd else "float32"):
            distributed.gemm(1.0, A, A)

    return [
        refusal(lambda: distributed.gemm(1.0, A, A, precision=level)),
        refusal(lambda: distributed.syrk(1.0, A, precision=level)),
        refusal(lambda: distributed.trsm(1.0, A, A, precision=level)),
        refusal(
            lambda: distributed.batched_pair_energy(
                B, -torch.ones(6), torch.ones(2), precision=level
            )
        ),
        refusal(in_block),
        refusal(lambda: distributed.gemm(1.0, A, A, precision="double" if odd else None)),
        refusal(lambda: distributed.gemm(1.0, narrow, narrow, precision="doublefloat")),
    ]


def test_ranks_must_share_a_level():
    for found in pool(3).run(_disagreeing):
        for error in found[:5]:
            assert error is not None
            assert error[0] == "RankError"
            assert "precision float32" in error[1]
        assert found[5][0] == "FlagError"
        assert found[6][0] == "DTypeError"


def test_the_memory_of_a_call_does_not_depend_on_levels_of_the_past():
    """A rank holds a block of each matrix and of each operand from elsewhere, and no copy."""

    def peak():
        return distributed.plan("gemm", (8192, 8192), (8192, 8192), mesh=(4, 4)).peak_bytes[0]

    block = 2048 * 2048 * 4
    with trnblas.precision("doublefloat"):
        assert peak() > 5 * block
    assert peak() == 5 * block
    with trnblas.precision("float32"):
        assert peak() == 5 * block
