"""Rules common to all instructions: operands, engines, arguments, values."""

from nkisim.diagnostics import declare
from nkisim.removed import BAD_CALL

__all__ = ["BAD_CALL"]

# -- arguments -------------------------------------------------------------------------------------

NO_DESTINATION = declare(
    "A026",
    "no-destination",
    "An instruction is called without dst, as an expression.",
    "since Beta 2 instructions write into a tile that is passed in",
    meaningless=True,
)
REMOVED_MASK = declare(
    "A027",
    "removed-mask",
    "A call passes mask=.",
    "masks are gone; every operand is sliced to the valid extent instead",
    meaningless=True,
)
REMOVED_DTYPE = declare(
    "A028",
    "removed-dtype",
    "An instruction is called with dtype=.",
    "the dtype of dst decides the result's type",
    meaningless=True,
)
REMOVED_RMW = declare(
    "A003",
    "removed-rmw",
    "dma_copy is called with dst_rmw_op or unique_indices.",
    "0.3.0 moved read-modify-write to dma_compute",
    meaningless=True,
)
REMOVED_GPSIMD_DMA = declare(
    "A008",
    "removed-use-gpsimd-dma",
    "sendrecv is called with use_gpsimd_dma.",
    "0.3.0 replaced the flag by the dma_engine enum",
    meaningless=True,
)
REMOVED_IMM = declare(
    "A010",
    "removed-imm",
    "register_move is called with imm=.",
    "0.3.0 renamed the parameter to src",
    meaningless=True,
)
RENAMED_MATMUL_KEYWORD = declare(
    "A032",
    "renamed-matmul-keyword",
    "nc_matmul is called with a keyword of an earlier release.",
    "the keywords were renamed",
    meaningless=True,
)
INTEGER_ENUM = declare(
    "A013",
    "integer-enum",
    "A raw integer is passed where 0.3.0 requires an enum member.",
    "0.3.0 refuses integers, and their numbering changed between releases",
    severity="warning",
)
ENUM_KIND = declare(
    "A015",
    "wrong-enum",
    "An enum argument is neither a member of the parameter's enum nor the name of one.",
    "for example, nisa.dma_engine is now an enum of its own, not an engine",
    meaningless=True,
)
STATIC_ARGUMENT = declare(
    "A048",
    "static-argument",
    "A tensor or register is passed where a compile-time constant is needed.",
    "the field is encoded in the instruction",
    meaningless=True,
)
OPERATOR_KIND = declare(
    "D022",
    "operator-kind",
    "An op argument is not an operator that the instruction supports.",
    "the engine has no such operation",
    meaningless=True,
)
OUTSIDE_KERNEL = declare(
    "L063",
    "outside-kernel",
    "A device operation is called outside a kernel.",
    "there is no kernel to put the instruction into",
    meaningless=True,
)

# -- where operands live ---------------------------------------------------------------------------

COMPUTE_IN_HBM = declare(
    "M021",
    "compute-in-hbm",
    "An operand of a compute engine is in HBM.",
    "compute engines reach SBUF and PSUM only",
    meaningless=True,
)
BUFFER_UNREACHABLE = declare(
    "M024",
    "buffer-unreachable",
    "An operand is in a memory that the instruction cannot address.",
    "the instruction has no path to that memory",
    meaningless=True,
)
GPSIMD_IN_PSUM = declare(
    "M022",
    "gpsimd-in-psum",
    "A GpSimd instruction touches PSUM.",
    "the GpSimd engine has no port to PSUM",
    meaningless=True,
)
PARTITION_START = declare(
    "S004",
    "partition-start",
    "An operand of a compute engine starts at a partition that its size does not allow.",
    "1-32 partitions start at 0, 32, 64 or 96; 33-64 at 0 or 64; more at 0",
    whole_call=True,
)
FREE_SIZE_LIMIT = declare(
    "S060",
    "free-size-limit",
    "One instruction covers more elements per partition than its fields can count.",
    "the back end cannot encode it",
    whole_call=True,
)
INDIRECT_OPERAND = declare(
    "S026",
    "indirect-operand",
    "An operand that an index selects is given to an instruction without such addressing.",
    "only swdge DMA gathers rows by index, and few instructions of gen4 gather columns",
    meaningless=True,
)

