"""BLAS level 1: vectors.

Tensors of any shape are treated as vectors of their elements; tensors of one call have one shape.
``dot`` and ``dotc`` take 1-D tensors only, since a product of matrices is a different operation.
Every function returns new tensors and is differentiable. Only ``out`` is written to.

``dot``, ``dotc``, ``nrm2`` and ``axpy`` have kernels at the level ``"doublefloat"``: float32 and
float64 numbers, also parts of complex ones, are pairs of float32 there, and torch computes in
float64. At other levels torch computes in the dtype of the operands.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnblas._library import LIBRARY, kernels_wanted, no_kernel
from trnblas._paths.arguments import Scalar, number
from trnblas._paths.levels import level_name
from trnblas._paths.sums import inner_product, moduli_sum, two_norm
from trnsci.core.arguments import agree, delivered, floating, one_shape, tensor, vector
from trnsci.core.backend.operation import Operation
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.errors import DimensionError, ShapeError
from trnsci.core.examples import Case, example
from trnsci.core.numbers.conversions import widest
from trnsci.core.numbers.planes import embedded, joined, parts
from trnsci.core.numbers.products import is_number, scaled, vanished
from trnsci.core.numbers.values import inert, one_problem
from trnsci.core.testing import random_tensor

__all__ = ["asum", "axpy", "copy", "dot", "dotc", "iamax", "iamin", "nrm2", "scal", "swap"]

# float64 numbers per thread in each of two buffers: both fit in the cache of a core.
_BLOCK = 2**15


def axpy(
    alpha: Scalar,
    x: Tensor,
    y: Tensor,
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * x + y``.

    Args:
        alpha: Number or 0-d tensor; at zero, x is not read.
        x: Tensor.
        y: Tensor of the same shape and dtype.
        precision: Level of precision; None for that of the library. At ``"doublefloat"`` the error
            of an element is at most 2**-44 of ``|alpha x| + |y|``, and the rounding to its dtype;
            that of a part of a complex one is at most twice that.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes differ.
        DTypeError: The dtypes differ, alpha is incompatible, or have no such level.
        FlagError: The level is not known.
    """
    agree("axpy", "x", x, "y", y)
    one_shape("axpy", "x", x, "y", y)
    alpha = number("axpy", "alpha", alpha, x)
    level = level_name("axpy", precision, x)
    if level == "doublefloat" and not is_number(alpha, 0):
        if kernels_wanted():
            wide = torch.complex128 if x.is_complex() else torch.float64
            alpha = torch.as_tensor(alpha, dtype=wide, device=x.device)
        result = DOUBLEFLOAT_AXPY(alpha, x, y)
    else:
        no_kernel("axpy")
        result = _plain_axpy(alpha, x, y)
    return result if out is None else delivered("axpy", result, out)


