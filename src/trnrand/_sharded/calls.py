"""Calls of distributions on a mesh: arguments, agreement of ranks, and the part of a rank."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from trnrand._calls.arguments import parsed_size
from trnrand._calls.requests import generator_of
from trnrand._calls.signatures import LAWS, Law
from trnrand._sharded.boxes import Ranges, boxes, first_of
from trnrand.defaults import get_default_generator
from trnrand.errors import DTypeError, FlagError, ShapeError
from trnrand.generator import Generator
from trnsci.core.distributed.agreement import agreement, checksum
from trnsci.core.distributed.groups import ranks_of_mesh
from trnsci.core.distributed.layout import dims_of, even_offsets, local_of, with_local

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

_REPLACED = ("out", "total", "device")
"""Arguments of the single-rank functions that the functions of a mesh do not have."""
NEVER_SPLIT = -1
"""Value in ``events`` for a parameter that is the same for all samples."""
_ADDED = (("device_mesh", inspect.Parameter.empty), ("placements", None), ("check", True))
Split = tuple[int | None, ...]


def sharded(
    function: Callable[..., Tensor],
    *,
    events: Mapping[str, int] | None = None,
    whole: Callable[[Mapping[str, Any]], bool] = lambda arguments: False,
    each: Callable[[int], int] = lambda width: width,
) -> Callable[..., DTensor]:
    """Return the function that draws as ``function`` does, with a part on each rank of a mesh.

    Args:
        function: A function of ``trnrand``.
        events: Number of trailing dimensions, by parameter, that belong to one sample; other
            dimensions broadcast to the size. 0 where it is not given; ``NEVER_SPLIT`` for a
            parameter that is the same for all samples.
        whole: Predicate of the arguments: whether samples depend on more than their positions, so
            that every rank draws all of them and keeps its part.
        each: Positions of the stream for one sample, from its number of components.
    """
    name = function.__name__
    law, signature = LAWS["randint" if name == "integers" else name], inspect.signature(function)
    shown = [p for p in signature.parameters.values() if p.name not in _REPLACED]
    shown += [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default)
        for key, default in _ADDED
    ]
    called = f"trnrand.distributed.{law.name}"

    def call(
        *args: Any,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] | None = None,
        check: bool = True,
        generator: Generator | None = None,
        **options: Any,
    ) -> DTensor:
        with agreement(called, mesh=_mesh(device_mesh), check=check) as describe:
            if _mesh(device_mesh) is None:
                raise DTypeError(
                    f"{called}: device_mesh must be a DeviceMesh, got {type(device_mesh).__name__}"
                )
            ranks_of_mesh(called, device_mesh)
            for key in _REPLACED:
                if options.get(key) is not None:
                    raise FlagError(f"{called}: {key} must be absent: the mesh determines it")
            generator = _checked(called, generator)
            arguments = signature.bind(*args, **options)
            shape, count = _shapes(law, args, options)
            if placements is None:
                placements = _replicated(device_mesh)
            split = dims_of(called, "placements", placements, len(shape), device_mesh.ndim)
            part = _part(shape, split, device_mesh)
            samples = _Call(
                called,
                function,
                arguments,
                generator,
                device_mesh,
                shape[:count],
                each(prod(shape[count:])),
            )
            if whole(arguments.arguments):
                local = samples.all_of(part)
            else:
                local = samples.part_of(part, events or {}, split)
            describe(
                f"{shape} in {local.dtype} as {tuple(placements)}, {generator!r}, "
                f"{_numbers(arguments.arguments)}"
                + (f", {checksum(*arguments.arguments.values())}" if check else "")
            )
        generator.skip(samples.consumed)
        return with_local(local, device_mesh, placements, shape)

    named = cast(Any, functools.wraps(function)(call))
    named.__signature__ = signature.replace(parameters=shown, return_annotation="DTensor")
    named.__name__ = named.__qualname__ = law.name
    named.__doc__ = f"Return the samples of ``trnrand.{law.name}`` as a DTensor."
    return cast("Callable[..., DTensor]", named)


class _Call:
    """A call with a validated generator and shape; each rank draws a part of its samples."""

    def __init__(
        self,
        called: str,
        function: Callable[..., Tensor],
        arguments: inspect.BoundArguments,
        generator: Generator,
        mesh: DeviceMesh,
        batch: tuple[int, ...],
        each: int,
    ) -> None:
        self.called, self.function, self.mesh, self.batch = called, function, mesh, batch
        self.generator, self.offset, self.each = generator.clone_state(), generator.offset, each
        self.consumed = prod(batch) * each
        self.options = {k: v for k, v in arguments.arguments.items() if k != "size"}
        leading = len(arguments.args) - len(arguments.arguments.get("size", ()))
        self.leading = list(arguments.arguments)[:leading]
        self.sized = "size" in arguments.signature.parameters

    def drawn(self, first: int, shape: Sequence[int], parameters: Mapping[str, Any]) -> Tensor:
        """Return the samples of a given shape from an index on."""
        self.generator.seek(self.offset + first * self.each)
        given = {**self.options, **parameters}
        args = [given.pop(name) for name in self.leading]
        if self.sized:
            args.append(tuple(shape))
        return self.function(*args, generator=self.generator, device=self.mesh.device_type, **given)

    def all_of(self, part: Ranges) -> Tensor:
        """Return the part of samples that are drawn as a whole."""
        for name, value in self.options.items():
            self._check_same(name, value)
        found = self.drawn(0, self.batch, {})
        self.consumed = self.generator.offset - self.offset
        return _cut(found, part).clone()

    def part_of(self, part: Ranges, events: Mapping[str, int], split: Split) -> Tensor:
        """Return the part of samples that depend on their positions alone."""
        own, rest = part[: len(self.batch)], part[len(self.batch) :]
        varying: dict[str, Tensor] = {}
        for name, value in self.options.items():
            if not isinstance(value, Tensor):
                continue
            if events.get(name, 0) == NEVER_SPLIT or value.ndim <= events.get(name, 0):
                self._check_same(name, value)
            else:
                varying[name] = self._parameter(name, value, events.get(name, 0), own, split)
        shape = [len(r) for r in part]
        local: Tensor | None = None
        for box in boxes(self.batch, own, exact=bool(varying)):
            sizes = [len(r) for r in box]
            # Without parameters that vary, boxes may exceed the part.
            here = {k: _cut(x, _within(box, own)) for k, x in varying.items()}
            drawn = self.drawn(first_of(self.batch, box), sizes, here)
            meant = tuple(
                range(max(a.start, b.start), min(a.stop, b.stop))
                for a, b in zip(own, box, strict=True)
            )
            kept = _cut(drawn, (*_within(meant, box), *rest))
            if meant == own and kept.numel() == drawn.numel():
                return drawn
            if local is None:
                local = drawn.new_empty(shape)
            _cut(local, _within(meant, own)).copy_(kept)
        assert local is not None
        return local

    def _check_same(self, name: str, value: Any) -> None:
        from torch.distributed.tensor import DTensor

        if isinstance(value, DTensor):
            raise FlagError(
                f"{self.called}: {name} must be a tensor that is the same on every rank, got a "
                f"DTensor; to_local and full_tensor return one"
            )

    def _parameter(self, name: str, x: Tensor, trailing: int, own: Ranges, split: Split) -> Tensor:
        """Return this rank's part of a parameter that differs by sample."""
        from torch.distributed.tensor import DTensor

        leading = x.shape[: x.ndim - trailing]
        missing = len(self.batch) - len(leading)
        if missing < 0 or any(
            size not in (1, goal) for size, goal in zip(leading, self.batch[missing:], strict=True)
        ):
            raise ShapeError(
                f"{self.called}: {name} must broadcast to {self.batch}, got {tuple(x.shape)}"
            )
        held: Split = (None,) * self.mesh.ndim
        local = x.detach()
        if isinstance(x, DTensor):
            if x.device_mesh != self.mesh:
                raise FlagError(f"{self.called}: {name} must be on the mesh of the result")
            dims = dims_of(self.called, name, x.placements, x.ndim, self.mesh.ndim)
            held = tuple(None if dim is None else dim + missing for dim in dims)
            if any(dim is not None and dim != goal for dim, goal in zip(held, split, strict=True)):
                raise FlagError(
                    f"{self.called}: {name} must be split as the result, or replicated, got "
                    f"{tuple(x.placements)}"
                )
            local = local_of(self.called, name, x.detach())
        for at, size in enumerate(leading):
            if size > 1 and missing + at not in held:
                mine = own[missing + at]
                local = local.narrow(at, mine.start, len(mine))
        return local.expand(*map(len, own), *x.shape[len(leading) :])


