"""What is declared of each instruction beside its meaning: where it runs, since when, at what cost.

The generations and engines are those of the instruction reference. Costs are its "estimated
instruction cost", in cycles for N elements per partition, and the same law where it names none.
"""

import nkisim.isa  # noqa: F401 (declares the instructions)
from each_case import each_case
from nkisim.spec import INSTRUCTIONS

# Cycles per element and beside them. At least 64 on the engines that stream, 150 more on GpSimd.
STREAMED = {
    "activate2": ("data", 1, 0),
    "activation": ("data", 1, 0),
    "activation_reduce": ("data", 1, 64),
    "exponential": ("src", 1 / 4, 0),
    "tensor_tensor": ("dst", 2, 0),
    "tensor_scalar": ("data", 1, 0),
    "scalar_tensor_tensor": ("data", 2, 0),
    "tensor_copy": ("src", 1, 0),
    "reciprocal": ("data", 8, 0),
    "memset": ("dst", 1, 0),
    "nc_stream_shuffle": ("src", 1, 0),
    "nc_transpose": ("data", 1, 0),
    "quantize_mx": ("src", 1 / 4, 0),
    "bn_stats": ("data", 1, 0),
    "bn_aggr": ("data", 13 / 3, 0),
    "tensor_reduce": ("data", 1, 0),
    "tensor_scalar_reduce": ("data", 1, 64),
    "rng": ("dst", 1, 0),
    "rand2": ("dst", 1 / 4, 0),
    "dropout": ("data", 1, 0),
    "tensor_tensor_scan": ("data0", 2, 0),
    "tensor_scalar_cumulative": ("src", 1, 0),
    "max8": ("src", 1, 0),
    "nc_find_index8": ("data", 1, 0),
    "nc_match_replace8": ("data", 1, 0),
    "tensor_copy_predicated": ("dst", 2, 0),
    "select_reduce": ("dst", 2, 0),
    "range_select": ("dst", 1, 0),
}
ON_GPSIMD = {
    "iota": ("dst", 1, 0),
    "nc_n_gather": ("dst", 4, 0),
    "nonzero_with_count": ("src", 4, 0),
    "sequence_bounds": ("segment_ids", 8, 0),
    "tensor_partition_reduce": ("data", 16, 0),
    "affine_select": ("dst", 1, 0),
}
RUNS = {"local_gather": "dst"}
SEARCHED = {"topk": ("n", 4, "val_dst")}
MOVED = {"dma_copy": "src", "dma_transpose": "src", "dma_compute": "dst", "sendrecv": "src"}
WITHOUT_ELEMENTS = ("core_barrier", "rand_get_state", "rand_set_state", "set_rng_seed")
MATRICES = ("nc_matmul", "nc_matmul_mx")

SINCE = {
    "activate2": 4,
    "exponential": 4,
    "quantize_mx": 4,
    "nc_matmul_mx": 4,
    "rand2": 4,
    "nonzero_with_count": 3,
    "rand_get_state": 3,
    "rand_set_state": 3,
    "range_select": 3,
    "core_barrier": 3,
    "sendrecv": 3,
}

# The first is where an instruction runs unless the call says otherwise.
ENGINES = {
    "activate2": "scalar",
    "topk": "gpsimd",
    "activation": "scalar",
    "activation_reduce": "scalar",
    "exponential": "vector",
    "tensor_tensor": "vector gpsimd",
    "tensor_scalar": "vector scalar gpsimd",
    "scalar_tensor_tensor": "vector",
    "tensor_copy": "vector scalar gpsimd",
    "reciprocal": "vector",
    "dma_copy": "dma",
    "dma_transpose": "dma",
    "dma_compute": "dma",
    "sendrecv": "dma",
    "memset": "vector gpsimd",
    "iota": "gpsimd",
    "nc_n_gather": "gpsimd",
    "local_gather": "gpsimd",
    "nc_stream_shuffle": "vector",
    "nonzero_with_count": "gpsimd",
    "sequence_bounds": "gpsimd",
    "nc_transpose": "tensor vector",
    "nc_matmul": "tensor",
    "nc_matmul_mx": "tensor",
    "quantize_mx": "vector",
    "bn_stats": "vector",
    "bn_aggr": "vector",
    "tensor_reduce": "vector",
    "tensor_partition_reduce": "gpsimd",
    "tensor_scalar_reduce": "vector",
    "rng": "vector gpsimd",
    "rand2": "vector",
    "dropout": "vector",
    "set_rng_seed": "vector",
    "rand_set_state": "gpsimd vector",
    "rand_get_state": "gpsimd vector",
    "tensor_tensor_scan": "vector",
    "tensor_scalar_cumulative": "vector",
    "max8": "vector",
    "nc_find_index8": "vector",
    "nc_match_replace8": "vector",
    "tensor_copy_predicated": "vector",
    "select_reduce": "vector",
    "range_select": "vector",
    "affine_select": "gpsimd",
    "core_barrier": "gpsimd vector scalar tensor sync",
}

each = each_case("name", sorted(INSTRUCTIONS))


def test_all_are_listed():
    assert set(ENGINES) == set(INSTRUCTIONS)
    costed = [*STREAMED, *ON_GPSIMD, *RUNS, *SEARCHED, *MOVED, *WITHOUT_ELEMENTS, *MATRICES]
    assert sorted(costed) == sorted(INSTRUCTIONS)


@each
def test_where_it_runs_and_since_when(name):
    declared = INSTRUCTIONS[name]
    assert [engine.name for engine in declared.engines] == ENGINES[name].split()
    assert declared.since == SINCE.get(name, 2)


@each
def test_what_it_costs(name):
    cost = INSTRUCTIONS[name].cost
    if name in STREAMED or name in ON_GPSIMD:
        formula = "stream" if name in STREAMED else "startup_stream"
        over, factor, extra = {**STREAMED, **ON_GPSIMD}[name]
        assert (cost.formula, cost.over, cost.factor, cost.extra) == (formula, over, factor, extra)
    elif name in SEARCHED:
        found = cost.formula, cost.over, cost.factor, cost.result
        assert found == ("search", *SEARCHED[name])
    elif name in RUNS:
        assert (cost.formula, cost.over) == ("runs", RUNS[name])
    elif name in MOVED:
        assert (cost.formula, cost.over) == ("transfer", MOVED[name])
    else:
        assert cost.formula == ("matmul" if name in MATRICES else "fixed")
