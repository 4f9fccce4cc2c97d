"""Derivatives of an operation, defined once for autograd, torch.func and forward mode.

An operation is one node of autograd's graph on every path. The node has a backward rule, a
forward-mode rule and a vmap rule, so that ``grad``, ``jvp``, ``vmap`` and every nesting of them
agree on kernel paths and on torch. An operation without its own rules differentiates its reference,
which is then computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from trnsci.core.backend.autocast import without_autocast
from trnsci.core.backend.setting import restored, snapshot
from trnsci.core.interop import (
    SingleLevelFunction,
    below_autograd,
    single_level,
    transform_level,
    with_forward_mode,
)

_unpack_dual: Any = forward_ad.unpack_dual

Gradients = tuple[Tensor | None, ...]
Needed = Sequence[bool]
Tangents = Sequence[Tensor | None]
Blanks = Sequence[tuple[Any, torch.dtype, torch.device]]


def make_node(
    name: str,
    compute: Callable[..., Any],
    reference: Callable[..., Any],
    backward: Callable[..., Gradients] | None,
    jvp: Callable[..., Any] | None,
    batched: Callable[..., tuple[Any, Any]],
    from_result: bool,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return an operation as a node of autograd's graph, in two forms.

    The first is for callers: it handles all active transforms of torch.func at once. The second is
    for the dispatcher, which calls it with tensors of one transform at a time and then continues
    with the next one, as under torch.compile with transforms in the graph.

    Args:
        name: Name of the node in graphs.
        compute: The operation without derivatives.
        reference: The torch reference.
        backward: ``backward(grad, needed, *args)``, or None for that of the reference.
        jvp: ``jvp(tangents, *args)``, or None for that of the reference.
        batched: ``batched(info, in_dims, *args)`` returns results and their batch dimensions.
        from_result: Whether ``backward`` and ``jvp`` take the result too, as ``result``.
    """

    def node_forward(*args: Any) -> Any:
        # torch.autograd.Function switches derivatives off here, but outer transforms still need
        # theirs.
        with torch.enable_grad(), with_forward_mode(True), below_autograd():
            return compute(*args)

    def node_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.places = [place for place, arg in enumerate(inputs) if isinstance(arg, Tensor)]
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in inputs]
        outputs = output if isinstance(output, tuple) else (output,)
        tensors = [*(inputs[place] for place in ctx.places), *(outputs if from_result else ())]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(o for o in outputs if not _has_derivative(o.dtype)))
        ctx.single = not isinstance(output, tuple)
        ctx.blanks = [(o.shape, o.dtype, o.device) for o in outputs]
        # Autograd runs backward in its own threads, and after ``with`` blocks have ended.
        ctx.settings = snapshot()

    def node_backward(ctx: Any, *grads: Tensor | None) -> Gradients:
        args, results = _arguments(ctx)
        if all(grad is None for grad in grads):
            return (None,) * len(args)
        needed = tuple(ctx.needs_input_grad)
        with restored(ctx.settings), without_autocast(args):
            if backward is None:
                return pulled_back(reference, _with_zeros(grads, ctx.blanks), needed, args)
            # A rule may divide by what is zero where a result is not differentiated.
            grad = grads[0] if ctx.single else grads
            return backward(grad, needed, *args, **_named(ctx, results))

    def node_jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        # Without forward mode here, the second derivative would silently be zero.
        with restored(ctx.settings), with_forward_mode(True):
            args, results = ([_primal(arg) for arg in saved] for saved in _arguments(ctx))
            with without_autocast(args):
                if jvp is not None:
                    return _dense(jvp(tangents, *args, **_named(ctx, results)))
                pushed = pushed_forward(reference, tangents, args, ctx.blanks)
                return pushed[0] if ctx.single else pushed

    methods = {
        "forward": staticmethod(node_forward),
        "setup_context": staticmethod(node_setup),
        "backward": staticmethod(node_backward),
        "jvp": staticmethod(node_jvp),
    }
    whole: Any = type(name, (torch.autograd.Function,), {**methods, "vmap": staticmethod(batched)})
    level: Any = type(name, (SingleLevelFunction,), methods)

    def dispatched(*args: Any) -> Any:
        if transform_level() is None:
            return whole.apply(*args)
        with single_level():
            return level.apply(*args)

    return whole.apply, dispatched


def _dense(found: Any) -> Any:
    """Return tangents in the layout of results, which torch needs for views of them."""
    return tuple(map(_dense, found)) if isinstance(found, tuple) else found.contiguous()


def pulled_back(
    reference: Callable[..., Any],
    grads: tuple[Tensor, ...],
    needed: Sequence[bool],
    args: list[Any],
) -> Gradients:
    """Return the gradients of a reference with respect to its arguments, None if not needed."""
    places = [place for place, wanted in enumerate(needed) if wanted]
    function = _of_places(reference, places, args)
    pull = torch.func.vjp(function, *(args[place] for place in places))[1]
    kept = tuple(grad for grad in grads if _has_derivative(grad.dtype))
    found = dict(zip(places, pull(kept), strict=True))
    return tuple(found.get(place) for place in range(len(args)))


