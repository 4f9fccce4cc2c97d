"""The collectives of the suite, with gradients.

Parts may differ in size and be empty. A collective over one rank communicates nothing. Each
function differentiates with one convention, that of DTensor: the gradient of a tensor that is the
same on every rank is the whole gradient, and is the same on every rank.

A collective that fails raises ``RankError``, whose message names the function that called it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor

from trnsci.core.distributed.failures import Announced, finished
from trnsci.core.distributed.groups import Ranks
from trnsci.core.errors import RankError

Linear = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Pending:
    """A tensor that a collective is writing."""

    tensor: Tensor
    work: Any
    ranks: Ranks
    collective: str = "broadcast"

    def wait(self) -> Tensor:
        """Return the tensor when it is complete."""
        if self.work is not None:
            with _named(self.ranks, self.collective):
                finished(self.work, self.tensor)
        return self.tensor


def start_broadcast(tensor: Tensor, ranks: Ranks, root: int) -> Pending:
    """Start to write the root's tensor into the contiguous tensors of the others.

    Computation can continue until ``wait``. It is not differentiable.
    """
    if ranks.size == 1 or tensor.numel() == 0:
        return Pending(tensor, None, ranks)
    with _named(ranks, "broadcast"):
        work = ranks.transport.broadcast(tensor, root)
    return Pending(tensor, work, ranks)


def broadcast(tensor: Tensor, ranks: Ranks, root: int) -> Tensor:
    """Return the root's tensor; others give one of the same shape, which is not read.

    The gradient is the sum of the ranks' gradients, at the root.
    """

    def forward(x: Tensor) -> Tensor:
        sent = _buffer(x) if ranks.rank == root else torch.empty_like(x, memory_format=_DENSE)
        return start_broadcast(sent, ranks, root).wait()

    def transposed(grad: Tensor) -> Tensor:
        total = _copied(grad)
        with _named(ranks, "reduce"):
            ranks.transport.reduce(total, root)
        return total if ranks.rank == root else torch.zeros_like(total)

    return _linear(tensor, ranks, forward, transposed)


def all_gather(
    part: Tensor,
    ranks: Ranks,
    sizes: Sequence[int],
    dim: int = 0,
    *,
    gradient: Literal["partial", "replicated"],
) -> Tensor:
    """Return the parts of all ranks, concatenated.

    Args:
        part: This rank's part.
        ranks: The ranks.
        sizes: Size of each rank's part in the dimension.
        dim: Dimension of the concatenation.
        gradient: ``"partial"`` if ranks compute different things from the result, so that their
            gradients are added; ``"replicated"`` if all compute the same.
    """
    forward = lambda x: _gathered(x, ranks, sizes, dim)  # noqa: E731
    if gradient == "partial":
        return _linear(part, ranks, forward, lambda x: _scattered(x, ranks, sizes, dim))
    return _linear(part, ranks, forward, lambda x: _own(x, ranks, sizes, dim))


def reduce_scatter(x: Tensor, ranks: Ranks, sizes: Sequence[int], dim: int = 0) -> Tensor:
    """Return this rank's part of the sum of the ranks' tensors.

    Args:
        x: The addend of this rank.
        ranks: The ranks.
        sizes: Size of each rank's part in the dimension.
        dim: Dimension of the parts.
    """
    return _linear(
        x,
        ranks,
        lambda x: _scattered(x, ranks, sizes, dim),
        lambda grad: _gathered(grad, ranks, sizes, dim),
    )


def own_part(x: Tensor, ranks: Ranks, sizes: Sequence[int], dim: int = 0) -> Tensor:
    """Return this rank's part of a tensor that is the same on every rank.

    It is free; its gradient is gathered.
    """
    return _linear(
        x,
        ranks,
        lambda x: _own(x, ranks, sizes, dim),
        lambda grad: _gathered(grad, ranks, sizes, dim),
    )


def all_reduce(x: Tensor, ranks: Ranks) -> Tensor:
    """Return the sum of the ranks' tensors, the same on every rank."""
    return _linear(x, ranks, lambda x: _summed(x, ranks), lambda grad: grad)


def replicate(x: Tensor, ranks: Ranks) -> Tensor:
    """Return a tensor that is the same on every rank, for computations that differ by rank.

    Its gradient is the sum of the ranks' gradients.
    """
    return _linear(x, ranks, lambda x: x.view_as(x), lambda grad: _summed(grad, ranks))


def exchange(
    x: Tensor,
    ranks: Ranks,
    old_dim: int,
    new_dim: int,
    old_sizes: Sequence[int],
    new_sizes: Sequence[int],
) -> Tensor:
    """Return a tensor split along one dimension, split along another one instead.

    Args:
        x: This rank's part along ``old_dim``, whole along ``new_dim``.
        ranks: The ranks.
        old_dim: The dimension that is split.
        new_dim: The dimension to split.
        old_sizes: Size of each rank's part along ``old_dim``.
        new_sizes: Size of each rank's part along ``new_dim``.
    """

    def forward(x: Tensor) -> Tensor:
        blocks = torch.split(x, list(new_sizes), new_dim)
        counts = [block.numel() for block in blocks]
        sent = x.new_empty(sum(counts))
        for place, block in zip(torch.split(sent, counts), blocks, strict=True):
            place.view(block.shape).copy_(block)
        shapes = [_with_size(blocks[ranks.rank].shape, old_dim, size) for size in old_sizes]
        received = [prod(shape) for shape in shapes]
        found = _sent(sent, ranks, counts, received)
        if old_dim == 0:
            return found.view(_with_size(shapes[0], 0, sum(old_sizes)))
        pieces = torch.split(found, received)
        return torch.cat([p.view(s) for p, s in zip(pieces, shapes, strict=True)], old_dim)

    return _linear(
        x,
        ranks,
        forward,
        lambda grad: exchange(grad, ranks, new_dim, old_dim, new_sizes, old_sizes),
    )