def dot(
    x: Tensor, y: Tensor, *, precision: PrecisionLevel | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the sum of ``x[i] * y[i]`` without conjugation, as a 0-d tensor.

    Args:
        x: Vector.
        y: Vector of the same length and dtype.
        precision: Level of precision; None for that of the library. At ``"doublefloat"`` the error,
            before the sum is rounded to its dtype, is at most 2**-41 of that of moduli, for each
            part of a complex sum.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: x or y is no vector, or their lengths differ.
        DTypeError: The dtypes differ, or have no such level.
        FlagError: The level is not known.
    """
    return _inner_product("dot", x, y, precision, out)


def dotc(
    x: Tensor, y: Tensor, *, precision: PrecisionLevel | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the sum of ``conj(x[i]) * y[i]``, as a 0-d tensor; for real vectors this is ``dot``.

    The arguments are those of ``dot``.

    Raises:
        ShapeError: x or y is no vector, or their lengths differ.
        DTypeError: The dtypes differ, or have no such level.
        FlagError: The level is not known.
    """
    return _inner_product("dotc", x, y, precision, out)


def nrm2(
    x: Tensor, *, precision: PrecisionLevel | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the square root of the sum of ``|x[i]|**2``, as a real 0-d tensor.

    No square overflows or underflows. The result is accurate to a few roundings whenever it can be
    represented, for any number of elements.

    Args:
        x: Tensor.
        precision: Level of precision; None for that of the library. At ``"doublefloat"`` the error,
            before the norm is rounded to its dtype, is at most 2**-41 of it.
        out: Output tensor; None allocates one.

    Raises:
        DTypeError: The elements are integers, or have no such level.
        FlagError: The level is not known.
    """
    tensor("nrm2", "x", x)
    floating("nrm2", "x", x)
    if level_name("nrm2", precision, x) == "doublefloat":
        result = DOUBLEFLOAT_NRM2(parts(x) if x.is_complex() and x.ndim else x)
        return result if out is None else delivered("nrm2", result, out)
    no_kernel("nrm2")
    result = two_norm(torch.view_as_real(x.resolve_conj()) if x.is_complex() else x)
    return result if out is None else delivered("nrm2", result, out)


def scal(alpha: Scalar, x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * x``; at ``alpha == 0`` x is not read.

    Args:
        alpha: Number or 0-d tensor.
        x: Tensor.
        out: Output tensor; None allocates one.

    Raises:
        DTypeError: alpha is incompatible with the dtype of x.
    """
    no_kernel("scal")
    tensor("scal", "x", x)
    alpha = number("scal", "alpha", alpha, x)
    if isinstance(alpha, Tensor):
        result = scaled(alpha, x)
    else:
        result = vanished(x.shape, x) if alpha == 0 else x * alpha
    return result if out is None else delivered("scal", result, out)


def asum(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the sum of ``|x[i]|``, as a real 0-d tensor, accurate to a few roundings.

    For complex numbers it is the sum of ``|real| + |imag|``, as in BLAS, not of the moduli.
    Integers are summed in int64.
    """
    no_kernel("asum")
    tensor("asum", "x", x)
    result = moduli_sum(torch.view_as_real(x.resolve_conj()) if x.is_complex() else x)
    return result if out is None else delivered("asum", result, out)


def iamax(x: Tensor) -> int:
    """Return the index of the first element with the largest modulus; NaN counts as largest.

    The index counts from zero in the flattened tensor. Complex numbers are compared by
    ``|real| + |imag|``, as in BLAS.

    Raises:
        DimensionError: x is empty.
        DerivativeError: x is batched by ``torch.vmap``: an ``int`` has no batch.
    """
    return _index("iamax", x, torch.argmax)


def iamin(x: Tensor) -> int:
    """Return the index of the first element with the smallest modulus; NaN counts as smallest.

    The index and the modulus are those of ``iamax``.

    Raises:
        DimensionError: x is empty.
        DerivativeError: x is batched by ``torch.vmap``: an ``int`` has no batch.
    """
    return _index("iamin", x, torch.argmin)


def copy(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of x in memory of its own.

    Args:
        x: Tensor.
        out: Output tensor; None allocates one.
    """
    no_kernel("copy")
    tensor("copy", "x", x)
    return x.clone() if out is None else delivered("copy", x, out)


def swap(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return copies of y and x, in this order: the contents of x and y after BLAS swap.

    Raises:
        ShapeError: The shapes differ.
        DTypeError: The dtypes differ.
    """
    no_kernel("swap")
    agree("swap", "x", x, "y", y)
    one_shape("swap", "x", x, "y", y)
    return y.clone(), x.clone()


def _index(function: str, x: Tensor, chosen: Callable[[Tensor], Tensor]) -> int:
    """Return the index of the modulus that ``torch.argmax`` or ``torch.argmin`` chooses."""
    no_kernel(function)
    tensor(function, "x", x)
    one_problem(function, x, instead=f"torch.{chosen.__name__} returns a tensor")
    if x.numel() == 0:
        raise DimensionError(f"{function}: x must have elements, got shape {tuple(x.shape)}")
    flat = x.reshape(-1)
    if flat.is_complex():
        return int(chosen(flat.real.abs() + flat.imag.abs()))
    if flat.is_floating_point() or not flat.dtype.is_signed:
        return int(chosen(flat if not flat.dtype.is_signed else flat.abs()))
    # The modulus of the least integer overflows its type; minus the modulus does not.
    opposite = torch.argmin if chosen is torch.argmax else torch.argmax
    return int(opposite(torch.minimum(flat, -flat)))


def _plain_axpy(alpha: Scalar, x: Tensor, y: Tensor) -> Tensor:
    if isinstance(alpha, Tensor):
        return y + scaled(alpha, x)
    if alpha == 0:
        return y + vanished(x.shape, x)
    return torch.add(y, x, alpha=alpha)


def _inner_product(
    function: str, x: Tensor, y: Tensor, precision: PrecisionLevel | None, out: Tensor | None
) -> Tensor:
    """Return ``dot`` or ``dotc``; they differ for complex vectors."""
    agree(function, "x", x, "y", y)
    vector(function, "x", x)
    vector(function, "y", y)
    if x.shape != y.shape:
        raise ShapeError(
            f"{function}: x and y must have as many elements, got {x.numel()} and {y.numel()}"
        )
    if level_name(function, precision, x) == "doublefloat":
        result = DOUBLEFLOAT_DOT(x.conj() if function == "dotc" else x, y)
    else:
        no_kernel(function)
        conjugated = function == "dotc" and x.is_complex()
        result = torch.vdot(x, y) if conjugated else torch.dot(x, y)
    return result if out is None else delivered(function, result, out)


# -- pairs of float32 ------------------------------------------------------------------------------


def _wide_axpy(alpha: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return ``alpha * x + y``; alpha is a Python number where that needs fewer passes."""
    found = _blocked_axpy(alpha, x, y) if x.is_cpu and x.numel() > _BLOCK else None
    return _plain_axpy(alpha, widest(x), widest(y)).to(x.dtype) if found is None else found


def _blocked_axpy(alpha: Scalar, x: Tensor, y: Tensor) -> Tensor | None:
    """Return the sum by blocks in two buffers that fit in the cache of each core.

    An element is computed by the same operations as without blocks. None if alpha is a tensor, for
    float64, which needs no buffers, and where the sum is traced or differentiated.
    """
    wide = torch.complex128 if x.is_complex() else torch.float64
    if isinstance(alpha, Tensor) or x.dtype is wide or not inert(x, y):
        return None
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    size = _BLOCK * torch.get_num_threads() // (wide.itemsize // 8)
    left, right = torch.empty((2, size), dtype=wide, device=x.device)
    blocks = (torch.split(v.reshape(-1), size) for v in (x, y, result))
    for x_block, y_block, block in zip(*blocks, strict=True):
        count = len(block)
        term, total = left[:count].copy_(x_block), right[:count].copy_(y_block)
        block.copy_(total.add_(term, alpha=alpha))
    return result


def _axpy_by_parts(real: Callable[..., Tensor], alpha: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of y, of x with the imaginary factor and of x with the real one."""
    along, across = (widest(z).reshape(-1) for z in (x, y))
    turned = embedded(along[None])[1]  # the parts of i x
    first = real(alpha.imag, turned, parts(across))
    return joined(real(alpha.real, parts(along), first)).reshape(x.shape).to(x.dtype)


def _wide_dot(x: Tensor, y: Tensor) -> Tensor:
    return inner_product(widest(x), widest(y)).to(x.dtype)


def _dot_by_parts(real: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
    columns = embedded(y[:, None]).unbind(1)
    return torch.complex(*(real(parts(x), column) for column in columns))


def _wide_nrm2(x: Tensor) -> Tensor:
    return two_norm(x.double()).to(x.dtype)


def _flops(*args: Tensor) -> float:
    return 2.0 * args[-1].numel()


def _vectors() -> tuple[Tensor, Tensor]:
    """Return vectors in float64 that float32 cannot represent, of elements between 1 and 9."""
    values = (random_tensor(70_000, seed=seed).double() for seed in range(2))
    x, y = (v.sign() * (1 + v.abs()) * (1 + 2.0**-30) for v in values)
    return x, y


def _axpy_bound(x: Tensor, y: Tensor) -> float:
    """Return the promised error, and the roundings of the result and of the reference."""
    terms = (0.3 * x).abs() + y.abs()
    return (2.0**-44 + 2.0**-52) * float(terms.norm() / (0.3 * x + y).norm())


def _dot_bound(x: Tensor, y: Tensor) -> float:
    """Return the error of products and of a sum in up to four tiles, and of float64's own sum.

    A rounding of pairs is 2**-48; that of an operand to two planes is 2**-49.
    """
    products = x * y
    once = (9 + 3.1 * (4 + 9 + 7)) * 2.0**-48 + 2 * 2.0**-49 + 2.0**-53 * x.numel()
    return once * float(products.abs().sum() / products.sum().abs())


DOUBLEFLOAT_AXPY = Operation(
    LIBRARY,
    "doublefloat_axpy",
    reference=_wide_axpy,
    launch="trnblas._paths.level_launches:doublefloat_axpy",
    by_parts=_axpy_by_parts,
    dtypes=("float32", "float64"),
    flops=_flops,
    examples={
        "axpy": lambda: example(2.0, random_tensor(4, seed=3), random_tensor(4, seed=4)),
    },
    evidence=(
        Case(
            "doublefloat_axpy",
            "alpha x + y in pairs of float32",
            _vectors,
            lambda x, y: axpy(0.3, x, y, precision="doublefloat"),
            lambda x, y: 0.3 * x + y,
            "torch in float64",
            _axpy_bound,
        ),
    ),
)
DOUBLEFLOAT_DOT = Operation(
    LIBRARY,
    "doublefloat_dot",
    reference=_wide_dot,
    launch="trnblas._paths.level_launches:doublefloat_dot",
    by_parts=_dot_by_parts,
    dtypes=("float32", "float64"),
    flops=_flops,
    examples={
        "dot": lambda: example(random_tensor(4, seed=3), random_tensor(4, seed=4)),
        "dotc": lambda: example(random_tensor(4, seed=3), random_tensor(4, seed=4)),
    },
    evidence=(
        Case(
            "doublefloat_dot",
            "inner product in pairs of float32",
            _vectors,
            lambda x, y: dot(x, y, precision="doublefloat"),
            lambda x, y: x @ y,
            "torch in float64",
            _dot_bound,
        ),
    ),
)
DOUBLEFLOAT_NRM2 = Operation(
    LIBRARY,
    "doublefloat_nrm2",
    reference=_wide_nrm2,
    launch="trnblas._paths.level_launches:doublefloat_nrm2",
    dtypes=("float32", "float64"),
    flops=_flops,
    examples={"nrm2": lambda: example(random_tensor(4, seed=3))},
)
