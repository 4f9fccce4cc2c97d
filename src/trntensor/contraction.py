"""Einstein summation: one contraction (``einsum``) or several (``multi_einsum``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from numbers import Number
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trntensor._library import LIBRARY
from trntensor._paths.arguments import check_operands, read_arguments
from trntensor._paths.dispatch import traced, traced_terms
from trntensor._paths.precision import (
    Precision,
    checked_precision,
    dtype_of,
    select_precision_for_error,
    with_precision,
)
from trntensor._planning.program import USUAL, Options
from trntensor._planning.subscripts import parse, pointed, sizes_of
from trntensor.plans import cached_plan

__all__ = ["einsum", "multi_einsum"]

Scalar = float | complex | Tensor
_NUMBERS = (Number, Tensor)


def einsum(
    subscripts: str | Tensor,
    *operands: Any,
    alpha: Scalar = 1.0,
    beta: Scalar = 0.0,
    out: Tensor | None = None,
    dtype: torch.dtype | str | None = None,
    precision: str | None = None,
    target_forward_error: float | None = None,
    memory_limit: int | None = None,
) -> Tensor:
    """Return ``alpha * contraction + beta * out``.

    Args:
        subscripts: An index for each dimension of each operand and of the result, such as
            ``"ij,jk->ik"``. Indices that are not in the result are summed. Without an arrow the
            result has the indices that occur once, in alphabetical order, capitals first. ``...``
            means dimensions that broadcast; an index repeated in an operand takes its diagonal; a
            dimension of size 1 broadcasts. Sublists are accepted too:
            ``einsum(A, [0, 1], B, [1, 2], [0, 2])``.
        *operands: Tensors of one dtype on one device.
        alpha: Scale of the contraction.
        beta: Scale of ``out``; if it is 0, ``out`` is not read. Without ``out`` it must be 0.
        out: Tensor to add, of the result's shape. It is not written to.
        dtype: Dtype to cast the operands to first: a torch dtype, or bf16, fp16, f32, f64 and
            their long names.
        precision: A level of the ladder (``"bfloat16"``, ``"float16x3"``, ``"float32"``,
            ``"doublefloat"``), or ``"fast"``, ``"sr"``, ``"dd"`` or ``"kahan"``; None for the one
            that is set for the library, by default ``"fast"``.
        target_forward_error: Error bound from which the precision is selected, by the sharp bounds
            of ``select_precision_for_error``, which include the rounding of the result; excludes
            ``precision``.
        memory_limit: Maximum bytes allocated at a time, the result included; larger contractions
            are computed in slices. Not under ``torch.compile(fullgraph=True)``.

    Operands may be sharded (``trntensor.parallel``).

    Returns:
        A new tensor in the dtype of the operands; sharded if an operand is sharded along an index
        of the result.

    Raises:
        FlagError: The subscripts are malformed, an option is invalid, or no precision reaches the
            target.
        ShapeError: The shapes do not match the subscripts, each other or ``out``, or the memory
            limit is too small.
        DTypeError, DeviceError: The operands differ in dtype or device.

    Example:
        >>> einsum("ij,kj->ki", torch.ones(2, 3), torch.ones(4, 3)).shape
        torch.Size([4, 2])
    """
    text, tensors = read_arguments("einsum", subscripts, operands)
    if target_forward_error is not None and precision not in (None, "fast"):
        raise FlagError(
            f"einsum: precision and target_forward_error exclude each other, got {precision!r} "
            f"and {target_forward_error}"
        )
    precision = checked_precision("einsum", precision)
    _check_scales(alpha, beta, out)
    if dtype is not None:
        wanted = dtype_of("einsum", dtype)
        tensors = [x.to(wanted) if hasattr(x, "to") else x for x in tensors]
    for x in tensors:
        if not isinstance(x, Tensor) and hasattr(x, "partition_dim"):
            if target_forward_error is not None:  # a sum counts its terms over all shards
                terms = _summed_terms(text, tensors)
                precision = _precision_for(tensors[0].dtype, terms, target_forward_error)
            if out is not None and not (isinstance(beta, (int, float)) and beta == 0):
                raise FlagError("einsum: out and beta do not go with operands in shards")
            options = {"alpha": alpha, "precision": precision, "memory_limit": memory_limit}
            return _sharded(text, tensors, options)
    check_operands("einsum", text, tensors)
    if target_forward_error is not None:
        terms = _summed_terms(text, tensors)
        precision = _precision_for(tensors[0].dtype, terms, target_forward_error)
    if is_compiling():
        if memory_limit is not None:
            raise FlagError(
                "einsum: memory_limit is not for compiled graphs, whose memory the compiler plans"
            )
        result = _traced(text, tensors, precision)
    else:
        by = USUAL if memory_limit is None else Options(memory_limit)
        plan = cached_plan("einsum", text, tensors, precision, by)
        result = plan.run(*tensors)
    return _accumulated(text, result, alpha, beta, out)


def _traced(text: str, tensors: Sequence[Tensor], precision: Precision) -> Tensor:
    """Return a contraction made of operations that torch.compile and torch.export record."""
    if precision == "fast":
        return traced(text, tensors, precision)
    return with_precision(precision, lambda *parts: traced(text, parts, precision), tensors)


def _summed_terms(text: str, operands: Sequence[Any]) -> int:
    """Return the number of products that are summed per element of the result."""
    if is_compiling():
        return traced_terms(text, operands)
    equation = parse("einsum", text, tuple(x.ndim for x in operands))
    sizes = sizes_of("einsum", equation, [x.shape for x in operands])
    return prod(size for label, size in sizes.items() if label not in equation.output)


def _sharded(text: str, operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """Return a contraction with sharded operands; ``options`` apply to each part."""
    from trntensor.parallel import sharded_einsum

    return sharded_einsum(partial(einsum, **options), text, operands)


def _precision_for(dtype: torch.dtype, terms: int, target: float) -> Precision:
    # Real and imaginary parts are sums of twice as many products, each with an error.
    terms = max(terms, 1) * (3 if dtype.is_complex else 1)
    return select_precision_for_error(dtype, terms, target, model="sharp")


def _accumulated(
    text: str, result: Tensor, alpha: Scalar, beta: Scalar, out: Tensor | None
) -> Tensor:
    if not (isinstance(alpha, (int, float)) and alpha == 1):
        result = result * alpha
    if out is None:
        return result
    if not isinstance(out, Tensor):
        raise DTypeError(f"einsum: out must be a torch.Tensor, got {type(out).__name__}")
    if out.shape != result.shape:
        message = (
            f"einsum: out must have the result's shape {tuple(result.shape)}, "
            f"got {tuple(out.shape)}"
        )
        raise ShapeError(pointed(message, text))
    if not isinstance(beta, Tensor) and beta == 0:
        return result
    return result + beta * out


def _check_scales(alpha: Any, beta: Any, out: Tensor | None) -> None:
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, _NUMBERS):
            kind = type(value).__name__
            raise DTypeError(f"einsum: {name} must be a number or a 0-d tensor, got {kind}")
    if out is None and (isinstance(beta, Tensor) or beta != 0):
        raise FlagError(f"einsum: beta must be 0 where out is not given, got {beta!r}")


def multi_einsum(
    *contractions: tuple[Any, ...],
    precision: str | None = None,
    target_forward_error: float | None = None,
) -> list[Tensor]:
    """Return the results of several contractions, in their order.

    Repeated contractions of the same tensors are computed once. On a kernel path contractions with
    equal subscripts, shapes and dtypes are one launch.

    Args:
        *contractions: Tuples ``(subscripts, *operands)``.
        precision: As for ``einsum``.
        target_forward_error: As for ``einsum``; the precision is selected per contraction.

    Raises:
        FlagError: A precision and a target are both given.
        ShapeError, DTypeError, DeviceError: As ``einsum``.
    """
    if target_forward_error is not None and precision not in (None, "fast"):
        raise FlagError("multi_einsum: precision and target_forward_error exclude each other")
    chosen = checked_precision("multi_einsum", precision)
    distinct: list[tuple[Any, ...]] = []
    places = []
    for contraction in contractions:
        if not isinstance(contraction, (tuple, list)) or not contraction:
            kind = type(contraction).__name__
            raise DTypeError(f"multi_einsum: a contraction is (subscripts, *operands), got {kind}")
        places.append(_place(distinct, tuple(contraction)))
    found: dict[int, Tensor] = {}
    if (
        LIBRARY.kernels_wanted()
        and target_forward_error is None
        and chosen in ("fast", "sr", "doublefloat")
    ):
        found = _together(distinct, chosen)
    for place, contraction in enumerate(distinct):
        if place not in found:
            found[place] = einsum(
                *contraction, precision=precision, target_forward_error=target_forward_error
            )
    return [found[place] for place in places]


def _place(distinct: list[tuple[Any, ...]], contraction: tuple[Any, ...]) -> int:
    """Return the position of a contraction in a list; append it if it is absent."""
    subscripts, *operands = contraction
    for place, (other, *others) in enumerate(distinct):
        same = other == subscripts if isinstance(subscripts, str) else other is subscripts
        if (
            same
            and len(others) == len(operands)
            and all(x is y for x, y in zip(others, operands, strict=True))
        ):
            return place
    distinct.append(contraction)
    return len(distinct) - 1


def _together(calls: list[tuple[Any, ...]], precision: Precision) -> dict[int, Tensor]:
    """Return the results of contractions; contractions of equal shapes are one batch."""
    kinds: dict[Any, list[int]] = {}
    for place, (subscripts, *operands) in enumerate(calls):
        if isinstance(subscripts, str) and all(isinstance(x, Tensor) for x in operands):
            key = subscripts, *((x.shape, x.dtype, x.device) for x in operands)
            kinds.setdefault(key, []).append(place)
    found: dict[int, Tensor] = {}
    for members in kinds.values():
        text, *first = calls[members[0]]
        if len(members) > 1 and first:
            stacked = [
                torch.stack(column) for column in zip(*(calls[m][1:] for m in members), strict=True)
            ]
            batch = torch.func.vmap(lambda *x, text=text: einsum(text, *x, precision=precision))
            found.update(zip(members, batch(*stacked).unbind(), strict=True))
    return found