# -- shapes that must agree ------------------------------------------------------------------------

PARTITION_BROADCAST = declare(
    "S005",
    "partition-broadcast",
    "One operand has a single partition, another has several.",
    "engines do not broadcast across partitions",
    meaningless=True,
)
PARTITION_MISMATCH = declare(
    "S006",
    "partition-mismatch",
    "Operands have different numbers of partitions.",
    "each lane reads and writes its own partition",
    meaningless=True,
)
FREE_SIZE_MISMATCH = declare(
    "S007",
    "free-size-mismatch",
    "Operands have different numbers of elements per partition.",
    "elements are paired one to one",
    meaningless=True,
)
FREE_BROADCAST = declare(
    "S008",
    "free-broadcast",
    "Two tensors are combined although one would have to be broadcast.",
    "0.3.0 has no broadcasting between tensors",
)
RANK_BROADCAST = declare(
    "S064",
    "rank-broadcast",
    "Tensors of different rank are combined although one would have to be broadcast.",
    "the device was seen to compute wrong results",
)
COLUMN_SHAPE = declare(
    "S053",
    "column-shape",
    "A per-partition operand does not have one element per partition.",
    "the engine reads one scalar per lane",
    meaningless=True,
)
START_MISMATCH = declare(
    "S071",
    "start-mismatch",
    "Two SBUF inputs of one instruction start at different partitions.",
    "the engine reads both inputs of a lane from the same partition",
)
BOTH_IN_PSUM = declare(
    "M023",
    "both-in-psum",
    "Both data operands are in PSUM.",
    "the engine has one read port to PSUM",
    meaningless=True,
)
OVERLAP = declare(
    "M030",
    "overlapping-destination",
    "The destination overlaps a source with a different access pattern.",
    "engines stream: later reads may see earlier writes of the same instruction",
    silent=True,
)
RESULTS_OVERLAP = declare(
    "M032",
    "overlapping-results",
    "Two results of one instruction overlap.",
    "which of them survives is not specified",
    silent=True,
)
REPEATED_WRITE = declare(
    "M031",
    "repeated-write",
    "The destination's access pattern visits an element twice.",
    "which write comes last is not specified",
    silent=True,
)

# -- engines, generations, dtypes ------------------------------------------------------------------

GENERATION = declare(
    "A033",
    "generation",
    "An instruction or mode does not exist on the target.",
    "the compiler refuses it for this generation",
    meaningless=True,
)
WRONG_ENGINE = declare(
    "A034",
    "wrong-engine",
    "engine= names an engine that cannot run the instruction.",
    "the engine has no such instruction",
    meaningless=True,
)
NO_DIVIDE = declare(
    "D013",
    "no-divide",
    "nl.divide is used.",
    "no engine can divide; the compiler fails",
)
NO_MODULO = declare(
    "D014",
    "no-modulo",
    "nl.mod, nl.fmod, or nl.power with a scalar exponent is used.",
    "no engine has the operation; it works in simulation and fails to compile",
)
BITVEC_ON_FLOAT = declare(
    "D011",
    "bitvec-on-float",
    "A bitwise or shift operator has a float operand.",
    "bit operators work on integer types without any conversion",
    meaningless=True,
)
MIXED_OPERATORS = declare(
    "D012",
    "mixed-operators",
    "Bitwise and arithmetic operators are mixed in one instruction, or a bitwise operator runs "
    "off the Vector engine.",
    "one instruction is either bitwise or arithmetic, and only the Vector engine is bitwise",
    meaningless=True,
)
REDUCTION_OPERATOR = declare(
    "D025",
    "reduction-operator",
    "A reduction uses an operator that does not reduce.",
    "the engine reduces with add, subtract, multiply, maximum, minimum and the bitwise and "
    "logical and/or/xor only",
    meaningless=True,
)
DTYPE_MISMATCH = declare(
    "D033",
    "dtype-mismatch",
    "Source and destination must have one dtype and do not.",
    "the instruction moves bits and does not convert",
    meaningless=True,
)
OPERAND_DTYPE = declare(
    "D032",
    "operand-dtype",
    "An index, predicate, seed or metadata operand has a type the instruction does not accept, "
    "or an x4 tile is used in arithmetic.",
    "the engine interprets the operand in a fixed format, and the words of a pack are not numbers",
    meaningless=True,
)
COLUMN_DTYPE = declare(
    "D036",
    "column-dtype",
    "A per-partition operand of an arithmetic instruction is not float32.",
    "the engine reads such operands as float32",
)
RESTRICTED_DTYPE = declare(
    "D035",
    "restricted-dtype",
    "An operand has a 32-bit type that the instruction does not support.",
    "the instruction has no path for it",
    meaningless=True,
)
LARGE_IMMEDIATE = declare(
    "D018",
    "large-immediate",
    "An integer constant is larger than its float type holds exactly.",
    "immediates of arithmetic instructions travel as float32, and iota rounds to the type of dst",
    silent=True,
)
MASKED_ROW = declare(
    "D031",
    "masked-row",
    "The lowest float32 number fills a mask in a narrow type, and a fully masked row becomes NaN.",
    "the fill becomes -inf there, and -inf minus -inf is NaN",
    severity="warning",
    on_values=True,
)
NAN_CREATED = declare(
    "D042",
    "nan-created",
    "An instruction creates NaN or infinity from finite inputs, or NaN from infinities.",
    "the runtime may stop with a numerical error",
    severity="warning",
    on_values=True,
)

