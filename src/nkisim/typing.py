"""``nki.typing``: annotations for the tensor parameters of a kernel.

    def kernel(a: nt.tensor[128, 512], b: nt.tensor[nl.bfloat16, ..., "n"], c: nt.tensor): ...

A subscript lists extents; an integer must match, ``None`` or a name accepts any extent (the same
name must always have the same one), ``...`` any number of dimensions. A dtype among them must match
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Any

from nkisim.dtypes import DType

Extent = int | str | None | EllipsisType


class AnnotationError(TypeError):
    """``nt.tensor`` was subscripted with something that is neither an extent nor a dtype."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and dtype that an annotation requires of a tensor."""

    extents: tuple[Extent, ...] = (...,)
    dtype: DType | None = None

    def mismatch(self, shape: tuple[int, ...], dtype: DType, names: dict[str, int]) -> str:
        """Return the mismatch of an argument, or an empty string; ``names`` collects extents."""
        if self.dtype is not None and dtype != self.dtype:
            return f"dtype {dtype}, annotated {self.dtype}"
        expected = list(self.extents)
        if ... in expected:
            at = expected.index(...)
            expected[at : at + 1] = [None] * (len(shape) - len(expected) + 1)
        if len(expected) != len(shape):
            return f"shape {shape}, annotated {self}"
        for wanted, extent in zip(expected, shape, strict=True):
            if isinstance(wanted, str):
                wanted = names.setdefault(wanted, extent)
            if wanted is not None and wanted != extent:
                return f"shape {shape}, annotated {self}"
        return ""

    def __str__(self) -> str:
        parts = ["..." if e is ... else repr(e) for e in self.extents]
        if self.dtype is not None:
            parts.append(f"nl.{self.dtype}")
        return f"tensor[{', '.join(parts)}]"


class tensor:
    """Annotation of a tensor parameter; subscript it with extents and a dtype."""

    def __class_getitem__(cls, items: Any) -> TensorSpec:
        """Return the annotation for the listed extents and dtype."""
        entries = items if isinstance(items, tuple) else (items,)
        dtypes = [entry for entry in entries if isinstance(entry, DType)]
        extents: list[Extent] = []
        for entry in entries:
            if isinstance(entry, DType):
                continue
            if isinstance(entry, (tuple, list)):
                extents.extend(entry)
            elif entry is None or entry is ... or isinstance(entry, (int, str)):
                extents.append(entry)
            else:
                raise AnnotationError(
                    f"nt.tensor takes integers, names, None, ... and one dtype, got {entry!r}"
                )
        if len(dtypes) > 1 or extents.count(...) > 1:
            raise AnnotationError(f"nt.tensor takes one dtype and one ellipsis, got {items!r}")
        return TensorSpec(tuple(extents) or (...,), dtypes[0] if dtypes else None)


class mutable_tensor(tensor):
    """Annotation of a tensor parameter that the kernel writes."""
