"""The distributed Cholesky factorization: memory, the order of its steps, kernels."""

from itertools import pairwise

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

import trnblas
import trnsolver
from ranks import Watched, pool, refusal
from trnsci.core.backend.precision import precision
from trnsci.core.counters import counts
from trnsci.core.testing import unit_roundoff
from trnsolver import distributed as td


def positive(n):
    """Return a matrix with a condition number below 10."""
    z = torch.randn(n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return z @ z.mT / n + torch.eye(n)


def limited(limit):
    """Solve a system of order 240 within a limit of live bytes, and check it by rows."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    layout = td.Layout.even((240, 240), 0, ranks)
    generator = torch.Generator().manual_seed(3)
    z = torch.randn(240, 20, generator=generator, dtype=torch.float64)
    rows = layout.rows(rank)
    a = z[rows] @ z.T
    a[:, rows].diagonal().add_(1.0)
    b = a.sum(1)

    def solve():
        with Watched([a, b], limit):
            td.solve_spd(a, b, layout=layout)

    found = refusal(solve)
    if found is None:
        x = td.solve_spd(a, b, layout=layout).x
        assert (x - 1).abs().max() < 1e-9  # b is the sum of the columns
    return found


def test_four_ranks_solve_what_one_has_no_memory_for():
    four = td.plan("solve_spd", td.Layout.even((240, 240), 0, 4), dtype=torch.float64)
    one = td.plan("solve_spd", td.Layout.even((240, 240), 0, 1), dtype=torch.float64)
    limit = max(four.peak_bytes)
    assert limit < max(one.peak_bytes) / 2
    assert pool(4).run(limited, limit) == [None] * 4
    ((kind, text),) = pool(1).run(limited, limit)
    assert kind == "MemoryError"
    assert "live tensors" in text


class Order(TorchDispatchMode):
    """Records broadcasts and products, in order."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().partition(".")[0].partition("::")[2]
        if name in ("broadcast_", "mm", "addmm", "linalg_solve_triangular"):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


def order_of_operations():
    layout = td.Layout.even((40, 40), 0, 2)
    rows = positive(40)[layout.rows(dist.get_rank())]
    with Order() as order:
        td.cholesky(rows, layout=layout)
    return order.names


def test_the_next_panel_is_sent_before_the_update_with_this_one():
    names = pool(2).run(order_of_operations)[1]
    solves = [at for at, name in enumerate(names) if name == "linalg_solve_triangular"]
    # Four panels of the first rank update the second one, and three of its own.
    assert len(solves) == 7
    for before, after in pairwise(solves):
        between = names[before + 1 : after]
        last = len(between) - 1 - between[::-1].index("broadcast_")
        # This panel's last columns and the next one's first, then the products of the update.
        assert between.count("broadcast_") == 2
        assert between[last + 1 :].count("mm") + between[last + 1 :].count("addmm") >= 1


def launches():
    """Return the kernels that this rank launches for a system, and the error of its rows."""
    layout = td.Layout.even((16, 16), 0, 2)
    rows = layout.rows(dist.get_rank())
    a = positive(16).float()
    want = torch.ones(16, 1)
    before = counts()
    with trnsolver.backend("simulator"), trnblas.backend("simulator"):
        found = td.solve_spd(a[rows], (a @ want)[rows], layout=layout)
    since = counts() - before
    assert not since.fallbacks
    return dict(since.launches), float((found.x - want[rows]).abs().max())


def test_ranks_launch_the_kernels_of_one_process():
    for names, error in pool(2).run(launches):
        assert {"cholesky", "gemm", "trsm"} <= set(names), names
        assert error <= 100 * 16 * unit_roundoff(torch.float32)  # 10 n u cond, cond below 10


def complex_at_doublefloat():
    """Return errors of complex solutions in roundings of the largest element."""
    layout, found = td.Layout.even((16, 16), 0, 2), []
    rows = layout.rows(dist.get_rank())
    turned = torch.polar(torch.ones(16).double(), torch.arange(16.0).double())
    for dtype in (torch.complex64, torch.complex128):
        a = (turned[:, None] * positive(16) * turned.conj()).to(dtype)
        want = torch.linalg.solve(a.to(torch.complex128), turned[:, None])
        with precision("doublefloat"):
            x = td.solve_spd(a[rows], turned[rows, None].to(dtype), layout=layout).x
        assert x.dtype is dtype
        found.append(float((x - want[rows]).abs().max() / want.abs().max() / unit_roundoff(dtype)))
    return found


def test_complex_systems_are_solved_at_doublefloat():
    for errors in pool(2).run(complex_at_doublefloat):
        assert max(errors) <= 100 * 16  # 10 n u cond, cond below 10
