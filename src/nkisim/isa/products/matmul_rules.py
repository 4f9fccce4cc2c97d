"""Constraints of nc_matmul: sizes, types and array tiles, with their rules."""

from __future__ import annotations

from functools import partial

from nkisim import versions
from nkisim.diagnostics import declare
from nkisim.isa.products.transpose_rules import TRANSPOSE_8BIT, TRANSPOSE_DTYPE, transpose_dtype
from nkisim.memory import NkiTensor
from nkisim.spec import Call, Constraint, rules
from nkisim.spec.constraints import one_start_partition, unpacked
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import matmul_perf_mode as PerfMode

_FLOAT8 = ("float8_e4m3", "float8_e5m2")
_FLOATS = (*_FLOAT8, "bfloat16", "float16", "tfloat32", "float32")
_OCP = "float8_e4m3fn"
_WIDE = ("tfloat32", "float32")


OPERAND_BUFFER = declare(
    "M019",
    "matmul-operand-buffer",
    "An input of nc_matmul is not in SBUF.",
    "the Tensor engine reads SBUF only",
    meaningless=True,
)
RESULT_BUFFER = declare(
    "M020",
    "matmul-result-buffer",
    "The result of a Tensor-engine instruction is not in PSUM.",
    "the Tensor engine writes PSUM only",
    meaningless=True,
)
CONTRACTION_MISMATCH = declare(
    "S028",
    "contraction-mismatch",
    "Stationary and moving operand have different contraction sizes.",
    "both contract over their partitions",
    meaningless=True,
)
STATIONARY_LIMIT = declare(
    "S029",
    "stationary-limit",
    "The stationary operand has more columns than the array.",
    "the systolic array has 128 columns, or as many as the column tile",
    meaningless=True,
)
MOVING_LIMIT = declare(
    "S030",
    "moving-limit",
    "The moving operand has more columns than one instruction streams.",
    "gen2 and gen3 stream up to 512 columns, gen4 up to the whole of PSUM",
    meaningless=True,
)
RESULT_SHAPE = declare(
    "S031",
    "matmul-result-shape",
    "The destination is not (stationary columns, moving columns).",
    "the instruction computes stationary.T @ moving",
    meaningless=True,
)
CONTRACTION_LIMIT = declare(
    "S032",
    "contraction-limit",
    "The contraction is longer than the array has rows.",
    "the systolic array has 128 rows, or as many as the row tile",
    meaningless=True,
)
DOUBLE_ROW_SHAPE = declare(
    "S034",
    "double-row-shape",
    "double_row is used with the wrong shape, with column tiling or with transpose.",
    "operands are [K, 2, M] and [K, 2, N]",
    meaningless=True,
)
ARRAY_TILE = declare(
    "S035",
    "array-tile",
    "tile_position and tile_size do not describe a tile of the array.",
    "tiles have 32, 64 or 128 rows (gen2: 64 or 128) and start at a multiple of their size",
    meaningless=True,
)
COLUMN_TILE = declare(
    "S072",
    "column-tile",
    "A product uses only some of the columns of the array.",
    "the documentation of tile_position and tile_size allows it in its text, and in its list of "
    "parameters only column 0 and 128 columns; it has not been tried on a device",
    severity="warning",
)
SINGLE_COLUMN = declare(
    "S066",
    "single-moving-column",
    "The moving operand has a single column.",
    "some releases refuse it",
    severity="warning",
)
RESULT_BANK_SIZE = declare(
    "M011",
    "result-larger-than-bank",
    "A matmul result is larger than one PSUM bank.",
    "gen2 and gen3 accumulate inside one bank of 2048 bytes per partition",
)
RESULT_BANK_CROSSING = declare(
    "M012",
    "result-crosses-bank",
    "A matmul result crosses a bank boundary.",
    "gen2 and gen3 accumulate inside one bank of 2048 bytes per partition",
)
INTEGER_OPERAND = declare(
    "D002",
    "integer-matmul",
    "An operand of nc_matmul is an integer.",
    "the Tensor engine multiplies floats",
    meaningless=True,
)
MIXED_WIDTH = declare(
    "D003",
    "mixed-matmul-width",
    "nc_matmul combines float32 or tfloat32 with a narrower type.",
    "32-bit floats pair only with 32-bit floats",
)
RESULT_DTYPE = declare(
    "D004",
    "matmul-result-dtype",
    "The result of nc_matmul has a type that PSUM does not accumulate in.",
    "gen2 and gen3 accumulate in float32, gen4 in float32 or bfloat16",
)
E4M3FN_OPERAND = declare(
    "D005",
    "e4m3fn-operand",
    "nc_matmul has a float8_e4m3fn operand in NKI 0.3.0 or before gen4, or together with "
    "float8_e4m3.",
    "the Tensor engine reads all e4m3 bytes in one of the two formats, which differ in their "
    "largest value",
)
DOUBLE_ROW_DTYPE = declare(
    "D006",
    "double-row-dtype",
    "double_row is used with another type than float8.",
    "the mode packs pairs of float8 values",
    meaningless=True,
)
TRANSPOSE_MOVING = declare(
    "D049",
    "transpose-moving",
    "nc_matmul in transpose mode has a moving operand that is no identity or permutation.",
    "the mode passes bits through and neither scales nor sums",
    on_values=True,
    silent=True,
)
ONEZERO_HINT = declare(
    "D010",
    "onezero-hint",
    "A float32 operand hinted as ones and zeros holds other values.",
    "the engine skips the passes for the low-order parts",
    on_values=True,
    silent=True,
)


def _double_row(call: Call) -> bool:
    return call["perf_mode"] is PerfMode.double_row


def _tile(call: Call) -> tuple[int, int]:
    """Return rows and columns of the array tile."""
    size = tuple(call["tile_size"] or ())
    return (int(size[0]), int(size[1])) if len(size) == 2 else (128, 128)


def array_tile(call: Call) -> None:
    """Check that tile_position and tile_size describe a tile that contains the operands."""
    position, size = tuple(call["tile_position"] or ()), tuple(call["tile_size"] or ())
    if not position and not size:
        return
    legal = (64, 128) if call.generation.number == 2 else (32, 64, 128)
    why = ""
    if len(position) != 2 or len(size) != 2:
        why = f"tile_position {position} and tile_size {size} must both have two entries"
    elif size[0] not in legal or size[1] not in legal:
        why = f"tile_size {size} must be made of {legal} on {call.generation}"
    elif any(p % s or not 0 <= p < 128 for p, s in zip(position, size, strict=True)):
        why = f"tile_position {position} must be a multiple of tile_size {size} below 128"
    else:
        starts = [call.operand(name).start_partition for name in ("stationary", "moving")]
        if any(start != position[0] for start in starts):
            why = f"operands start at partitions {starts}, the row tile at {position[0]}"
    if why:
        call.fail(
            ARRAY_TILE,
            why,
            operand="tile_position",
            seen=f"tile_position={position}, tile_size={size}",
            allowed=f"sizes {legal}, starts at a multiple of the size, operands on the tile's rows",
            fix="give both, with operands placed at the tile's first row",
        )


def _column_tile(call: Call) -> None:
    """Warn of a tile that is not as wide as the array."""
    position, size = tuple(call["tile_position"] or ()), tuple(call["tile_size"] or ())
    if len(position) == len(size) == 2 and (position[1], size[1]) != (0, 128):
        call.fail(
            COLUMN_TILE,
            f"uses {size[1]} columns of the array from column {position[1]} on",
            operand="tile_position",
            seen=f"tile_position={position}, tile_size={size}",
            allowed="column 0 and 128 columns, if the list of parameters is right",
            fix="use tiles of rows, with start column 0 and 128 columns, or compare with a product "
            "on the whole array on a device",
        )


def _columns(tensor: NkiTensor, double: bool) -> int:
    return tensor.free_size // 2 if double else tensor.free_size