def pushed_forward(
    reference: Callable[..., Any],
    tangents: Sequence[Tensor | None],
    args: list[Any],
    blanks: Blanks,
) -> Gradients:
    """Return the tangents of a reference's results, None for a result without derivative.

    Computed by the double-backward trick: the vector-Jacobian product is linear in its vector, and
    its transpose is the Jacobian-vector product. torch's forward mode cannot be used: it cannot be
    nested in itself, and this function is called inside of it.
    """
    places = [place for place, tangent in enumerate(tangents) if tangent is not None]
    function = _of_places(reference, places, args)

    def pull(*grads: Tensor) -> Any:
        return torch.func.vjp(function, *(args[place] for place in places))[1](grads)

    zeros = [torch.zeros(s, dtype=t, device=d) for s, t, d in blanks if _has_derivative(t)]
    push = torch.func.vjp(pull, *zeros)[1]
    found = iter(push(tuple(tangents[place] for place in places)))
    return tuple(next(found) if _has_derivative(dtype) else None for _, dtype, _ in blanks)


def each_entry(
    operation: Any, size: int, in_dims: Sequence[Any], args: Sequence[Any]
) -> tuple[Any, Any]:
    """Return the results for each entry of a batch, stacked along the first dimension.

    Args:
        operation: The ``Operation``, which gives the result shapes of an empty batch.
        size: Number of entries.
        in_dims: Batch dimension of each argument; None for arguments shared by all entries.
        args: The arguments.
    """
    if not size:
        return _no_entries(operation, in_dims, args)
    results = [
        operation(
            *(
                arg.select(dim, index) if isinstance(dim, int) else arg
                for arg, dim in zip(args, in_dims, strict=True)
            )
        )
        for index in range(size)
    ]
    if isinstance(results[0], tuple):
        return tuple(torch.stack(parts) for parts in zip(*results, strict=True)), (0,) * len(
            results[0]
        )
    return torch.stack(results), 0


def _no_entries(operation: Any, in_dims: Sequence[Any], args: Sequence[Any]) -> tuple[Any, Any]:
    """Return the results of an empty batch, connected to the arguments in the graph."""
    blanks, anchors = list(args), []
    for place, (arg, dim) in enumerate(zip(args, in_dims, strict=True)):
        if isinstance(arg, Tensor):
            shape = list(arg.shape)
            if isinstance(dim, int):
                del shape[dim]
                if _has_derivative(arg.dtype):
                    anchors.append((arg.real if arg.is_complex() else arg).sum())
            blanks[place] = torch.empty(shape, dtype=arg.dtype, device="meta")
    device = next(arg.device for arg in args if isinstance(arg, Tensor))

    def made(like: Tensor) -> Tensor:
        found = torch.empty(0, *like.shape, dtype=like.dtype, device=device)
        return found + total(anchors) if anchors and _has_derivative(like.dtype) else found

    found = operation.shape_of_result(*blanks)
    if isinstance(found, tuple):
        return tuple(map(made, found)), (0,) * len(found)
    return made(found), 0


def multilinear_jvp(
    operation: Callable[..., Tensor], linear: Sequence[int]
) -> Callable[..., Tensor]:
    """Return the tangent rule of an operation that is linear in the arguments at each position.

    Other arguments have no derivatives.
    """

    def jvp(tangents: Sequence[Tensor | None], *args: Any) -> Tensor:
        parts = [
            operation(*args[:place], tangent, *args[place + 1 :])
            for place in linear
            if (tangent := tangents[place]) is not None
        ]
        return total(parts) if parts else torch.zeros_like(operation(*args))

    return jvp


def total(tangents: Sequence[Tensor]) -> Tensor:
    """Return the sum of the tangent contributions of the arguments."""
    found = tangents[0]
    for tangent in tangents[1:]:
        found = found + tangent
    return found


def _arguments(ctx: Any) -> tuple[list[Any], list[Any]]:
    """Return the saved arguments of a node, and its results if saved."""
    args, saved = list(ctx.others), list(ctx.saved_tensors)
    inputs = len(ctx.places)
    for place, tensor in zip(ctx.places, saved[:inputs], strict=True):
        args[place] = tensor
    return args, saved[inputs:]


def _named(ctx: Any, results: list[Any]) -> dict[str, Any]:
    if not results:
        return {}
    return {"result": results[0] if ctx.single else tuple(results)}


def _primal(arg: Any) -> Any:
    """Return a tensor without its tangent of the innermost ``dual_level``; other values as is."""
    return _unpack_dual(arg)[0] if isinstance(arg, Tensor) else arg


def _of_places(
    reference: Callable[..., Any], places: Sequence[int], args: Sequence[Any]
) -> Callable[..., tuple[Tensor, ...]]:
    """Return the reference as a function of some arguments, returning differentiable results."""

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        full = list(args)
        for place, tensor in zip(places, tensors, strict=True):
            full[place] = tensor
        result = reference(*full)
        results = result if isinstance(result, tuple) else (result,)
        return tuple(r for r in results if _has_derivative(r.dtype))

    return function


def _with_zeros(grads: Gradients, blanks: Blanks) -> tuple[Tensor, ...]:
    """Return gradients by all results, zero for those that are not differentiated."""
    return tuple(
        torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
        for grad, (shape, dtype, device) in zip(grads, blanks, strict=True)
    )


def _has_derivative(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex
