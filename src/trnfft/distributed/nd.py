"""Transforms along several dimensions of a DTensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnfft import nd
from trnfft._paths.arguments import HALF_SPECTRUM, REAL_INPUT, Dims, Norm, axes
from trnfft.complex_tensor import ComplexTensor
from trnfft.distributed.schedule import Exchange, Parts, Problem, Transform, schedule
from trnsci.core.distributed.agreement import agreement, gradients
from trnsci.core.distributed.collectives import exchange
from trnsci.core.distributed.groups import Ranks, ranks_of_mesh
from trnsci.core.distributed.layout import dims_of, local_of, mesh_of, with_local
from trnsci.core.errors import DTypeError, FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement

_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def fftn(
    x: DTensor,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    placements: Sequence[Placement] | None = None,
    check: bool = True,
) -> DTensor:
    """Return the Fourier transform along several dimensions of a DTensor.

    Each rank transforms the dimensions that it holds whole with :func:`trnfft.fftn`. An all-to-all
    then makes another dimension whole and splits one that was whole. Three dimensions on a mesh of
    one dimension (slabs) take one all-to-all, or two if the result has the placements of ``x``; on
    a mesh of two dimensions (pencils) they take two or four. Dimensions that are not transformed
    can be split as well. The result is a complex DTensor. All ranks must compute gradients
    together.

    Args:
        x: Real or complex DTensor, split along every mesh dimension.
        s: Lengths, as :func:`trnfft.fftn`.
        dim: Dimensions, as :func:`trnfft.fftn`.
        norm: Normalization, as :func:`trnfft.fftn`.
        placements: Placements of the result, all of them Shard. None selects the placements for
            which the fewest bytes are communicated; they differ from the placements of ``x`` if a
            split dimension is transformed.
        check: Whether ranks compare their arguments first.

    Raises:
        ShapeError, IndexError, FlagError: As :func:`trnfft.fftn`. ShapeError also if a rank's part
            has another size than ``torch.chunk`` gives; FlagError also for a mesh of more than two
            dimensions, for other placements than Shard, and if every dimension is split.
        DTypeError: x is not a DTensor, or not float32, float64, complex64 or complex128.
        BackendError: There is no process group, or the mesh does not contain this rank.
        RankError: Ranks gave different arguments, or a rank has ended.
    """
    return _transformed("fftn", x, s, dim, norm, placements, check)


def ifftn(
    x: DTensor,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    placements: Sequence[Placement] | None = None,
    check: bool = True,
) -> DTensor:
    """Return the inverse of :func:`fftn`; args and errors are the same."""
    return _transformed("ifftn", x, s, dim, norm, placements, check)


def rfftn(
    x: DTensor,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    placements: Sequence[Placement] | None = None,
    check: bool = True,
) -> DTensor:
    """Return :func:`fftn` of a real DTensor, with half the bins along the last entry of ``dim``.

    Arguments and errors are as in :func:`fftn`; DTypeError also if x is complex.
    """
    return _transformed("rfftn", x, s, dim, norm, placements, check)


def irfftn(
    x: DTensor,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    placements: Sequence[Placement] | None = None,
    check: bool = True,
) -> DTensor:
    """Return the real DTensor whose :func:`rfftn` is ``x``.

    The default of the last length is ``2 * (bins - 1)``; other arguments and errors are as in
    :func:`fftn`.
    """
    return _transformed("irfftn", x, s, dim, norm, placements, check)


def _transformed(
    kind: str,
    x: DTensor,
    s: Dims,
    dim: Dims,
    norm: Norm,
    placements: Sequence[Placement] | None,
    check: bool,
) -> DTensor:
    from torch.distributed.tensor import Shard

    function = f"trnfft.distributed.{kind}"
    with agreement(function, x, check=check) as describe:
        mesh = mesh_of(function, x=x)
        ranks = ranks_of_mesh(function, mesh)
        split = split_of(function, "x", x.placements, x.ndim, mesh.ndim)
        wanted = (
            None
            if placements is None
            else split_of(function, "placements", placements, x.ndim, mesh.ndim)
        )
        problem = problem_of(function, kind, x, mesh.shape, split, s, dim, norm)
        local = local_of(function, "x", x)
        steps = schedule(function, problem, wanted)
        describe(
            f"x of shape {problem.operand.shape} in {x.dtype}, {gradients(x)}, dimensions "
            f"{split} split, s {problem.sizes}, dim {problem.dims}, norm {norm}, "
            f"placements {wanted}"
        )
    for step in steps:
        local = _after(step, local, ranks, norm)
    result = steps[-1].after
    return with_local(
        local.contiguous(), mesh, [Shard(each) for each in result.split], result.shape
    )


def _after(step: Transform | Exchange, x: Tensor, ranks: Sequence[Ranks], norm: Norm) -> Tensor:
    """Return this rank's part after a step."""
    if isinstance(step, Exchange):
        old_sizes, new_sizes = step.before.sizes(step.mesh_dim), step.after.sizes(step.mesh_dim)
        return exchange(x, ranks[step.mesh_dim], step.old, step.new, old_sizes, new_sizes)
    found: Any = getattr(nd, step.kind)(x, step.sizes, step.dims, norm)
    return found.to_torch_complex() if isinstance(found, ComplexTensor) else found


def problem_of(
    function: str,
    kind: str,
    x: Tensor,
    grid: Sequence[int],
    split: tuple[int, ...],
    s: Dims,
    dim: Dims,
    norm: Norm,
) -> Problem:
    """Return the problem of a call; the values of x are not read.

    Raises:
        ShapeError, IndexError, FlagError: As :func:`trnfft.fftn`.
        DTypeError: The transform does not accept the dtype.
    """
    check_dtype(function, kind, x.dtype)
    sizes, dims = axes(function, x, s, dim, norm, bins=kind in HALF_SPECTRUM)
    if not dims:
        raise ShapeError(f"{function}: dim must name at least one dimension, got none")
    operand = Parts(tuple(x.shape), tuple(grid), split, x.dtype.itemsize)
    return Problem(kind, operand, not x.is_complex(), tuple(dims), tuple(sizes))


def check_dtype(function: str, kind: str, dtype: torch.dtype) -> None:
    """Raise ``DTypeError`` unless the transform accepts the dtype."""
    accepted = [each for each in _DTYPES if kind not in REAL_INPUT or not each.is_complex]
    if dtype not in accepted:
        names = ", ".join(map(str, accepted))
        raise DTypeError(f"{function}: x must have one of the dtypes {names}, got {dtype}")


def split_of(
    function: str, name: str, placements: Sequence[Placement], ndim: int, mesh_ndim: int
) -> tuple[int, ...]:
    """Return the dimension that each mesh dimension splits.

    Raises:
        FlagError: A placement is not Shard, its dimension does not exist, or there are not as many
            placements as mesh dimensions.
    """
    dims = dims_of(function, name, placements, ndim, mesh_ndim)
    found = tuple(dim for dim in dims if dim is not None)
    if len(found) < len(dims):
        raise FlagError(
            f"{function}: {name} must be Shard along every mesh dimension, got "
            f"{tuple(placements)}; redistribute splits a replicated DTensor"
        )
    return found