def _sizes(call: Call, ocp: bool) -> None:
    stationary, moving, dst = map(call.operand, ("stationary", "moving", "dst"))
    generation = call.generation
    double = _double_row(call)
    rows, columns = _tile(call)
    if double:
        _check_double_row(call, stationary, moving, _types(call, _FLOAT8, ocp))
    k = stationary.shape[0]
    m, n = _columns(stationary, double), _columns(moving, double)
    if k != moving.shape[0]:
        call.fail(
            CONTRACTION_MISMATCH,
            f"Matmul contraction dimension mismatch: stationary[0]={k} != "
            f"moving[0]={moving.shape[0]}",
            operand="moving",
            seen=f"stationary {stationary.shape}, moving {moving.shape}",
            fix="load both operands with the contraction on the partition dimension",
            named=False,
        )
    if k > rows:
        call.fail(
            CONTRACTION_LIMIT,
            f"Matmul contraction dimension {k} exceeds "
            + (f"pmax={rows}" if rows == 128 else f"the row tile of {rows}"),
            operand="stationary",
            seen=k,
            allowed=f"at most {rows}",
            fix="loop over the contraction in tiles and accumulate in PSUM",
            named=False,
        )
    if m > columns:
        call.fail(
            STATIONARY_LIMIT,
            f"Matmul stationary free dimension {m} exceeds "
            + (
                f"gemm_stationary_fmax={columns}"
                if columns == 128
                else f"the column tile of {columns}"
            ),
            operand="stationary",
            seen=m,
            allowed=f"at most {columns}",
            fix="tile the stationary columns by nl.tile_size.gemm_stationary_fmax",
            named=False,
        )
    limit = generation.moving_free_max
    if dst.dtype == "bfloat16" and generation.moving_free_max_bf16:
        limit = generation.moving_free_max_bf16
    if n > limit:
        call.fail(
            MOVING_LIMIT,
            f"Matmul moving free dimension {n} exceeds max {limit} for "
            f"nc_version=nc_version.{generation}",
            operand="moving",
            seen=n,
            allowed=f"at most {limit}",
            fix="tile the moving columns by nl.tile_size.gemm_moving_fmax",
            named=False,
        )
    if (dst.shape[0], dst.free_size) != (m, n):
        call.fail(
            RESULT_SHAPE,
            f"dst must be ({m}, {n}), the columns of stationary and moving, got {dst.shape}",
            operand="dst",
            seen=dst.shape,
            allowed=(m, n),
            fix="swap the operands, or allocate dst as (stationary columns, moving columns)",
        )
    if n == 1:
        call.fail(
            SINGLE_COLUMN,
            f"moving has a single column {moving.shape}",
            operand="moving",
            seen=moving.shape,
            fix="use the vector as stationary operand, or pad it to two columns",
        )


def _types(call: Call, types: tuple[str, ...], ocp: bool) -> tuple[str, ...]:
    """Return the types that are multiplied; ``ocp`` adds float8_e4m3fn on gen4."""
    return (*types, _OCP) if ocp and call.generation.number >= 4 else types


def _check_double_row(
    call: Call, stationary: NkiTensor, moving: NkiTensor, types: tuple[str, ...]
) -> None:
    if call.generation.number < 3:
        call.fail(
            rules.GENERATION,
            "has no double_row mode on gen2",
            operand="perf_mode",
            seen=call.generation,
            allowed="gen3 or newer",
            fix="use perf_mode=nisa.matmul_perf_mode.none",
        )
    for name, tensor in (("stationary", stationary), ("moving", moving)):
        if tensor.dtype not in types:
            call.fail(
                DOUBLE_ROW_DTYPE,
                f"{name} must be {' or '.join(types)} in double_row mode, got {tensor.dtype}",
                operand=name,
                seen=tensor.dtype,
                allowed=", ".join(types),
                fix="convert the operand, or drop perf_mode",
            )
        if len(tensor.shape) < 3 or tensor.shape[1] != 2:
            call.fail(
                DOUBLE_ROW_SHAPE,
                f"{name} must have shape [K, 2, columns] in double_row mode, got {tensor.shape}",
                operand=name,
                seen=tensor.shape,
                allowed="(K, 2, columns)",
                fix="split the contraction over partitions and a first free dimension of 2",
            )
    if call["is_transpose"] or _tile(call)[1] != 128:
        call.fail(
            DOUBLE_ROW_SHAPE,
            "double_row cannot be combined with transpose or column tiling",
            operand="perf_mode",
            seen=f"is_transpose={call['is_transpose']}, tile_size={call['tile_size']}",
            fix="drop one of them",
        )


def _e4m3fn(call: Call, operands: dict[str, NkiTensor], ocp: bool) -> None:
    """Check the use of float8_e4m3fn."""
    found = [name for name, tensor in operands.items() if tensor.dtype == _OCP]
    if not found:
        return
    legal = ocp and call.generation.number >= 4
    if not legal:
        where = f"NKI {versions.in_force()} does" if not ocp else f"{call.generation} does"
        why = f"{found[0]} is {_OCP}, which {where} not multiply"
    elif any(tensor.dtype == "float8_e4m3" for tensor in operands.values()):
        why = f"{found[0]} is {_OCP} and the other operand float8_e4m3"
    else:
        return
    call.fail(
        E4M3FN_OPERAND,
        why,
        operand=found[0],
        seen=" and ".join(str(tensor.dtype) for tensor in operands.values()),
        allowed=", ".join(_types(call, _FLOATS, ocp)),
        fix="convert the values (not the bytes) to one of the two formats"
        if legal
        else "convert the values (not the bytes) to float8_e4m3",
    )


