"""Rules about the allocation of tensors and their views."""

from nkisim.diagnostics import declare

# -- allocation ------------------------------------------------------------------------------------

PARTITION_LIMIT = declare(
    "S001",
    "too-many-partitions",
    "An on-chip tensor has more rows than the memory has partitions.",
    "SBUF and PSUM have 128 partitions; the front end refuses the tensor",
    meaningless=True,
)
ON_CHIP_RANK = declare(
    "S002",
    "on-chip-rank",
    "An on-chip tensor has fewer than two dimensions.",
    "on chip the first dimension is the partition dimension and at least one free dimension "
    "follows",
    meaningless=True,
)
EMPTY_DIMENSION = declare(
    "S003",
    "empty-dimension",
    "A tensor has a dimension of extent 0.",
    "the front end refuses empty tensors; they often come from an empty last tile",
)
RANK_LIMIT = declare(
    "S065",
    "rank-limit",
    "A tensor has more than five dimensions.",
    "an access has the partition dimension and at most four free dimensions",
)
TILE_TOO_LARGE = declare(
    "M009",
    "tile-larger-than-memory",
    "A single tile needs more bytes per partition than a kernel may use.",
    "the allocator cannot place the tile",
)
ADDRESS_OUTSIDE = declare(
    "M014",
    "address-outside-memory",
    "An explicit address, or the end of the tensor placed there, lies outside the memory.",
    "there are no such bytes on this generation",
    meaningless=True,
)
ADDRESS_MISALIGNED = declare(
    "M015",
    "address-misaligned",
    "An explicit address breaks the alignment rules.",
    "compute engines start at partitions 0, 32, 64 or 96 and at whole elements (4 bytes in PSUM)",
)
SBUF_OVERFLOW = declare(
    "M008",
    "sbuf-overflow",
    "Tiles that are live at the same time need more SBUF than there is.",
    "the allocator moves tiles to HBM and back; it fails where they have addresses or belong to "
    "one instruction",
    severity="warning",
)
ADDRESSES_MIXED = declare(
    "M016",
    "addresses-mixed",
    "Explicitly placed and automatically placed tensors share one memory.",
    "the allocator may not see the reserved range and place another tile on it",
    severity="warning",
)
DUPLICATE_NAME = declare(
    "M033",
    "duplicate-name",
    "Two tensors of a kernel have the same name.",
    "the front end needs names to be unique",
)
SHARED_MISMATCH = declare(
    "C004",
    "shared-mismatch",
    "A shared_hbm tensor has another shape, dtype or name on the other core.",
    "the cores would disagree about one piece of memory",
    meaningless=True,
)
BUFFER_STRING = declare(
    "A014",
    "buffer-as-string",
    "A buffer is given as a string.",
    "0.3.0 takes buffer objects only",
    meaningless=True,
)
UNSUPPORTED_DTYPE = declare(
    "D001",
    "unsupported-dtype",
    "A tensor has a type that NKI does not support.",
    "the front end refuses 64-bit, complex and other host types; some frameworks narrow them "
    "silently",
    meaningless=True,
)
FOREIGN_DTYPE = declare(
    "D045",
    "foreign-dtype",
    "A dtype argument is a NumPy or torch dtype.",
    "the compiler accepts only the dtypes of nki.language",
)
FRACTIONAL_EXTENT = declare(
    "L019",
    "fractional-extent",
    "A shape entry or a loop bound is not an integer.",
    "the compiler has no rounding for it; usually `/` was written for `//`",
)

REGISTER_EXTENT = declare(
    "L068",
    "register-extent",
    "A shape entry is a register or the index of a dynamic loop.",
    "tiles are allocated when the kernel is compiled, registers have values only when it runs",
)

# -- indexing --------------------------------------------------------------------------------------

INDEX_OUT_OF_BOUNDS = declare(
    "S009",
    "index-out-of-bounds",
    "An index or a slice end lies beyond the extent.",
    "slices are not clipped as in Python; the front end refuses the access",
    meaningless=True,
)
NEGATIVE_INDEX = declare(
    "S010",
    "negative-index",
    "A tensor is indexed with a negative integer.",
    "the front end refuses it before 0.6.0; negative slice bounds are accepted",
)
SLICE_STEP = declare(
    "S011",
    "slice-step",
    "A slice has a step below 1.",
    "access patterns made by slicing only go forward",
    meaningless=True,
)
INDEX_KIND = declare(
    "S012",
    "index-kind",
    "A tensor is indexed with too many indices, several ellipses, or a list, mask or tensor.",
    "only integers, slices, nl.ds and one ellipsis describe an access pattern",
    meaningless=True,
)
NONE_INDEX = declare(
    "S013",
    "none-index",
    "None is used in an index.",
    "the front end reads None as a full slice, not as a new axis",
    severity="warning",
)
EMPTY_SLICE = declare(
    "S014",
    "empty-slice",
    "A slice selects nothing.",
    "the front end refuses empty accesses",
    whole_call=True,
)
PARTITION_DROPPED = declare(
    "S015",
    "partition-dropped",
    "An integer index removes the partition dimension of an on-chip tensor.",
    "the first dimension of the result is then really a free dimension of one partition; from "
    "0.5.0 on the partition dimension stays, with extent 1",
    severity="warning",
)
SCALAR_WIDTH = declare(
    "L072",
    "scalar-width",
    "A 64-bit NkiScalar is a bound of nl.fori_loop, or the offset of a tensor on chip.",
    "loop counters and on-chip addresses have 32 bits; the value is not narrowed",
    meaningless=True,
)
SUBSCRIPT_ASSIGNMENT = declare(
    "L028",
    "subscript-assignment",
    "A value is assigned to a subscript of a tensor.",
    "the compiler has no such statement",
)
TENSOR_TRUTH = declare(
    "L030",
    "tensor-truth",
    "A tensor is used as a truth value.",
    "contents are unknown at compile time; the front end takes every tensor as true",
)