# -- values ----------------------------------------------------------------------------------------

SIGNED_SHIFT = declare(
    "D015",
    "signed-shift",
    "A negative integer is shifted right.",
    "only the logical shift exists: zeros come in from the left, the sign is lost",
    severity="warning",
    on_values=True,
)
NOT_BOOLEAN = declare(
    "D040",
    "not-boolean",
    "nl.logical_not is applied to values other than 0 and 1.",
    "it is an exclusive or with 1, not a comparison with 0",
    on_values=True,
    silent=True,
)
INEXACT_INTEGER = declare(
    "D016",
    "inexact-integer-arithmetic",
    "Integer arithmetic goes through float32 with values beyond 2^24.",
    "the Vector and Scalar engines compute in float32, which holds integers exactly up to 2^24",
    on_values=True,
    whole_call=True,
    silent=True,
)
INEXACT_MOVE = declare(
    "D017",
    "inexact-integer-move",
    "Integers beyond 2^24 are moved by a path that converts through float32.",
    "float32 holds integers exactly up to 2^24",
    on_values=True,
    whole_call=True,
    silent=True,
)
FRACTION_LOST = declare(
    "D050",
    "fraction-lost",
    "Floats with a fraction are copied to integers.",
    "the conversion rounds to the nearest integer, halves to even; Python and NumPy cut off",
    severity="note",
    on_values=True,
)
INTEGER_WRAP = declare(
    "D051",
    "integer-wrap",
    "A result of 32-bit integer arithmetic does not fit and wraps around; if all tiles are uint32, "
    "wrapping is intended and not reported.",
    "the GpSimd engine, on which tensor_tensor runs 32-bit integers by default, keeps the low 32 "
    "bits",
    severity="warning",
    on_values=True,
)
INTEGER_RANGE = declare(
    "D019",
    "integer-range",
    "A float outside the range of the integer destination, or NaN, is converted.",
    "the device rounds to nearest even and saturates; NumPy truncates and wraps",
    severity="warning",
    on_values=True,
)
FLOAT_OVERFLOW = declare(
    "D020",
    "float-overflow",
    "A finite value is beyond the largest finite number of the destination.",
    "it becomes infinity or NaN where some libraries saturate",
    severity="warning",
    on_values=True,
)
SCALAR_DTYPE = declare(
    "D053",
    "scalar-dtype",
    "scalar_load has a tile of another dtype than int32 and int64, scalar_store one of another "
    "width than the scalar, a register one of an x4 pack, or a compute instruction one of int64.",
    "scalars have 32 or 64 bits and a sign; the engines have no 64-bit arithmetic",
    meaningless=True,
)
