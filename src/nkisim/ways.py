"""Functions of torch and NumPy that take several instructions, or a decision, as code and words.

In the code ``x`` and ``y`` are tiles of p partitions and n columns, ``dst`` is the tile of the
result, ``index`` a tile of indices, and ``table`` a tensor in HBM. Other names are tiles that the
code writes, or numbers.
"""

from __future__ import annotations

from typing import NamedTuple


class Way(NamedTuple):
    """What replaces a function that NKI does not have.

    Attributes:
        code: Statements; empty where the words are enough.
        note: What they compute, and what is left to decide.
    """

    code: str
    note: str

    @property
    def text(self) -> str:
        """The code and the note in one line."""
        code = "; ".join(self.code.splitlines())
        return f"use {code}: {self.note}" if code else self.note


_LARGEST = "nisa.max8(dst=values, src=x)\nnisa.nc_find_index8(dst=positions, data=x, vals=values)"
_ROWS = "table.ap([[n, p], [1, n]], vector_offset=index)"
_COLUMNS = "nisa.iota(dst=columns, pattern=[[1, n]])\n"
_POWERS = (
    "nisa.tensor_reduce(dst=low, op=nl.maximum, data=x, axis=1, negate=True)\n"
    "nisa.activation_reduce(dst=powers, op=nl.exp, data=x, bias=low, reduce_op=nl.add, "
    "reduce_res=total)\n"
)
_TRIANGLE = (
    "nisa.affine_select(dst=dst, pattern=[[{}, n]], channel_multiplier={}, on_true_tile=x, "
    "on_false_value=0.0, cmp_op=nl.{})"
)
_REMAINDER = (
    "multiply by nl.reciprocal(b), take nl.floor (nl.trunc for the sign of a), multiply by b and "
    "subtract, because no engine has nl.{}; decide whether a quotient may be off by one"
)
_WIDE = "use nl.{}: there are no 64-bit types; decide whether its range and precision are enough"