def _dtypes(call: Call, ocp: bool) -> None:
    stationary, moving, dst = map(call.operand, ("stationary", "moving", "dst"))
    operands = {"stationary": stationary, "moving": moving}
    _e4m3fn(call, operands, ocp)
    types = ", ".join(_types(call, _FLOATS, ocp))
    for name, tensor in operands.items():
        if tensor.dtype not in _FLOATS and tensor.dtype != _OCP:
            call.fail(
                INTEGER_OPERAND,
                f"{name} must be one of {types}, got {tensor.dtype}",
                operand=name,
                seen=tensor.dtype,
                allowed=types,
                fix="convert to bfloat16 (integers exact to 256) or float32 (exact to 2^24)",
            )
    if (stationary.dtype in _WIDE) != (moving.dtype in _WIDE):
        call.fail(
            MIXED_WIDTH,
            f"stationary is {stationary.dtype} and moving is {moving.dtype}",
            operand="moving",
            seen=f"{stationary.dtype} and {moving.dtype}",
            allowed="both float32/tfloat32, or both narrower",
            fix="convert one side",
        )
    if call["is_transpose"]:
        if call.generation.number > 2 or dst.dtype != "float32":
            transpose_dtype(call, "stationary", Engine.tensor)
        if call.generation.number > 2 and call["accumulate"] is None:
            call.normalise("accumulate", False)  # transpose mode does not accumulate
        return
    allowed = ("float32", "bfloat16") if call.generation.number >= 4 else ("float32",)
    if dst.dtype not in allowed:
        call.fail(
            RESULT_DTYPE,
            f"dst must be {' or '.join(allowed)} on {call.generation}, got {dst.dtype}",
            operand="dst",
            seen=dst.dtype,
            allowed=", ".join(allowed),
            data={"dtypes": [*allowed]},
            fix="use a float32 PSUM tile and convert while copying it to SBUF",
        )


def bank_fits(call: Call) -> None:
    """Check that a Tensor-engine result stays inside one PSUM bank on gen2 and gen3."""
    dst = call.operand("dst")
    if call.generation.number >= 4:
        return
    bank = call.generation.psum_bank_bytes
    reach = (
        sum((e - 1) * s for e, s in zip(dst.shape[1:], dst.form.strides[1:], strict=True))
        + dst.itemsize
    )
    first = dst.free_byte_offset
    if reach > bank:
        call.fail(
            RESULT_BANK_SIZE,
            f"dst spans {reach} bytes per partition, one bank has {bank}",
            operand="dst",
            seen=reach,
            allowed=f"at most {bank}",
            fix="use at most 512 float32 columns per matmul",
        )
    elif first // bank != (first + reach - 1) // bank:
        call.fail(
            RESULT_BANK_CROSSING,
            f"dst covers bytes {first} to {first + reach - 1} of a partition and crosses a bank "
            f"boundary",
            operand="dst",
            seen=f"byte {first}, {reach} bytes",
            allowed=f"inside one bank of {bank} bytes",
            fix="align the tile or the slice to 2048 bytes",
        )


def matmul_constraints(*, ocp: bool) -> tuple[Constraint, ...]:
    """Return the constraints of nc_matmul; ``ocp`` is whether float8_e4m3fn is multiplied."""
    narrow = ", float8_e4m3fn on gen4 without float8_e4m3" if ocp else ""
    return (
        unpacked("dst"),
        one_start_partition("stationary", "moving"),
        Constraint("array tiles: sizes and starts", (ARRAY_TILE,), array_tile),
        Constraint(
            "K <= 128 rows, M <= 128 columns, N <= 512 (gen4: all of PSUM), dst (M, N)",
            (
                CONTRACTION_MISMATCH,
                CONTRACTION_LIMIT,
                STATIONARY_LIMIT,
                MOVING_LIMIT,
                RESULT_SHAPE,
                DOUBLE_ROW_SHAPE,
                SINGLE_COLUMN,
            ),
            partial(_sizes, ocp=ocp),
        ),
        Constraint(
            "float operands, 32-bit floats paired with each other, float32 result (gen4 also "
            f"bfloat16){narrow}",
            (
                INTEGER_OPERAND,
                MIXED_WIDTH,
                RESULT_DTYPE,
                E4M3FN_OPERAND,
                DOUBLE_ROW_DTYPE,
                TRANSPOSE_DTYPE,
                TRANSPOSE_8BIT,
            ),
            partial(_dtypes, ocp=ocp),
        ),
        Constraint(
            "dst inside one PSUM bank on gen2 and gen3",
            (RESULT_BANK_SIZE, RESULT_BANK_CROSSING),
            bank_fits,
        ),
        Constraint("array tiles of all columns", (COLUMN_TILE,), _column_tile),
    )
