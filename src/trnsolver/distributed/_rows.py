"""Operands of the distributed functions: rows of matrices on the ranks, checked on all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from trnsci.core.arguments import agree
from trnsci.core.distributed.agreement import agreement, gradients
from trnsci.core.distributed.collectives import all_gather
from trnsci.core.distributed.groups import Ranks, ranks_of, ranks_of_mesh
from trnsci.core.distributed.layout import Layout, is_dtensor, with_local
from trnsci.core.distributed.rows import on_mesh, part_of, reverse_mode_only
from trnsci.core.errors import DerivativeError, DTypeError, FlagError, OperandError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@dataclass(frozen=True)
class Rows:
    """A matrix of which each rank has rows, and a right-hand side with the same rows.

    Attributes:
        ranks: The ranks.
        layout: Layout of the matrix.
        A: The rows of this rank.
        B: The same rows of the right-hand side, as columns in the dtype of A; None without one.
        mesh: The mesh of DTensors; None for plain tensors.
        vector: Whether the right-hand side is a vector.
    """

    ranks: Ranks
    layout: Layout
    A: Tensor
    B: Tensor | None
    mesh: DeviceMesh | None
    vector: bool

    def sharded(self, local: Tensor) -> Tensor:
        """Return rows of a result in the layout of the matrix, as the operands were given."""
        return on_mesh(local, self.layout.offsets[-1], self.mesh)

    def replicated(self, local: Tensor) -> Tensor:
        """Return a result that every rank has, as the operands were given."""
        if self.mesh is None:
            return local
        from torch.distributed.tensor import Replicate

        return with_local(local, self.mesh, (Replicate(),), local.shape)

    def solution(self, X: Tensor) -> Tensor:
        """Return columns as the right-hand side was given: a vector or a matrix."""
        return X.squeeze(-1) if self.vector else X


class Where(NamedTuple):
    """Where the rows of plain operands are, as given in a call.

    Attributes:
        group: Process group; None for the default one.
        layout: Layout of the rows; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.
    """

    group: Any
    layout: Layout | None
    check: bool

    def ranks_for(self, function: str, *operands: Any) -> Ranks:
        """Return the ranks of the mesh of the first DTensor, or those of the group.

        Raises:
            BackendError: There is no process group, or the group or mesh does not contain this
                rank.
            FlagError: The mesh has several dimensions, or a DTensor comes with a group or layout.
        """
        for x in operands:
            if is_dtensor(x):
                self.only_plain(function, "a DTensor")
                return ranks_of_mesh(function, x.device_mesh, (1,))[0]
        return ranks_of(function, self.group)

    def only_plain(self, function: str, kind: str) -> None:
        """Raise ``FlagError`` if a group or layout is given with an operand that has one itself."""
        for name, value in (("group", self.group), ("layout", self.layout)):
            if value is not None:
                raise FlagError(
                    f"{function}: {name} is for plain tensors and must be None with {kind}, "
                    f"got {value}"
                )


def applied(node: Any, *arguments: Any) -> Any:
    """Call an autograd function, whose ``apply`` has no types in torch."""
    return node.apply(*arguments)


def rows_of(
    function: str,
    A: Any,
    B: Any,
    where: Where,
    fits: Callable[[tuple[int, int]], str],
    differentiable: bool = True,
    options: str = "",
) -> Rows:
    """Return checked operands; every rank returns or raises.

    Args:
        function: The public function, for messages.
        A: A DTensor that is Shard(0), or the rows of this rank.
        B: The right-hand side, like A; None for a function without one.
        where: Where the rows of plain tensors are.
        fits: Returns what is wrong with the shape of the whole matrix, or "".
        differentiable: Whether the function has gradients.
        options: Other arguments that all ranks must give alike.

    Raises:
        BackendError: There is no process group, or it does not contain this rank.
        DerivativeError: An operand is differentiated in a way that the function has not.
        DTypeError: Operands have other types or dtypes.
        FlagError: A DTensor is not Shard(0) on a mesh of one dimension.
        ShapeError: The shapes do not fit.
    """
    layout = where.layout
    with agreement(function, A, B, group=where.group, check=where.check) as describe:
        reverse_mode_only(function)
        ranks = where.ranks_for(function, A, B)
        if B is not None and is_dtensor(A) != is_dtensor(B):
            raise DTypeError(f"{function}: A and B must both be DTensors, or both plain tensors")
        local, mesh = part_of(ranks, "A", A)
        right = None if B is None else part_of(ranks, "B", B, local.shape[0])[0]
        _check(function, local, right)
        if mesh is not None:
            layout = Layout.of(A)
        if layout is not None:
            check_layout(ranks, layout, local)
        tracked = [x.requires_grad for x in (local, right) if x is not None]
        if not differentiable and torch.is_grad_enabled() and any(tracked):
            raise DerivativeError(f"{function}: has no gradients over ranks; detach A")
        told = (
            f"A of {local.shape[1]} columns in {local.dtype}",
            f"B {None if right is None else tuple(right.shape[1:])}",
            f"DTensor {mesh is not None}",
            gradients(local, right),
            options,
            f"layout {None if layout is None else layout.offsets}",
        )
        describe(", ".join(filter(None, told)))
    if layout is None:
        layout = layout_of(local, ranks)
    shape = (layout.offsets[-1], local.shape[1])
    wrong = fits(shape)
    if wrong:
        raise ShapeError(f"{function}: {wrong}, got {shape[0]} x {shape[1]}")
    vector = right is not None and right.ndim == 1
    if right is not None:
        right = (right.unsqueeze(-1) if vector else right).to(local.dtype)
    return Rows(ranks, Layout(shape, 0, layout.offsets), local, right, mesh, vector)


def layout_of(local: Tensor, ranks: Ranks) -> Layout:
    """Return the layout of plain rows, after ranks have told each other how many they have."""
    own = torch.tensor([local.shape[0]], device=local.device)
    sizes = all_gather(own, ranks, [1] * ranks.size, gradient="replicated").tolist()
    offsets = [sum(sizes[:rank]) for rank in range(ranks.size + 1)]
    return Layout((offsets[-1], *local.shape[1:]), 0, tuple(offsets))


def first_derivatives_only(function: str) -> None:
    """Raise ``DerivativeError`` in a backward that is itself to be differentiated."""
    if torch.is_grad_enabled():
        raise DerivativeError(
            f"{function}: has first derivatives only over ranks; take gradients without "
            f"create_graph"
        )


def _check(function: str, local: Tensor, right: Tensor | None) -> None:
    if local.ndim != 2:
        raise ShapeError(f"{function}: A must be a matrix, got shape {tuple(local.shape)}")
    if local.dtype not in _DTYPES:
        raise DTypeError(
            f"{function}: A must be float32, float64 or complex of these, got {local.dtype}"
        )
    if right is None:
        return
    if right.ndim > 2:
        raise OperandError(
            f"{function}: B must be a vector or a matrix, got shape {tuple(right.shape)}"
        )
    if right.is_complex() and not local.is_complex():
        raise DTypeError(
            f"{function}: B is complex, where A is real: {right.dtype} and {local.dtype}"
        )
    agree(function, "A", local, "B", right.to(local.dtype))


def check_layout(ranks: Ranks, layout: Layout, local: Tensor) -> None:
    """Raise ``ShapeError`` unless a layout is one of rows, of which this rank has its own.

    Raises:
        FlagError: It is no ``Layout``.
    """
    if not isinstance(layout, Layout):
        raise FlagError(
            f"{ranks.function}: layout must be a Layout or None, got {type(layout).__name__}"
        )
    rows = layout.sizes[ranks.rank] if layout.ranks == ranks.size else None
    if layout.dim != 0 or rows != local.shape[0]:
        raise ShapeError(
            f"{ranks.function}: layout must have {ranks.size} ranks with the rows of A, "
            f"{local.shape[0]} on rank {ranks.rank}, got offsets {layout.offsets}"
        )
