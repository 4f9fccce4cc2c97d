"""nc_matmul: stationary.T @ moving on the systolic array, accumulated in PSUM.

Products of the input formats are exact in float32 and are summed in float32. The hardware does not
specify the order of summation inside one instruction; here the BLAS library chooses it. With
``accumulate=None`` the first matmul into an element of a PSUM tensor overwrites it and later ones
add, element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.diagnostics import flag
from nkisim.dtypes import bfloat16, decode, encode, float32, tfloat32
from nkisim.isa.products import matmul_rules as broken
from nkisim.isa.products.matmul_rules import matmul_constraints
from nkisim.isa.products.transpose import as_multiplied, contaminated, passed
from nkisim.isa.products.transpose_rules import (
    spreads,
)
from nkisim.machine import Core, Loaded, check_finite, instruction
from nkisim.memory import NkiTensor
from nkisim.spec import PSUM, SBUF, Call, In, Sum, rules
from nkisim.spec.cost import matmul
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import matmul_perf_mode as PerfMode
from nkisim.spec.signatures import Removal

Array = np.ndarray

_F32 = np.dtype(np.float32)

_REMOVED = {
    keyword: Removal(rules.RENAMED_MATMUL_KEYWORD, f"write {new}={value}", new)
    for keyword, new, value in (
        ("is_moving_zero", "is_moving_onezero", ""),
        ("is_stationary_zero", "is_stationary_onezero", ""),
        ("psumAccumulateFlag", "accumulate", ""),
        ("psum_accumulate_flag", "accumulate", ""),
        ("performance_mode", "perf_mode", "nisa.matmul_perf_mode.double_row"),
    )
}


def _product(call: Call) -> Callable[..., None] | None:
    """Return the product of a call without hints and modes, of tiles, into a float32 tile."""
    dst, *operands = (call.operand(name) for name in ("dst", "stationary", "moving"))
    if any(call[name] for name in ("is_stationary_onezero", "is_moving_onezero", "is_transpose")):
        return None
    if call["perf_mode"] is PerfMode.double_row or any(t.ndim != 2 for t in (dst, *operands)):
        return None
    if dst.dtype != "float32" or any(t.dtype is tfloat32 for t in operands):
        return None
    stationary = operands[0]._elements
    if stationary.dtype != _F32 or stationary.flags.c_contiguous:
        return _add_product
    # The BLAS library reads dense rows faster than rows of a wide tile.
    return lambda left, right, adds, out: _add_product(left.copy(), right, adds, out)


def _add_product(left: Array, right: Array, adds: Array | bool, out: Array) -> None:
    """Write ``left.T @ right`` to a float32 tile, or add it where ``adds``."""
    product = left.T.dot(right)
    if adds is True:
        np.add(out, product, out=out)
        return
    if adds is not False:
        np.add(out, product, out=product, where=adds)
    out[...] = product


@instruction(
    engines=(Engine.tensor,),
    operands={
        "dst": Sum(PSUM, buffer_rule=broken.RESULT_BUFFER),
        "stationary": In(SBUF, buffer_rule=broken.OPERAND_BUFFER, as_view=True),
        "moving": In(SBUF, buffer_rule=broken.OPERAND_BUFFER, as_view=True),
    },
    require=matmul_constraints(ocp=False),
    stateful=True,
    function=_product,
    spread="product",
    cost=matmul(),
    removed=_REMOVED,
    source="nki.isa.nc_matmul, 0.3.0",
    changes={"0.4.0": {"require": matmul_constraints(ocp=True)}},
)
def nc_matmul(
    core: Core,
    dst: NkiTensor,
    stationary: Loaded,
    moving: Loaded,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: Any = None,
    tile_position: Any = (),
    tile_size: Any = (),
    perf_mode: PerfMode = PerfMode.none,
    name: str | None = None,
) -> None:
    """Write or add ``stationary.T @ moving`` to a PSUM tile.

    From gen3 on ``is_transpose`` passes the bits of ``stationary`` through, in the order of a
    ``moving`` identity or permutation; on gen2 it only labels the product.

    Float32 operands take four passes on the device and give float32 products. With a one/zero hint
    the low parts of that operand are dropped, which is emulated by rounding it to bfloat16.

    A tfloat32 operand takes one pass. The engine multiplies values with 10 fraction bits. Stored
    values with more fraction bits, such as float32 data under ``tile.view(nl.tfloat32)``, are
    rounded to nearest, ties to even. NKI does not document that the engine rounds instead of
    truncating; rounding is assumed because it is the hardware's default elsewhere. The other
    engines read all 32 stored bits, and copies do not change them.

    Args:
        dst: Tile in PSUM with a row for each column of ``stationary`` and a column for each column
            of ``moving``.
        stationary: Tile in SBUF that is loaded into the array, with the contraction along its
            partitions and at most 128 columns.
        moving: Tile in SBUF that streams through the array, on as many partitions as
            ``stationary``.
        is_stationary_onezero: Whether ``stationary`` holds only 0 and 1, a hint that saves passes
            of float32.
        is_moving_onezero: Whether ``moving`` holds only 0 and 1, a hint that saves passes of
            float32.
        is_transpose: Whether ``moving`` is an identity or permutation that only moves the elements
            of ``stationary``.
        accumulate: Whether the product is added to ``dst`` (True) or overwrites it (False); None
            overwrites elements at their first product and adds later ones.
        tile_position: Row and column of the array at which the tile begins, multiples of
            ``tile_size``; empty for the whole array.
        tile_size: Rows and columns of the array that the product uses, each 32, 64 or 128 (gen2: 64
            or 128); empty for the whole array.
        perf_mode: Performance mode; ``double_row`` multiplies pairs of float8 rows in one pass, on
            gen3 and later.
    """
    (weights, left), (inputs, right) = stationary, moving
    doubled = perf_mode is PerfMode.double_row
    if doubled or left.ndim != 2 or right.ndim != 2:
        rows = len(left) * (2 if doubled else 1)
        left, right = left.reshape(rows, -1), right.reshape(rows, -1)
    if is_transpose and _passes(core, dst, weights, inputs, left, right, accumulate):
        return
    finite = core.recorder.watches_values and np.isfinite(dst._elements[accumulate]).all()
    left = _widened(weights, left, "stationary", is_stationary_onezero)
    right = _widened(inputs, right, "moving", is_moving_onezero)
    store_sum(dst, np.dot(left.T, right), accumulate)
    if finite:
        check_finite("nc_matmul", (left, right), dst._elements)


def _passes(
    core: Core,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    left: Array,
    right: Array,
    adds: Array | bool,
) -> bool:
    """Write the result of transpose mode; return False if the product has to be computed."""
    if core.generation.number == 2:
        contaminated(left, stationary, "nc_matmul", "stationary")
        return False
    ones = decode(right, moving.dtype) if right.dtype != np.float32 else right
    if not ((ones == 0) | (ones == 1)).all() or (ones.sum(axis=0) != 1).any():
        why = "holds columns other than those of an identity"
    elif (ones.sum(axis=1) > 1).any():
        why = "selects a row twice"
    elif adds is not False:
        return False
    else:
        spread = spreads(core.generation.number, Engine.tensor, stationary.dtype)
        moved = left[ones.argmax(axis=0)].T
        dst._elements[...] = passed(moved, stationary, dst, spread=spread).reshape(dst.shape)
        return True
    flag(
        broken.TRANSPOSE_MOVING,
        f"nc_matmul in transpose mode has a moving operand that {why}",
        instruction="nc_matmul",
        operand="moving",
        seen=why,
        allowed="an identity or a permutation",
        fix="drop is_transpose to multiply, or pass an identity",
    )
    return False


def _widened(tensor: NkiTensor, stored: Array, name: str, onezero: bool) -> Array:
    """Return the float32 values of an operand that the engine multiplies."""
    if stored.dtype != _F32:
        return decode(stored, tensor.dtype)
    if not onezero or tensor.dtype is not float32:
        return as_multiplied(stored, tensor)
    _check_onezero(stored, name)
    return decode(encode(stored, bfloat16), bfloat16)


def _check_onezero(values: Array, name: str) -> None:
    other = (values != 0) & (values != 1)
    if other.any():
        at = np.unravel_index(int(np.argmax(other)), other.shape)
        flag(
            broken.ONEZERO_HINT,
            f"nc_matmul {name} is hinted to hold ones and zeros but holds {values[at]:.9g}",
            instruction="nc_matmul",
            operand=name,
            seen=f"{values[at]:.9g} at {tuple(int(i) for i in at)}",
            allowed="0 and 1",
            fix=f"drop is_{name}_onezero",
        )


def store_sum(dst: NkiTensor, product: Array, accumulate: Array | bool) -> None:
    """Write a product to PSUM, or add it where ``accumulate``; sums are rounded to ``dst``'s type.

    The array of the product may be modified.
    """
    target = dst._elements
    if target.ndim != 2:
        product = product.reshape(dst.shape)
    if accumulate is not False:
        np.add(decode(target, dst.dtype), product, out=product, where=accumulate)
    target[...] = encode(product, dst.dtype)
