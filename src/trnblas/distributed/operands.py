"""Validation and description of the operands of distributed functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths.arguments import Scalar
from trnblas.distributed.panels import flipped
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.distributed.agreement import gradients, is_dual
from trnsci.core.distributed.groups import Ranks, ranks_of_mesh
from trnsci.core.distributed.layout import dims_of, is_dtensor, mesh_of
from trnsci.core.distributed.schedule import Split
from trnsci.core.errors import DerivativeError, DTypeError, FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def check_operand(function: str, name: str, x: Any, mesh: Any, ndim: int = 2) -> None:
    """Raise unless ``x`` is a DTensor on a mesh, with a number of dimensions and a dtype."""
    if not is_dtensor(x):
        raise DTypeError(f"{function}: {name} must be a DTensor, got {type(x).__name__}")
    if x.device_mesh != mesh:
        raise FlagError(
            f"{function}: all operands must be on one mesh, got {name} on {x.device_mesh} and "
            f"another one on {mesh}"
        )
    if x.ndim != ndim:
        raise ShapeError(
            f"{function}: {name} must have {ndim} dimensions, got shape {tuple(x.shape)}"
        )
    if x.dtype not in _DTYPES:
        raise DTypeError(
            f"{function}: {name} must be float32, float64, complex64 or complex128, got {x.dtype}"
        )


def checked_mesh(
    function: str, ndim: int = 2, **operands: DTensor | None
) -> tuple[DeviceMesh, tuple[Ranks, ...]]:
    """Return the mesh of checked operands, and its ranks along each dimension."""
    mesh = mesh_of(function, **operands)
    ranks = ranks_of_mesh(function, mesh)
    for name, x in operands.items():
        if x is not None:
            check_operand(function, name, x, mesh, ndim)
    return mesh, ranks


def constant(function: str, name: str, value: Scalar) -> Scalar:
    """Return a factor as a number."""
    if isinstance(value, Tensor):
        if value.requires_grad or is_dual(value):
            raise DerivativeError(
                f"{function}: {name} must not require a gradient; multiply the result by it"
            )
        return value.item() if value.ndim == 0 else value
    return value


def precision_of(level: PrecisionLevel) -> PrecisionLevel | None:
    """Return the value of ``precision=`` for the functions of one rank.

    If the level is float32 and ``trnblas.precision`` is float32 too, the result is None: a call
    without ``precision=`` can write into ``out``.
    """
    return None if level == "float32" == LIBRARY.level() else level


def described(operands: Mapping[str, Any], **options: Any) -> str:
    """Return, as text, the arguments that all ranks must share."""
    texts = [
        f"{name} {tuple(x.shape)} {x.dtype} {tuple(x.placements)}"
        for name, x in operands.items()
        if x is not None
    ]
    texts += [f"{name} {value}" for name, value in options.items()]
    return ", ".join([*texts, gradients(*operands.values())])


def split_of(
    function: str, name: str, placements: Sequence[Placement], mesh_ndim: int, flip: bool = False
) -> Split:
    """Return the dimension of a matrix, or of its transpose, that each mesh dimension splits."""
    dims = dims_of(function, name, placements, 2, mesh_ndim)
    return flipped(dims) if flip else dims
