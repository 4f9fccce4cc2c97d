"""Precisions of a contraction, and their error bounds.

========  ==========================================================================================
fast      the dtype of the operands; narrow ones are summed in float32
sr        summed in float32 and stochastically rounded to the dtype: unbiased
dd        float32 operands split into three bfloat16 parts; the six significant products are summed
          in float32, the smallest first; narrow operands have one or two such parts
kahan     the operands in float64 on torch, and the result rounded once
========  ==========================================================================================

The levels of ``trnsci.precision`` map to these: ``doublefloat`` is ``kahan``, with products by the
doublefloat kernel of ``trnblas`` where kernels run. All lower levels are ``fast``: its error is
within the bound of each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Literal, get_args

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.backend.precision import CHOSEN, LEVELS
from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.numbers.conversions import real_dtype
from trntensor._library import LIBRARY

Precision = Literal["fast", "kahan", "dd", "sr", "doublefloat"]

_ACCEPTED: dict[str, Precision] = {name: name for name in get_args(Precision)}
_ACCEPTED |= {level: "fast" for level in LEVELS if level != "doublefloat"}

_NAMES = {
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
    "f32": torch.float32,
    "float32": torch.float32,
    "f64": torch.float64,
    "float64": torch.float64,
}
_NARROW = (torch.bfloat16, torch.float16)
_ROUNDOFF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float64: 2.0**-53}
_MANTISSA = {torch.bfloat16: (7, -126), torch.float16: (10, -14)}
_PARTS = {torch.float32: 3, torch.float16: 2}


def checked_precision(function: str, precision: str | None) -> Precision:
    """Return the arithmetic that a precision means; None is the precision of the library.

    Raises:
        FlagError: The precision is unknown.
    """
    if precision is None:
        precision = LIBRARY.get_precision() if CHOSEN.used else "fast"
    elif not isinstance(precision, str) or precision not in _ACCEPTED:
        raise FlagError(
            f"{function}: precision must be one of {', '.join(_ACCEPTED)}, got {precision!r}"
        )
    return _ACCEPTED[precision]


def dtype_of(function: str, dtype: torch.dtype | str | None) -> torch.dtype | None:
    """Return the torch dtype of a dtype argument."""
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    found = _NAMES.get(dtype.lower()) if isinstance(dtype, str) else None
    if found is None:
        raise FlagError(f"{function}: unknown dtype {dtype!r}, accepted: {', '.join(_NAMES)}")
    return found


def with_precision(
    precision: str, contract: Callable[..., Tensor], operands: Sequence[Tensor]
) -> Tensor:
    """Evaluate a multilinear function of the operands in a precision other than fast."""
    dtype = operands[0].dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        return contract(*operands)
    if precision in ("kahan", "doublefloat"):
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return contract(*(x.to(wide) for x in operands)).to(dtype)
    if precision == "sr":
        if dtype not in _NARROW:
            return contract(*operands)
        return stochastically_rounded(contract(*(x.float() for x in operands)), dtype)
    if len(operands) != 2 or dtype not in _PARTS:
        return contract(*operands)
    count = _PARTS[dtype]
    left, right = (parts_of(x.float(), count) for x in operands)
    total = None
    # Products beyond the last diagonal are below the rounding error of the sum.
    for order in range(count - 1, -1, -1):
        for i in range(order + 1):
            product = contract(left[i], right[order - i])
            total = product if total is None else total + product
    assert total is not None
    return total.to(dtype)


def parts_of(x: Tensor, count: int) -> list[Tensor]:
    """Split float32 numbers into bfloat16 parts, each the rounded remainder of the previous."""
    parts = []
    for _ in range(count):
        part = x.bfloat16().float()
        parts.append(part)
        x = x - part
    return parts


def stochastically_rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return each number stochastically rounded to one of its two bfloat16 or float16 neighbours.

    The probabilities are proportional to the distances, so the expected error is zero. Values that
    the dtype represents and values beyond its range are unchanged.
    """
    if x.dtype is dtype or dtype not in _MANTISSA:
        return x.to(dtype)
    bits, least = _MANTISSA[dtype]
    exponent = torch.frexp(x.double()).exponent - 1
    step = torch.exp2((exponent.clamp(min=least) - bits).double())
    scaled = x.double() / step
    below = scaled.floor()
    up = torch.rand_like(scaled) < scaled - below
    rounded = ((below + up) * step).to(dtype)
    return torch.where(torch.isfinite(x), rounded, x.to(dtype))


def select_precision_for_error(
    dtype: torch.dtype,
    K: int,
    target_forward_error: float,
    *,
    model: Literal["published", "sharp"] = "published",
) -> Precision:
    """Return the cheapest precision with an error bound within a target.

    The bounds are relative to the sum of the magnitudes of the products.

    Args:
        dtype: Dtype of operands and result.
        K: Number of terms of each sum.
        target_forward_error: Maximum relative error.
        model: ``"published"`` assumes that every rounding is in ``dtype``: K u for fast, sqrt(K) u
            for sr and K u^2 for dd, both for 16-bit dtypes only, and K 2^-53 for kahan.
            ``"sharp"`` accounts for float32 sums of narrow operands, K 2^-24 + u, and for the
            rounding u of the result in every precision.

    Raises:
        FlagError: No precision is within the target, it is no positive number, or the model is
            unknown.
        ShapeError: K is below 1.
    """
    function = "select_precision_for_error"
    K = whole(function, "K", K, 1, error=ShapeError)
    if not (isinstance(target_forward_error, int | float) and target_forward_error > 0):
        raise FlagError(
            f"{function}: target_forward_error must be above 0, got {target_forward_error!r}"
        )
    real = real_dtype(dtype)
    u = _ROUNDOFF.get(real, 2.0**-24)
    narrow = real in _NARROW
    if model == "published":
        bounds = {"fast": K * u}
        if narrow:
            bounds.update(sr=sqrt(K) * u, dd=K * u * u)
        bounds["kahan"] = K * 2.0**-53
    elif model == "sharp":
        single = min(u, 2.0**-24)
        bounds = {"fast": K * single + (u if narrow else 0.0)}
        if dtype is torch.float32:
            bounds["dd"] = K * 2.0**-25 + u
        bounds["kahan"] = K * 2.0**-53 + (0.0 if real is torch.float64 else u)
    else:
        raise FlagError(f"{function}: model must be 'published' or 'sharp', got {model!r}")
    for name, bound in bounds.items():
        if bound <= target_forward_error:
            return name  # type: ignore[return-value]
    raise FlagError(
        f"{function}: no precision reaches {target_forward_error:.3g} for {dtype} and K = {K}; "
        f"the best is kahan with {bounds['kahan']:.3g}"
    )