def _within(meant: Ranges, box: Ranges) -> Ranges:
    """Return the ranges ``meant`` relative to the starts of the ranges ``box``."""
    return tuple(
        range(a.start - b.start, a.stop - b.start) for a, b in zip(meant, box, strict=True)
    )


def _cut(x: Tensor, part: Ranges) -> Tensor:
    for dim, own in enumerate(part):
        x = x.narrow(dim, own.start, len(own))
    return x


def _mesh(device_mesh: Any) -> DeviceMesh | None:
    """Return a mesh; None for anything else."""
    from torch.distributed.device_mesh import DeviceMesh

    return device_mesh if isinstance(device_mesh, DeviceMesh) else None


# -- arguments -------------------------------------------------------------------------------------


def _checked(function: str, generator: Generator | None) -> Generator:
    if generator is None:
        return get_default_generator()
    generator = generator_of(function, generator)
    if generator.partition_size != 1:
        raise FlagError(
            f"{function}: generator must have no partition, as the mesh determines the parts, got "
            f"{generator!r}"
        )
    return generator


def _shapes(
    law: Law, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[int, ...], int]:
    """Return the shape of the result, and the number of its dimensions that count samples."""
    size = args[law.leading :]
    if size:
        parsed_size(law.name, size)
    shape = tuple(map(int, law.shape(args, options)))
    if law.leading == 0 or law.name == "randperm":
        return shape, len(shape)
    if law.name == "choice":
        population = args[0]
        return shape, len(shape) - max(0, getattr(population, "ndim", 0) - 1)
    return shape, len(shape) - 1


def _replicated(mesh: DeviceMesh) -> tuple[Placement, ...]:
    from torch.distributed.tensor import Replicate

    return (Replicate(),) * mesh.ndim


def _part(shape: tuple[int, ...], split: Split, mesh: DeviceMesh) -> Ranges:
    """Return the range of each dimension on this rank."""
    found = [range(size) for size in shape]
    for mesh_dim, dim in enumerate(split):
        if dim is not None:
            offsets = even_offsets(shape[dim], mesh.size(mesh_dim))
            at = mesh.get_local_rank(mesh_dim)
            found[dim] = range(offsets[at], offsets[at + 1])
    return tuple(found)


def _numbers(arguments: Mapping[str, Any]) -> str:
    """Return the arguments as text: numbers, and shapes of tensors."""
    return ", ".join(
        f"{key} {tuple(value.shape)}" if isinstance(value, Tensor) else f"{key} {value}"
        for key, value in arguments.items()
        if key not in ("size", "dtype")
    )