# -- reshape, view, ap -----------------------------------------------------------------------------

RESHAPE_OF_SLICE = declare(
    "S016",
    "reshape-of-slice",
    "A sliced tensor or an access pattern is reshaped.",
    "before 0.5.0 only whole tensors can be reshaped",
)
RESHAPE_COUNT = declare(
    "S017",
    "reshape-count",
    "A reshape changes the number of elements, leaves an extent to be inferred, or needs a copy.",
    "the new shape must hold exactly the same elements, where they lie",
    meaningless=True,
)
RESHAPE_PARTITIONS = declare(
    "S018",
    "reshape-partitions",
    "A view of an on-chip tensor changes its partition dimension, or a view of rows that an index "
    "tile selects changes these rows.",
    "a view cannot move data across partitions",
    meaningless=True,
)
VIEW_SIZE = declare(
    "S019",
    "view-size",
    "view(dtype) does not fit the bytes of the last dimension.",
    "the bytes of one row must be contiguous, aligned and divisible by the new element size",
    meaningless=True,
)
NESTED_PATTERN = declare(
    "S020",
    "nested-pattern",
    "ap() is called on an indexed tensor or on another access pattern, or a view with a dynamic "
    "offset is indexed along it or given another type.",
    "before 0.5.0 access patterns are built on whole tensors only; the dimension of a dynamic "
    "offset stays in all versions",
)
PATTERN_OUT_OF_BOUNDS = declare(
    "S021",
    "pattern-out-of-bounds",
    "An access pattern reaches outside its tensor.",
    "the device reads or overwrites a neighbour's bytes",
    meaningless=True,
)
PARTITION_STEP = declare(
    "S022",
    "partition-step",
    "The first entry of an on-chip access pattern does not step by one partition.",
    "hardware has no partition stride: the step must be the number of elements per partition",
    meaningless=True,
)
PATTERN_DTYPE = declare(
    "S027",
    "pattern-dtype",
    "ap(dtype=...) keeps counts and steps of the old element size.",
    "pattern and offset count elements of the new dtype",
    meaningless=True,
)
PATTERN_FIELDS = declare(
    "S023",
    "pattern-fields",
    "An access pattern does not fit the instruction's fields.",
    "an operand has at most four free dimensions, counts up to 65535 and strides within int16",
    whole_call=True,
)
TWO_OFFSETS = declare(
    "S024",
    "two-offsets",
    "scalar_offset and vector_offset are both given.",
    "an access has one dynamic offset",
    meaningless=True,
)
OFFSET_KIND = declare(
    "S025",
    "offset-kind",
    "A dynamic offset is not of the kind the hardware reads.",
    "scalar offsets come from a register or a 1x1 SBUF tile, vector offsets from a (P, 1) "
    "integer SBUF tile "
    "and index an HBM tensor along dimension 0",
    meaningless=True,
)
OFFSET_OUT_OF_BOUNDS = declare(
    "M036",
    "offset-out-of-bounds",
    "A data-dependent index is out of bounds with oob_mode.error.",
    "the device aborts the execution",
    meaningless=True,
    on_values=True,
)
SKIPPED_UNWRITTEN = declare(
    "M037",
    "skipped-unwritten",
    "oob_mode.skip leaves destination rows unwritten.",
    "skipped rows keep the old contents of the memory",
    severity="warning",
    on_values=True,
    silent=True,
)

# -- reads of unwritten memory --------------------------------------------------------------------

UNWRITTEN_SBUF = declare(
    "M001",
    "unwritten-sbuf",
    "An instruction reads SBUF that was not written; a warning until a result computed from it "
    "is used.",
    "the device reads whatever was left there",
    silent=True,
)
UNWRITTEN_PSUM = declare(
    "M002",
    "unwritten-psum",
    "An instruction reads PSUM that was not written; a warning until a result computed from it "
    "is used.",
    "the device reads whatever was left there",
    silent=True,
)
UNWRITTEN_HBM = declare(
    "M005",
    "unwritten-hbm",
    "An instruction reads an HBM tensor of the kernel before it is written; a warning until a "
    "result computed from it is used.",
    "the device reads whatever was left there",
    silent=True,
)