def all_to_all(x: Tensor, ranks: Ranks, sent: Sequence[int], received: Sequence[int]) -> Tensor:
    """Return the rows that other ranks sent to this one, in the order of ranks.

    Args:
        x: Rows for rank 0, then for rank 1, and so on.
        ranks: The ranks.
        sent: Number of rows for each rank.
        received: Number of rows from each rank.
    """
    return _linear(
        x,
        ranks,
        lambda x: _sent(x, ranks, sent, received),
        lambda grad: _sent(grad, ranks, received, sent),
    )


def start_shift(x: Tensor, ranks: Ranks, by: int, sizes: Sequence[int]) -> Pending:
    """Start to receive the rows of the rank that is ``by`` ranks further, in a ring.

    Args:
        x: This rank's rows.
        ranks: The ranks.
        by: Distance of the rank whose rows are received, from 1 to the number of ranks less 1.
        sizes: Number of rows of each rank.
    """
    works: list[Any] = []

    def shifted(x: Tensor, by: int, rows: int, pending: bool) -> Tensor:
        sent, received = [0] * ranks.size, [0] * ranks.size
        sent[(ranks.rank - by) % ranks.size] = x.shape[0]
        received[(ranks.rank + by) % ranks.size] = rows
        own = _buffer(x)
        found = own.new_empty(rows, *own.shape[1:])
        with _named(ranks, "all_to_all"):
            works.append(ranks.transport.all_to_all(found, own, received, sent))
        return found if pending else Pending(found, works[-1], ranks, "all_to_all").wait()

    there, here = sizes[(ranks.rank + by) % ranks.size], sizes[ranks.rank]
    found = _applied(
        x,
        lambda x: shifted(x, by, there, True),
        lambda grad: shifted(grad, -by, here, False),
    )
    return Pending(found, works[0], ranks, "all_to_all")


# -- without gradients -----------------------------------------------------------------------------

_DENSE = torch.contiguous_format


def _gathered(part: Tensor, ranks: Ranks, sizes: Sequence[int], dim: int) -> Tensor:
    own = _buffer(part.movedim(dim, 0))
    found = own.new_empty(sum(sizes), *own.shape[1:])
    if found.numel():
        with _named(ranks, "all_gather"):
            ranks.transport.all_gather(list(torch.split(found, list(sizes))), own)
    return found.movedim(0, dim)


def _scattered(x: Tensor, ranks: Ranks, sizes: Sequence[int], dim: int) -> Tensor:
    addends = [_buffer(part) for part in torch.split(x.movedim(dim, 0), list(sizes))]
    total = torch.empty_like(addends[ranks.rank])
    if x.numel():
        with _named(ranks, "reduce_scatter"):
            ranks.transport.reduce_scatter(total, addends)
    return total.movedim(0, dim)


def _summed(x: Tensor, ranks: Ranks) -> Tensor:
    total = _copied(x)
    if x.numel():
        with _named(ranks, "all_reduce"):
            ranks.transport.all_reduce(total)
    return total


def _sent(x: Tensor, ranks: Ranks, sent: Sequence[int], received: Sequence[int]) -> Tensor:
    rows = _buffer(x)
    found = rows.new_empty(sum(received), *rows.shape[1:])
    with _named(ranks, "all_to_all"):
        work = ranks.transport.all_to_all(found, rows, list(received), list(sent))
    return Pending(found, work, ranks, "all_to_all").wait()


def _own(x: Tensor, ranks: Ranks, sizes: Sequence[int], dim: int) -> Tensor:
    return x.narrow(dim, sum(sizes[: ranks.rank]), sizes[ranks.rank])


def _buffer(x: Tensor) -> Tensor:
    return x.resolve_conj().resolve_neg().contiguous()


def _copied(x: Tensor) -> Tensor:
    return x.resolve_conj().resolve_neg().clone(memory_format=_DENSE)


def _with_size(shape: Sequence[int], dim: int, size: int) -> list[int]:
    return [size if at == dim else each for at, each in enumerate(shape)]


@contextmanager
def _named(ranks: Ranks, collective: str) -> Iterator[None]:
    """Raise ``RankError`` with the name of the function for a collective that fails."""
    try:
        yield
    except Announced as error:
        raise error.raised(ranks.function) from None
    except RuntimeError as error:
        raise RankError(
            f"{ranks.function}: {collective} failed on rank {ranks.rank} of {ranks.size}; another "
            f"rank has ended, failed or did not call it in time: {error}"
        ) from error


class _Linear(torch.autograd.Function):
    """A linear map with its transpose, which is differentiable in turn."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Linear, transposed: Linear) -> Tensor:
        """Return the value of the map."""
        ctx.maps = forward, transposed
        return forward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the value of the transpose."""
        forward, transposed = ctx.maps
        return _applied(grads[0], transposed, forward), None, None


def _linear(x: Tensor, ranks: Ranks, forward: Linear, transposed: Linear) -> Tensor:
    """Return ``forward(x)`` with its gradient; one rank has x itself."""
    return x if ranks.size == 1 else _applied(x, forward, transposed)


def _applied(x: Tensor, forward: Linear, transposed: Linear) -> Tensor:
    if not (x.is_floating_point() or x.is_complex()):
        return forward(x)  # works in transforms of torch.func too
    found: Tensor = _Linear.apply(x, forward, transposed)  # type: ignore[no-untyped-call]
    return found