_WORDS = {
    Way(
        _LARGEST,
        "the eight largest of each row and their positions; nisa.nc_match_replace8 removes them "
        "for the next eight; decide how many",
    ): "topk top_k",
    Way(
        _LARGEST,
        "column 0 of both is the maximum and its first position; for the minimum negate x; decide "
        "what equal values give",
    ): "argmax argmin arg_max arg_min",
    Way(
        "for i in range(0, n, 8): nisa.max8(dst=values[:, i : i + 8], src=x); "
        "nisa.nc_match_replace8(dst=x, data=x, vals=values[:, i : i + 8], imm=-3e38)",
        "each row in descending order, where n is a multiple of 8; x is overwritten, and dst_idx= "
        "receives the positions; decide how many are needed",
    ): "sort argsort msort kthvalue median quantile",
    Way(
        "nisa.nc_n_gather(dst=dst, data=x, indices=index)",
        "dst[i, j] = x[i, index[i, j]] with uint32 indices; decide whether rows of a tensor in HBM "
        "are meant, which nisa.dma_copy gathers from table.ap(..., vector_offset=index)",
    ): "gather take_along_dim take_along_axis gather_elements",
    Way(
        f"nisa.dma_copy(dst=dst, src={_ROWS})",
        "row i of dst is row index[i, 0] of a tensor with n columns in HBM; at most 128 rows at a "
        "time; decide what an index out of bounds does (oob_mode)",
    ): "index_select embedding take embedding_lookup lookup gather_rows",
    Way(
        f"nisa.dma_copy(dst={_ROWS}, src=x)",
        "row i of x goes to row index[i, 0] of a tensor with n columns in HBM; decide that no "
        "index occurs twice",
    ): "scatter index_copy index_put put_along_axis scatter_rows",
    Way(
        f"rows = {_ROWS}\nnisa.dma_compute(dst=rows, srcs=[rows, x], reduce_op=nl.add)",
        "row i of x is added to row index[i, 0] of a tensor with n columns in HBM; decide if "
        "indices repeat, which takes one call for each occurrence",
    ): "scatter_add index_add scatter_reduce atomicadd atomic_add",
    Way(
        "nisa.memset(dst=dst, value=0.0)\nnisa.tensor_copy(dst=dst[:, k : k + n], src=x)",
        "k columns of zeros before x and the rest of dst after it; decide whether slicing the last "
        "tile, dst[:, 0:n], makes the padding unnecessary",
    ): "pad constant_pad zero_pad",
    Way(
        f"{_COLUMNS}nisa.tensor_scalar(dst=dst, data=columns, op0=nl.equal, operand0=index)",
        "row i has a 1 in column index[i, 0], which is float32, of n columns; decide whether a "
        "gather of rows replaces the product with it",
    ): "one_hot onehot",
    Way(
        "nisa.iota(dst=dst, pattern=[[step, n]], offset=start)",
        "start + j * step in column j of each row; channel_multiplier= adds a step for each row; "
        "decide the dtype of dst",
    ): "arange linspace",
    Way(
        "nisa.iota(dst=dst, pattern=[[1, n]], channel_multiplier=-1)\n"
        "nisa.tensor_scalar(dst=dst, data=dst, op0=nl.equal, operand0=0.0)",
        "1 where the column is the row, else 0; decide whether nisa.nc_transpose or a copy of the "
        "diagonal does without it",
    ): "eye identity",
    Way(
        _TRIANGLE.format(-1, 1, "greater_equal"),
        "zero above the diagonal of x; offset= moves it; decide the fill value, which for scores "
        "of attention is a large negative number",
    ): "tril causal_mask lower_triangle",
    Way(
        _TRIANGLE.format(1, -1, "greater_equal"),
        "zero below the diagonal of x; offset= moves it; decide the fill value",
    ): "triu upper_triangle",
    Way(
        _TRIANGLE.format(1, -1, "equal")
        + "\nnisa.tensor_reduce(dst=total, op=nl.add, data=dst, axis=1)",
        "the diagonal of x as a column of p rows; decide whether its sum is meant, which is "
        "nisa.tensor_partition_reduce of that column",
    ): "diag diagonal trace",
    Way(
        "nisa.nonzero_with_count(dst=positions, src=x)",
        "positions of nonzero elements of every 16th row, padding, and their count, on gen3 and "
        "later; decide how many there can be",
    ): "nonzero masked_select argwhere flatnonzero compress",
    Way(
        _POWERS + "nisa.reciprocal(dst=total, data=total)\n"
        "nisa.tensor_scalar(dst=dst, data=powers, op0=nl.multiply, operand0=total)",
        "softmax of each row; decide whether the products that follow can take the powers, so "
        "that only their result is divided by the total",
    ): "softmax",
    Way(
        _POWERS + "nisa.activation(dst=total, op=nl.log, data=total)\n"
        "nisa.tensor_tensor(dst=total, data1=total, data2=low, op=nl.subtract)",
        "logarithm of the sum of the powers of each row, as a column; decide whether x minus it, "
        "the logarithm of the softmax, is meant",
    ): "logsumexp log_softmax log_sum_exp",
    Way(
        "nisa.bn_stats(dst=stats, data=x)\nnisa.bn_aggr(dst=moments, data=stats)\n"
        "nisa.activation(dst=scale, op=nl.rsqrt, data=moments[:, 1:2], bias=epsilon)\n"
        "nisa.tensor_scalar(dst=dst, data=x, op0=nl.subtract, operand0=moments[:, 0:1], "
        "op1=nl.multiply, operand1=scale)",
        "each row minus its mean, over its deviation; weight and bias of the columns follow with "
        "nisa.tensor_tensor; decide epsilon, a (p, 1) tile, and which index lies on the partitions",
    ): "layer_norm layernorm batch_norm batchnorm group_norm instance_norm",
    Way(
        "nisa.activation_reduce(dst=squares, op=nl.square, data=x, reduce_op=nl.add, "
        "reduce_res=total)\n"
        "nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1.0 / n, bias=epsilon)\n"
        "nisa.tensor_scalar(dst=dst, data=x, op0=nl.multiply, operand0=scale)",
        "each row over the root of its mean square; decide epsilon, a (p, 1) tile",
    ): "rms_norm rmsnorm",
    Way(
        "nisa.tensor_copy(dst=dst[:, 0:n], src=x)\nnisa.tensor_copy(dst=dst[:, n : 2 * n], src=y)",
        "the columns of x, then those of y; parts from HBM go into their slices by nisa.dma_copy "
        "without a copy; decide along which axis",
    ): "concat concatenate cat stack hstack vstack",
    Way(
        "y = x[:, 0:k]",
        "a slice of the tile, without a copy; decide the extents",
    ): "split chunk hsplit narrow unbind tensor_split",
    Way(
        "nisa.tensor_copy(dst=dst, src=x.ap([[n, p], [-1, n]], offset=n - 1))",
        "the columns of x in reverse; decide whether a later instruction can read x.ap(...) "
        "instead of the copy",
    ): "flip fliplr reverse",
    Way(
        "nisa.tensor_copy(dst=dst[:, k:n], src=x[:, 0 : n - k])\n"
        "nisa.tensor_copy(dst=dst[:, 0:k], src=x[:, n - k : n])",
        "the columns of x moved by k to the right, around the end; decide whether two reads of x "
        "do without the copies",
    ): "roll",
    Way(
        "nisa.tensor_copy(dst=dst, src=x.ap([[n, p], [1, n], [0, k]]))",
        "each element k times, in dst of shape (p, n, k); decide whether an instruction can read "
        "x.ap(...) itself",
    ): "repeat_interleave upsample interpolate",
    Way(
        "nisa.tensor_copy(dst=dst, src=x.ap([[n, p], [0, k], [1, n]]))",
        "the row k times, in dst of shape (p, k, n); decide whether each element is meant, which "
        "is x.ap([[n, p], [1, n], [0, k]])",
    ): "tile repeat",
    Way(
        "y = x.reshape((p, n // k, k))",
        "the same elements, without a copy; partitions stay; decide whether the partitions change, "
        "which takes nisa.nc_transpose or a transfer",
    ): "reshape view flatten ravel squeeze",
    Way(
        "nisa.tensor_copy(dst=dst, src=x)",
        "a copy in the dtype of dst; decide whether the instruction that makes x can write that "
        "dtype itself",
    ): "astype cast convert to type_as",
    Way(
        "nisa.tensor_tensor(dst=dst, data1=x[:, 1:n], data2=x[:, 0 : n - 1], op=nl.subtract)",
        "the difference of neighbouring columns; decide what the first one is",
    ): "diff ediff1d",
    Way(
        "nisa.tensor_reduce(dst=dst, op=nl.maximum, data=x.reshape((p, n // k, k)), axis=2)",
        "the maximum of every k columns; for the mean nl.add, then a product with 1 / k; decide "
        "window and stride: overlapping windows are x.ap(...)",
    ): "max_pool1d avg_pool1d max_pool2d avg_pool2d maxpool avgpool",
    Way(
        "nisa.tensor_scalar(dst=hits, data=y, op0=nl.less, operand0=x[:, 0:1])\n"
        "nisa.tensor_reduce(dst=dst, op=nl.add, data=hits, axis=1)",
        "the number of elements of row i of y that are less than x[i, 0]: its position, where y is "
        "in ascending order; decide what equal values give",
    ): "searchsorted bucketize digitize",
    Way(
        "nisa.iota(dst=bins, pattern=[[1, 1]], channel_multiplier=1)\n"
        "nisa.tensor_scalar(dst=hits, data=x, op0=nl.equal, operand0=bins)\n"
        "nisa.tensor_reduce(dst=dst, op=nl.add, data=hits, axis=1)",
        "how often the number i occurs in row i of x, where each row has all numbers; bins is a "
        "float32 (p, 1) tile; decide how many bins",
    ): "bincount histogram histc",
    Way(
        "nisa.nc_matmul(dst=dst, stationary=x[0:1, 0:128], moving=y[0:1, :])",
        "the product of each element of one row with each of the other, in PSUM; decide the block: "
        "at most 128 by 512",
    ): "outer ger",
    Way(
        "nisa.nc_matmul(dst=product, stationary=x, moving=y)\n"
        "nisa.tensor_tensor(dst=dst, data1=product, data2=bias, op=nl.add)",
        "x transposed times y, plus a tile; product is a float32 tile in PSUM; decide how the "
        "operands get the contracted index on their partitions",
    ): "linear addmm dense fully_connected",
    Way(
        "dst = nl.floor(nl.multiply(nl.rand((p, n), nl.float32), 10.0))",
        "uniform integers from 0 to 9; decide the bound, and the seed by nl.random_seed",
    ): "randint random_integers",
    Way(
        "dst = nl.less(nl.rand((p, n), nl.float32), 0.25)",
        "1 with probability 0.25, else 0; decide the probability, and the seed by nl.random_seed",
    ): "bernoulli random_mask",
    Way("", _REMAINDER.format("mod")): "mod remainder modulo",
    Way("", _REMAINDER.format("fmod")): "fmod",
    Way("", _WIDE.format("float32")): "float64 double fp64 f64 complex64 complex128",
    Way("", _WIDE.format("int32")): "long i64 uint64 u64",
    Way(
        "", "draw it on the host: nl.rand is uniform; decide mean and deviation"
    ): "randn random_normal normal",
    Way(
        "", "remove it: instructions wait for their operands; two cores meet at nisa.core_barrier"
    ): "syncthreads barrier synchronize sync wait fence",
    Way(
        "",
        "use nisa.nc_matmul for each contraction; decide which index lies on the partitions",
    ): "einsum tensordot conv conv1d conv2d attention scaled_dot_product_attention",
}
WAYS = {name: way for way, names in _WORDS.items() for name in names.split()}
"""By the name of a function, what replaces it."""

UNDECIDED = {name: way.text for name, way in WAYS.items()}
"""Names with no certain call, and what to do and to decide."""
