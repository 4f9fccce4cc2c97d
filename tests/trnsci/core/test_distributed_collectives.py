"""Collectives of uneven parts: values, counted bytes, gradients as the transposed map."""

import pytest
import torch
import torch.distributed as dist

from ranks import Watched, pool, rank_numbers
from trnsci.core.distributed import collectives
from trnsci.core.distributed.groups import ranks_of
from trnsci.core.distributed.plans import all_reduced

RANKS = (1, 2, 3, 4)
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SIZES = {"even": (2, 2, 2, 2), "uneven": (3, 0, 1, 2)}


def _numbers(shape, dtype, seed):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def _cases(ranks, kind, dtype):
    """Return, for each collective: the call, each rank's operand, each rank's value, its bytes."""
    p, sizes = ranks.size, SIZES[kind][: ranks.size]
    rank, cuts, total = ranks.rank, [sum(sizes[:r]) for r in range(p)], sum(sizes)
    item = dtype.itemsize
    x = [_numbers((total, 3), dtype, r) for r in range(p)]
    parts = [_numbers((3, size), dtype, 10 + r) for r, size in enumerate(sizes)]
    whole = torch.cat(parts, 1)
    columns = (2, 0, 1, 3)[:p]
    wide = [_numbers((size, sum(columns)), dtype, 20 + r) for r, size in enumerate(sizes)]
    at = [sum(columns[:r]) for r in range(p)]
    tall = [torch.cat(wide)[:, a : a + n] for a, n in zip(at, columns, strict=True)]
    summed = sum(x)
    scattered = [summed[a : a + n] for a, n in zip(cuts, sizes, strict=True)]
    sent = [[(r + s) % 3 for s in range(p)] for r in range(p)]
    rows = [_numbers((sum(sent[r]), 2), dtype, 30 + r) for r in range(p)]
    got = [
        torch.cat([rows[s][sum(sent[s][:r]) :][: sent[s][r]] for s in range(p)]) for r in range(p)
    ]
    received = [sent[s][rank] for s in range(p)]
    lone = [x[0]] * p
    return {
        "all_gather": (
            lambda t: collectives.all_gather(t, ranks, sizes, 1, gradient="partial"),
            parts,
            [whole] * p,
            (total - sizes[rank]) * 3 * item,
        ),
        "reduce_scatter": (
            lambda t: collectives.reduce_scatter(t, ranks, sizes),
            x,
            scattered,
            (p - 1) * sizes[rank] * 3 * item,
        ),
        "exchange": (
            lambda t: collectives.exchange(t, ranks, 0, 1, sizes, columns),
            wide,
            tall,
            (total - sizes[rank]) * columns[rank] * item,
        ),
        "all_to_all": (
            lambda t: collectives.all_to_all(t, ranks, sent[rank], received),
            rows,
            got,
            (sum(received) - received[rank]) * 2 * item,
        ),
        "broadcast": (
            lambda t: collectives.broadcast(t, ranks, 0),
            x,
            lone,
            0 if rank == 0 else total * 3 * item,
        ),
        "all_reduce": (
            lambda t: collectives.all_reduce(t, ranks),
            x,
            [summed] * p,
            all_reduced(total * 3 * item, p),
        ),
    }


def _checked(kind, dtype):
    ranks = ranks_of("test")
    wrong = []
    for name, (call, operands, values, count) in _cases(ranks, kind, dtype).items():
        own = operands[ranks.rank].clone().requires_grad_()
        with Watched() as seen:
            found = call(own.conj() if own.is_complex() else own.mT.mT)
        wanted = values[ranks.rank]
        wanted = wanted.conj() if wanted.is_complex() else wanted
        bound = 4 * torch.finfo(dtype).eps * max(1.0, float(wanted.abs().sum()))
        if found.shape != wanted.shape or (found - wanted).abs().sum() > bound:
            wrong.append((name, "value"))
        if seen.received != count:
            wrong.append((name, seen.calls, count))
        # <G x, y> summed over ranks is <x, G' y>: y is this rank's cotangent.
        y = _numbers(wanted.shape, dtype, 100 + (0 if name == "all_reduce" else ranks.rank))
        if name != "all_reduce" and found.requires_grad:
            (grad,) = torch.autograd.grad(found, own, y)
            left = (found.detach().conj() * y).real.sum() if own.is_complex() else (found * y).sum()
            right = (own.detach().conj() * grad).real.sum()
            both = torch.stack([left.detach(), right]).to(torch.float64)
            dist.all_reduce(both)
            if abs(both[0] - both[1]) > 100 * torch.finfo(dtype).eps * (1 + abs(both[0])):
                wrong.append((name, "gradient", both))
        if name == "all_reduce" and found.requires_grad:
            (grad,) = torch.autograd.grad(found, own, y)
            if not torch.equal(grad, y.conj() if own.is_complex() else y):
                wrong.append((name, "gradient"))
    return wrong


@pytest.mark.parametrize("ranks", rank_numbers(RANKS))
@pytest.mark.parametrize("kind", SIZES)
def test_values_bytes_and_gradients(ranks, kind):
    for dtype in DTYPES:
        assert pool(ranks).run(_checked, kind, dtype) == [[]] * ranks


def _replicated_gradients():
    ranks = ranks_of("test")
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    y = torch.full((1,), 3.0, dtype=torch.float64, requires_grad=True)
    shared = collectives.replicate(x, ranks) * (ranks.rank + 1)
    collectives.all_reduce(shared.sum(), ranks).backward()
    gathered = collectives.all_gather(y, ranks, [1] * ranks.size, gradient="replicated")
    (gathered**2).sum().backward()
    return x.grad.tolist(), y.grad.tolist()


@pytest.mark.parametrize("ranks", rank_numbers(RANKS))
def test_gradients_of_replicated_tensors_are_whole(ranks):
    total = ranks * (ranks + 1) / 2
    assert pool(ranks).run(_replicated_gradients) == [([total, total], [6.0])] * ranks


def _second_gradient():
    ranks = ranks_of("test")
    x = torch.tensor([2.0 + ranks.rank], dtype=torch.float64, requires_grad=True)
    whole = collectives.all_gather(x, ranks, [1] * ranks.size, gradient="replicated")
    (first,) = torch.autograd.grad((whole**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return float(first.detach()), float(second)


def test_second_gradients():
    assert pool(2).run(_second_gradient) == [(12.0, 12.0), (27.0, 18.0)]
