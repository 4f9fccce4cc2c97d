"""MX formats on gen4: quantisation and products of blocks of 32 narrow floats with one scale.

A block is 8 partitions by the 4 elements of a packed word. Its scale is a byte s with the value
2^(s - 127); 255 is NaN. A quadrant of 32 partitions has 4 rows of scales. They are in the same
quadrant, from its row 0, 4, 8 or 12 on: the first partition of the view of the scales selects the
row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from nkisim.diagnostics import declare
from nkisim.dtypes import (
    DType,
    bfloat16,
    decode,
    encode,
    float4_e2m1fn_x4,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    uint8,
)
from nkisim.dtypes.packed import unpack_planes
from nkisim.isa.products import matmul_rules as broken
from nkisim.isa.products.matmul import store_sum
from nkisim.isa.products.matmul_rules import array_tile
from nkisim.machine import Core, Loaded, check_finite, instruction
from nkisim.memory import NkiTensor
from nkisim.spec import PSUM, SBUF, Call, Constraint, In, Operand, Out, Sum, unconverted
from nkisim.spec.constraints import dtype_in, one_start_partition, unpacked
from nkisim.spec.cost import matmul, stream
from nkisim.spec.enums import engine as Engine

Array = np.ndarray

QUADRANT = 32
BLOCK_ROWS = 8
PACKED = 4
SCALE_ROWS = QUADRANT // BLOCK_ROWS
SCALE_OFFSETS = (0, 4, 8, 12)
BIAS = 127
NAN_SCALE = 255
LARGEST_EXPONENT = 127
"""Exponent of the largest float32."""

_ELEMENTS: dict[DType, tuple[DType, int]] = {
    float8_e4m3fn_x4: (float8_e4m3fn, 8),
    float8_e5m2_x4: (float8_e5m2, 15),
}
"""Element type of each pack that quantize_mx writes, and the exponent of its largest number."""

_EXPONENTS: dict[DType, int] = {float8_e4m3fn_x4: 8, float8_e5m2_x4: 15, float4_e2m1fn_x4: 2}
"""Exponent of the largest number of each pack that nc_matmul_mx reads."""

MX_MATMUL_SHAPE = declare(
    "S036",
    "mx-matmul-shape",
    "nc_matmul_mx has operands of the wrong size, or tiles the columns of the array.",
    "it contracts 32, 64, 96 or 128 partitions of an even number of up to 128 stationary and up to "
    "512 moving words (1024 into bfloat16; from NKI 0.5.0 on 4096 and 8192), with row tiling only",
    meaningless=True,
)
SCALE_SHAPE = declare(
    "S037",
    "mx-scale-shape",
    "A tensor of MX scales does not fit its data.",
    "there is one scale per 8 partitions and packed word, in 4 rows of every quadrant of the data",
    meaningless=True,
)
QUANTIZE_SHAPE = declare(
    "S038",
    "quantize-shape",
    "quantize_mx has a source that does not divide into blocks, or a destination of another size.",
    "a block is 8 partitions by 4 elements, and whole quadrants of 32 partitions are quantised",
    meaningless=True,
)
SCALE_PLACE = declare(
    "M044",
    "mx-scale-place",
    "MX scales lie in another quadrant than their data, or not at row 0, 4, 8 or 12 of it.",
    "engines reach scales only in the data's own quadrant; other bytes would be taken for scales",
)
MX_DTYPE = declare(
    "D037",
    "mx-dtype",
    "An operand of quantize_mx or nc_matmul_mx has another type than the MX formats.",
    "the instructions know float16 and bfloat16 sources, x4 packs and scales in uint8, from 0.5.0 "
    "on also in float8_e8m0fnu",
    meaningless=True,
)


def _check_scale(call: Call, name: str, data_name: str, words: int) -> None:
    """Check shape and place of a tensor of scales for ``words`` packed words per partition.

    A tensor that is read may have more partitions than the data; the first ones are used.
    """
    scale, data = call.operand(name), call.operand(data_name)
    rows = data.shape[0]
    least = rows - QUADRANT + SCALE_ROWS
    most = rows if call.instruction.operands[name].writes else scale.shape[0]
    if not least <= scale.shape[0] <= most or scale.free_size != words:
        small = f"({SCALE_ROWS}, {words}) or " if rows == QUADRANT else ""
        call.fail(
            SCALE_SHAPE,
            f"{name} must be {small}({rows}, {words}) for {data_name} {data.shape}, "
            f"got {scale.shape}",
            operand=name,
            seen=scale.shape,
            allowed=f"{small}({rows}, {words}), or a slice of it from row 4, 8 or 12",
            fix="allocate as many partitions as the data and one byte per packed word"
            if rows > QUADRANT
            else "allocate one byte per 8 partitions and packed word",
        )
    quadrant, offset = divmod(scale.start_partition, QUADRANT)
    wanted = data.start_partition // QUADRANT
    if quadrant != wanted or offset not in SCALE_OFFSETS:
        call.fail(
            SCALE_PLACE,
            f"{name} starts at row {offset} of quadrant {quadrant}, {data_name} in quadrant "
            f"{wanted}",
            operand=name,
            seen=f"{name} from partition {scale.start_partition}, {data_name} from partition "
            f"{data.start_partition}",
            allowed="partitions "
            + ", ".join(str(QUADRANT * wanted + offset) for offset in SCALE_OFFSETS),
            fix=f"slice the tile of scales from row {QUADRANT * wanted}, or 4, 8 or 12 rows below",
        )


def _quantize_sizes(call: Call) -> None:
    src, dst = call.operand("src"), call.operand("dst")
    rows, elements = src.shape[0], src.free_size
    if rows % QUADRANT or not 0 < rows <= 128 or elements % PACKED:
        call.fail(
            QUANTIZE_SHAPE,
            f"src must have 32, 64, 96 or 128 partitions and a multiple of 4 elements in each, "
            f"got {src.shape}",
            operand="src",
            seen=src.shape,
            allowed="(32, 64, 96 or 128, a multiple of 4)",
            fix="pad the tile with zeros to whole quadrants and whole words",
        )
    if (dst.shape[0], dst.free_size) != (rows, elements // PACKED):
        call.fail(
            QUANTIZE_SHAPE,
            f"dst must be ({rows}, {elements // PACKED}) for src {src.shape}, got {dst.shape}",
            operand="dst",
            seen=dst.shape,
            allowed=(rows, elements // PACKED),
            fix="allocate dst with a quarter of the elements: a word packs 4 of them",
        )
    _check_scale(call, "dst_scale", "src", elements // PACKED)


def _scale_rows(rows: int) -> Array:
    """Return the rows that hold the scales of ``rows`` partitions of data: 4 in each quadrant."""
    return np.flatnonzero(np.arange(rows) % QUADRANT < SCALE_ROWS)


def _scales_part(name: str, data: str) -> Callable[[Call], Array]:
    """Return the function that computes a mask of the scales in their tile."""

    def part(call: Call) -> Array:
        touched = np.zeros(call[name].shape, bool)
        touched[_scale_rows(call[data].shape[0])] = True
        return touched

    return part


_SCALES = (float8_e8m0fnu, uint8)
"""Types of scales from 0.5.0 on."""


def _quantize_constraints(*scales: DType) -> tuple[Constraint, ...]:
    """Return the constraints of quantize_mx for the types that scales may have."""
    return (
        dtype_in("src", (float16, bfloat16), MX_DTYPE),
        dtype_in("dst", tuple(_ELEMENTS), MX_DTYPE),
        dtype_in("dst_scale", scales, MX_DTYPE),
        Constraint(
            "src whole quadrants of whole blocks, dst (P, F/4), dst_scale (P, F/4) in the same "
            "quadrants, for P = 32 also (4, F/4)",
            (QUANTIZE_SHAPE, SCALE_SHAPE, SCALE_PLACE),
            _quantize_sizes,
        ),
    )


def _quantize_unlimited(
    dst: NkiTensor, src: Any, dst_scale: NkiTensor, name: str | None = None
) -> tuple[Array, Array]:
    """Quantize with scales twice as large, at which no element exceeds the largest float8."""
    return _quantize(dst, src, dst_scale, limited=False)


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(SBUF),
        "src": In(SBUF, as_view=True),
        "dst_scale": Out(SBUF, any_start=True, part=_scales_part("dst_scale", "src")),
    },
    require=_quantize_constraints(uint8),
    since=4,
    arithmetic=unconverted,
    cost=stream(over="src", factor=0.25),
    source="nki.isa.quantize_mx, 0.3.0",
    changes={"0.5.0": {"body": _quantize_unlimited, "require": _quantize_constraints(*_SCALES)}},
)
def quantize_mx(
    dst: NkiTensor, src: Any, dst_scale: NkiTensor, name: str | None = None
) -> tuple[Array, Array]:
    """Round blocks of 8 partitions by 4 elements to packed float8 and one scale each.

    The scale of a block with largest magnitude a is 2^(floor(log2 a) - E), where E is the exponent
    of the largest float8: 8 for e4m3fn, 15 for e5m2. It is at least 2^-127, which also is the scale
    of a block of zeros. Elements are divided by the scale, limited to the largest float8 and
    rounded to nearest, ties to even. From NKI 0.5.0 on the scale is twice as large, and no element
    exceeds the largest float8.

    NKI does not document blocks with infinity or NaN. Here both have magnitude 2^128 when the scale
    is chosen, so most finite elements of the block become 0. NaN stays NaN. Infinity becomes the
    largest float8; from 0.5.0 on it becomes infinity, or NaN in e4m3fn.

    Rows of ``dst_scale`` between the scales are unchanged.

    Args:
        dst: Tile of packed float8 in SBUF, with a quarter of the elements per partition of ``src``.
        src: Tile of float16 or bfloat16 in SBUF, with a multiple of 32 partitions and of 4 elements
            per partition.
        dst_scale: Tile in SBUF that receives the scales as bytes, on four partitions of each
            quadrant of 32: those from row 0, 4, 8 or 12 on, where the view begins.
    """
    return _quantize(dst, src, dst_scale, limited=True)


def _quantize(
    dst: NkiTensor, src: Any, dst_scale: NkiTensor, *, limited: bool
) -> tuple[Array, Array]:
    """Return elements and scales; with ``limited`` elements are clipped to the largest float8."""
    element, largest = _ELEMENTS[dst.dtype]
    rows, words = dst.shape[0], dst.free_size
    tile, stored = src
    values = stored if stored.dtype == np.float32 else decode(stored, tile.dtype)
    blocks = values.reshape(rows // BLOCK_ROWS, BLOCK_ROWS, words, PACKED)
    largest -= not limited
    exponent = _scale_exponents(np.abs(blocks).max(axis=(1, 3)), largest)
    scaled = blocks * np.ldexp(np.float32(1), -exponent)[:, None, :, None]
    if limited:
        assert element.max_finite is not None
        np.clip(scaled, -element.max_finite, element.max_finite, out=scaled)
    elements = encode(scaled, element)
    scales = np.zeros((dst_scale.shape[0], words), np.uint8)
    scales[_scale_rows(rows)] = exponent + BIAS
    return elements.view(dst.dtype.numpy).reshape(rows, words), scales.view(dst_scale.dtype.numpy)


def _scale_exponents(magnitude: Array, largest: int) -> Array:
    """Return the exponents of scales that map these magnitudes to the exponent ``largest``."""
    # frexp normalises to [1/2, 1), subnormals included.
    exponent = np.where(np.isfinite(magnitude), np.frexp(magnitude)[1] - 1, 128) - largest
    exponent[magnitude == 0] = -BIAS
    return np.asarray(np.maximum(exponent, -BIAS))


def _matmul_sizes(call: Call, words: tuple[int, int]) -> None:
    """Check the sizes of a product.

    ``words`` is the largest number of words per row of ``moving``: for a float32 ``dst`` and for a
    bfloat16 one.
    """
    stationary, moving, dst = map(call.operand, ("stationary", "moving", "dst"))
    k, m, n = stationary.shape[0], stationary.free_size, moving.free_size
    if k != moving.shape[0]:
        call.fail(
            broken.CONTRACTION_MISMATCH,
            f"stationary and moving must have the same partition dimension, got {k} and "
            f"{moving.shape[0]}",
            operand="moving",
            seen=f"stationary {stationary.shape}, moving {moving.shape}",
            fix="load both operands with the contraction on the partition dimension",
        )
    limit = words[dst.dtype == "bfloat16"]
    if k % QUADRANT or not 0 < k <= 128:
        call.fail(
            MX_MATMUL_SHAPE,
            f"stationary and moving must have 32, 64, 96 or 128 partitions, got {k}",
            operand="stationary",
            seen=k,
            allowed="32, 64, 96, 128",
            fix="pad the contraction with zeros to a multiple of 32 partitions",
        )
    if m % 2 or m > 128:
        call.fail(
            MX_MATMUL_SHAPE,
            f"stationary must have an even number of up to 128 words per partition, got {m}",
            operand="stationary",
            seen=m,
            allowed="an even number up to 128",
            fix="tile the stationary words by 128, and pad an odd number with a word of zeros",
        )
    if n > limit:
        call.fail(
            MX_MATMUL_SHAPE,
            f"moving must have at most {limit} words per partition into {dst.dtype}, got {n}",
            operand="moving",
            seen=n,
            allowed=f"at most {limit}",
            fix=f"tile the moving words by {limit}",
        )
    if (dst.shape[0], dst.free_size) != (m, n):
        call.fail(
            broken.RESULT_SHAPE,
            f"dst must be ({m}, {n}), the words of stationary and moving, got {dst.shape}",
            operand="dst",
            seen=dst.shape,
            allowed=(m, n),
            fix="swap the operands, or allocate dst as (stationary words, moving words)",
        )
    _check_scale(call, "stationary_scale", "stationary", m)
    _check_scale(call, "moving_scale", "moving", n)


def _row_tile(call: Call) -> None:
    position, size = tuple(call["tile_position"] or ()), tuple(call["tile_size"] or ())
    if (len(position) == 2 and position[1] != 0) or (len(size) == 2 and size[1] != 128):
        call.fail(
            MX_MATMUL_SHAPE,
            f"tiles the rows of the array only, got tile_position {position} and tile_size {size}",
            operand="tile_size",
            seen=f"tile_position={position}, tile_size={size}",
            allowed="tile_position=(row, 0), tile_size=(rows, 128)",
            fix="start at column 0 and take all 128 columns",
        )
    array_tile(call)
    stationary = call.operand("stationary")
    if size and stationary.shape[0] > size[0]:
        call.fail(
            broken.CONTRACTION_LIMIT,
            f"stationary has {stationary.shape[0]} partitions, the row tile {size[0]}",
            operand="stationary",
            seen=stationary.shape[0],
            allowed=f"at most {size[0]}",
            fix="take a row tile as large as the contraction",
        )


def _scale_of(data: str) -> Operand:
    return In(
        SBUF,
        buffer_rule=broken.OPERAND_BUFFER,
        any_start=True,
        part=_scales_part(f"{data}_scale", data),
    )


def _matmul_requires(words: tuple[int, int], *scales: DType) -> tuple[Constraint, ...]:
    """Return the constraints of nc_matmul_mx."""
    return (
        dtype_in("stationary", tuple(_EXPONENTS), MX_DTYPE),
        dtype_in("moving", tuple(_EXPONENTS), MX_DTYPE),
        dtype_in("stationary_scale", scales, MX_DTYPE),
        dtype_in("moving_scale", scales, MX_DTYPE),
        unpacked("dst"),
        dtype_in("dst", (float32, bfloat16), broken.RESULT_DTYPE),
        one_start_partition("stationary", "moving"),
        Constraint(
            f"K whole quadrants, M <= 128 and even, N <= {words[0]} ({words[1]} into bfloat16), "
            "dst (M, N); "
            "scales (K, M) and (K, N) in the same quadrants, for K = 32 also (4, M) and (4, N)",
            (
                broken.CONTRACTION_MISMATCH,
                broken.RESULT_SHAPE,
                MX_MATMUL_SHAPE,
                SCALE_SHAPE,
                SCALE_PLACE,
            ),
            partial(_matmul_sizes, words=words),
        ),
        Constraint(
            "array tiles: rows only, K within the tile",
            (MX_MATMUL_SHAPE, broken.ARRAY_TILE, broken.CONTRACTION_LIMIT),
            _row_tile,
        ),
    )


@instruction(
    engines=(Engine.tensor,),
    operands={
        "dst": Sum(PSUM, buffer_rule=broken.RESULT_BUFFER),
        "stationary": In(SBUF, buffer_rule=broken.OPERAND_BUFFER, as_view=True),
        "moving": In(SBUF, buffer_rule=broken.OPERAND_BUFFER, as_view=True),
        "stationary_scale": _scale_of("stationary"),
        "moving_scale": _scale_of("moving"),
    },
    require=_matmul_requires((512, 1024), uint8),
    since=4,
    arithmetic=unconverted,
    stateful=True,
    spread="product",
    cost=matmul(),
    source="nki.isa.nc_matmul_mx, 0.3.0",
    changes={"0.5.0": {"require": _matmul_requires((4096, 8192), *_SCALES)}},
)
def nc_matmul_mx(
    core: Core,
    dst: NkiTensor,
    stationary: Loaded,
    moving: Loaded,
    stationary_scale: Array,
    moving_scale: Array,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: Any = None,
    name: str | None = None,
) -> None:
    """Write or add ``stationary.T @ moving`` of scaled blocks to a PSUM tile.

    The contraction runs over the partitions and the four elements of each word. Products are exact
    and are summed in float32, in an order that is not specified. A block with the scale 255 is NaN.

    Args:
        dst: Tile in PSUM with a row for each word of a row of ``stationary`` and a column for each
            word of a row of ``moving``.
        stationary: Tile of packed words in SBUF that is loaded into the array, with the contraction
            along its partitions.
        moving: Tile of packed words in SBUF that streams through the array, on as many partitions
            as ``stationary``.
        stationary_scale: Scales of the blocks of ``stationary``, where ``quantize_mx`` writes them:
            byte s is the factor 2^(s - 127).
        moving_scale: Scales of the blocks of ``moving``, where ``quantize_mx`` writes them: byte s
            is the factor 2^(s - 127).
        tile_position: Row of the array at which the tile begins, a multiple of its rows, and column
            0; None for the whole array.
        tile_size: Rows of the array that the product uses, 32, 64 or 128, and 128 columns; None for
            the whole array.
        accumulate: Whether the product is added to ``dst`` (True) or overwrites it (False); None
            overwrites elements at their first product and adds later ones.
    """
    left, right = _dequantised(stationary, stationary_scale), _dequantised(moving, moving_scale)
    watched = core.recorder.watches_values and np.isfinite(dst._elements[accumulate]).all()
    if left.dtype == right.dtype == np.float32:
        product = np.matmul(left.T, right, out=core.scratch(left.shape[1], right.shape[1]))
    else:
        product = np.matmul(left.T, right).astype(np.float32)
    store_sum(dst, product, accumulate)
    if watched:
        check_finite("nc_matmul_mx", (left, right), dst._elements)


def _dequantised(operand: Loaded, scale: Array) -> Array:
    """Return the values of an operand as (contraction, words).

    They are float32. They are float64 if a scaled value exceeds float32, because the product of
    this value with a small one may still fit float32.
    """
    tensor, words = operand
    stored = scale[_scale_rows(tensor.shape[0])].view(np.uint8)
    rows, columns = tensor.shape[0], tensor.free_size
    planes = unpack_planes(words.reshape(rows, columns), tensor.dtype)
    factors = _scale_values().take(stored.reshape(rows // BLOCK_ROWS, columns), mode="wrap")
    if int(stored.max(initial=0)) - BIAS + _EXPONENTS[tensor.dtype] > LARGEST_EXPONENT:
        factors = factors.astype(np.float64)
    blocks = planes.reshape(PACKED, rows // BLOCK_ROWS, BLOCK_ROWS, columns)
    return (blocks * factors[None, :, None, :]).reshape(PACKED * rows, columns)


@cache
def _scale_values() -> Array:
    """Return the value of each of the 256 scale bytes."""
    powers = np.ldexp(np.float32(1), np.arange(NAN_SCALE) - BIAS)
    return np.append(powers, np.float32(np.nan))
