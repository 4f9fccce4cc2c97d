"""Rules about collectives and replica groups."""

from __future__ import annotations

from nkisim.diagnostics import Rule, declare


def _declare(id: str, slug: str, checks: str, matters: str, *, on_values: bool = False) -> Rule:
    return declare(id, slug, checks, matters, meaningless=True, on_values=on_values)


REMOVED_CHANNELS = _declare(
    "A011",
    "removed-num-channels",
    "The processing-rank query is called with num_channels.",
    "0.3.0 gives channel_ids to collective_permute_implicit instead",
)
MIXED_MEMORY = _declare(
    "C016",
    "collective-memory",
    "A collective mixes HBM and SBUF tensors, or uses PSUM.",
    "all tensors of a collective live in one kind of memory",
)
COALESCED = _declare(
    "C017",
    "collective-coalesced",
    "A collective has several tensors outside HBM, or lists of different length.",
    "only HBM tensors can be coalesced, one source for each destination",
)
DIMENSION = _declare(
    "C018",
    "collective-dimension",
    "collective_dim is not one that the collective supports.",
    "tensors are split and joined along dimension 0; SBUF all_gather also along 1",
)
EXTENT = _declare(
    "C019",
    "collective-extent",
    "The extents of source and destination do not fit the size of the group.",
    "a gather multiplies the extent by the group size, a scatter divides it",
)
SAME_SHAPE = _declare(
    "C020",
    "collective-shape",
    "Source and destination of a collective differ in shape or dtype.",
    "the collective moves or reduces elements in place",
)
OPERATOR = _declare(
    "C021",
    "collective-operator",
    "A collective reduces with an operator it does not have.",
    "collectives reduce with add, minimum and maximum",
)
GROUP = _declare(
    "C022",
    "replica-group",
    "A replica group is malformed: a repeated rank, unequal sizes, or a rank that does not exist.",
    "the ranks wait for partners that do not come",
)
MISMATCH = _declare(
    "C023",
    "collective-mismatch",
    "The ranks of a group issue different collectives, or with different sizes.",
    "the ranks wait for each other, or exchange the wrong bytes",
)
MISSING_RANK = _declare(
    "C024",
    "collective-missing-rank",
    "A rank waits in a collective that another rank of its group never enters.",
    "the device hangs",
)
PERMUTE = _declare(
    "C025",
    "collective-permute",
    "collective_permute has several tensors, SBUF tensors, or pairs that repeat a source or "
    "target.",
    "each rank sends once and receives once, from HBM",
)
CHANNELS = _declare(
    "C026",
    "collective-channels",
    "collective_permute_implicit has channels that are not 0 to n-1, too many, or unequal lists.",
    "there are at most 4 channels with one tensor each",
)
ITERATION = _declare(
    "C027",
    "ring-iteration",
    "The iteration of a ring lies outside the group.",
    "the wrong slice is processed",
)
ALL_TO_ALL = _declare(
    "C028",
    "all-to-all-memory",
    "all_to_all runs on SBUF tensors or along another dimension than 0.",
    "it redistributes HBM tensors along dimension 0",
)
ALL_TO_ALL_V = _declare(
    "C029",
    "all-to-all-v",
    "all_to_all_v or all_gather_v has several tensors, metadata of the wrong kind, or counts that "
    "do not fit.",
    "elements land outside the buffers or are not received",
    on_values=True,
)
RECEIVED_PLACES = declare(
    "C030",
    "received-places",
    "all_to_all_v relies on has_rdispls on a target whose chips are connected by switches.",
    "a known issue: the places are ignored there, and runs lie one behind the other",
    severity="warning",
)
VARYING_LIMIT = declare(
    "C037",
    "varying-limit",
    "all_to_all_v or all_gather_v runs with a group, a grid or an option that it does not support.",
    "the runtime refuses the collective",
)
SPLIT = _declare(
    "C038",
    "split-collective",
    "The prepare and the trigger of a collective are not paired one to one, or another prepare "
    "comes in between.",
    "there is one slot: a prepared collective is lost, or a trigger finds none",
)
REGION = declare(
    "C039",
    "collective-region",
    "A list of all_reduce or all_gather mixes private and shared HBM, or a kernel on one core has "
    "a collective of shared HBM, or of SBUF where LNC is 2.",
    "at LNC 1 sources are private, and destinations are shared only with NKI_LNC1_SHARED_HBM=1; at "
    "LNC 2 the compiler finds no operand on the other core (NCC_ILLC059)",
)
IO_TENSOR = declare(
    "C043",
    "collective-io",
    "A collective reads or writes an argument or an output of the kernel.",
    "the compiler refuses it (NCC_INLA001, checkCollective)",
)
UNNAMED = declare(
    "C044",
    "collective-unnamed",
    "A tensor in HBM that a collective reads or writes was made without a name.",
    "users saw its allocation fail (NCC_IBIR440); other kernels without names ran",
    severity="warning",
)
VARYING_SIZE = declare(
    "C045",
    "all-to-all-v-size",
    "Without has_rdispls the destination of all_to_all_v is not as large as the sources of all "
    "ranks.",
    "users saw the runtime refuse to load the kernel",
    severity="warning",
)
PLACED_IN_NODE = declare(
    "C046",
    "places-in-node",
    "all_to_all_v has has_rdispls=True on a target where its groups must span nodes.",
    "documented for groups of several nodes only; nkisim does not know the nodes of the ranks",
    severity="warning",
)
PARTIAL_OVERLAP = _declare(
    "C032",
    "collective-overlap",
    "Source and destination of a collective overlap in part.",
    "later reads see earlier writes",
)
