"""One rank raises alone in an operator, a preconditioner or a callback of an iterative function.

All ranks end at once, with that rank's error, as they do when a rank ends.
"""

import time

import torch
import torch.distributed as dist

import trnsolver.distributed as solver
import trnsparse
from each_case import each_case
from ranks import SECONDS, Pool, pool, refusal
from trnsci.core.distributed.layout import Layout
from trnsci.core.errors import ShapeError
from trnsparse.distributed import RowShardedCSR

ORDER = 24
MATRIX = torch.diag(torch.arange(1.0, ORDER + 1, dtype=torch.float64))
MATRIX[0, -1] = MATRIX[-1, 0] = 0.5
LATE = 3
"""Calls of the operator or preconditioner before the one that raises."""


class Raising:
    """A function of vectors that raises on rank 1 after some calls."""

    def __init__(self, function, error, everywhere=False):
        self.function, self.error, self.calls = function, error, 0
        self.raises = everywhere or dist.get_rank() == 1

    def __call__(self, v):
        self.calls += 1
        if self.raises and self.calls > LATE:
            raise self.error
        return self.function(v)


def operands():
    layout = Layout.even((ORDER, ORDER), 0, dist.get_world_size())
    A = RowShardedCSR.from_csr(trnsparse.from_dense(MATRIX), layout=layout)
    rows = layout.rows(dist.get_rank())
    return A, MATRIX[rows], torch.ones(ORDER, dtype=torch.float64)[rows], layout


def product(A):
    return lambda v: A.matmul(v, check=False)


def weighted(v):
    return v * torch.linspace(1, 9, len(v), dtype=v.dtype)


# Calls of each function with the function of vectors that raises.
CALLS = {
    "cg, A": lambda A, rows, b, f: solver.cg(f(product(A)), b, tol=1e-12),
    "cg, local A": lambda A, rows, b, f: solver.cg(f(weighted), b, tol=1e-12),
    "cg, M": lambda A, rows, b, f: solver.cg(rows, b, tol=1e-12, M=f(lambda v: v)),
    "cg, callback": lambda A, rows, b, f: solver.cg(A, b, tol=1e-12, callback=f(lambda _: None)),
    "cg, unchecked": lambda A, rows, b, f: solver.cg(f(product(A)), b, tol=1e-12, check=False),
    "minres, A": lambda A, rows, b, f: solver.minres(f(product(A)), b, tol=1e-12),
    "minres, M": lambda A, rows, b, f: solver.minres(A, b, tol=1e-12, M=f(lambda v: v)),
    "RowShardedCSR.cg, M": lambda A, rows, b, f: A.cg(b, tol=1e-12, M=f(lambda v: v)),
    "eigsh, A": lambda A, rows, b, f: solver.eigsh(f(product(A)), 2, v0=b, which="LA"),
}
ERRORS = {"ValueError": ValueError("no product"), "ShapeError": ShapeError("M: no product")}


def failing(name, kind):
    A, rows, b, _ = operands()
    begun = time.monotonic()
    found = refusal(lambda: CALLS[name](A, rows, b, lambda f: Raising(f, ERRORS[kind])))
    return found, time.monotonic() - begun


@each_case("name", CALLS)
def test_all_ranks_end_at_once_with_the_error_of_one(name):
    own = Pool(3)  # which is out of step afterwards
    try:
        kind = "ShapeError" if name.endswith("M") else "ValueError"
        found = own.run(failing, name, kind)
    finally:
        own.end()
    for rank, ((error, text), seconds) in enumerate(found):
        assert seconds < SECONDS / 6, (rank, seconds)
        if rank == 1:
            assert (error, text) == (kind, str(ERRORS[kind]))
        else:
            assert error == ("RankError" if kind == "ValueError" else kind), (rank, error, text)
            assert "on rank 1: " in text
            assert "no product" in text


def backward():
    A, _, b, _ = operands()
    M = Raising(lambda v: v, ValueError("no product"))
    M.raises, raises = False, M.raises
    b.requires_grad_()
    x = solver.cg(A, b, tol=1e-12, M=M).x
    M.raises, M.calls = raises, 0
    return refusal(lambda: x.sum().backward())


def test_gradients_end_at_once_too():
    own = Pool(2)
    try:
        found = own.run(backward)
    finally:
        own.end()
    assert found[1] == ("ValueError", "no product")
    assert found[0][0] == "RankError"
    assert "on rank 1: ValueError: no product" in found[0][1]


def everywhere():
    A, rows, b, _ = operands()
    fail = lambda f: Raising(f, ValueError("no product"), everywhere=True)  # noqa: E731
    errors = [refusal(lambda name=name: CALLS[name](A, rows, b, fail)) for name in CALLS]
    time.sleep(0.5 * dist.get_rank())  # longer than a rank waits before it reads errors
    return errors, float((MATRIX[_rows()] @ A.gather(A.cg(b, tol=1e-12).x) - b).abs().max())


def _rows():
    return Layout.even((ORDER, ORDER), 0, dist.get_world_size()).rows(dist.get_rank())


def test_after_an_error_on_every_rank_the_group_is_usable():
    for errors, residual in pool(2).run(everywhere):
        assert errors == [("ValueError", "no product")] * len(CALLS)
        assert residual <= 1e-9
