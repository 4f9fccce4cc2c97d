"""Attention without the score matrix: softmax(scale q k) v with running maxima and sums.

Layout   128 queries on partitions; their scores against a section of 2048 keys fill half of PSUM;
         the maximum is computed there and the exponentials are written to SBUF
Reuse    keys and values of a head stay in SBUF while they fit; else sections are streamed, each
         once for 2048 queries, and a section with a larger maximum of a query rescales the sums of
         the sections before it
Engines  Tensor for both products and for transposing the weights, since the second product
         contracts over keys; Scalar for scale, exponential and its sum in one pass; Vector for the
         rest
Limits   d from 2 to 128, a positive scale, float32 or a type of two bytes; any number of queries
         and keys, tails are sliced

With a causal mask, keys right of the diagonal are skipped by blocks of 128. A triangle of very
negative numbers is added to the scores of the block on the diagonal.
"""

import math

import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

TILE = 128  # partitions: queries of a tile, keys of a block
BANK = 512  # float32 columns of a PSUM bank, in which the result of a matmul must lie
SECTION = 4 * BANK  # keys; the other four banks are for transposed weights and their product
GROUP = SECTION  # queries that share a pass over streamed keys; SECTION is a multiple of it
# Bytes per partition of a head's resident keys and values. Of gen2's 176 KiB, those of the next
# head take as many while they are loaded; the rest is for queries, weights and sums.
RESIDENT = 64 * 1024
MASKED = -3.0e38


@nki.jit
def attention_forward(q_t, k_t, v, scale, causal):
    """Return the attention of every head.

    Args:
        q_t: Queries, (heads, d, queries), with d from 2 to 128.
        k_t: Keys, (heads, d, keys).
        v: Values, (heads, keys, d).
        scale: Positive factor of the scores, usually ``1 / sqrt(d)``.
        causal: Whether query i attends only to keys up to i.

    Returns:
        (heads, queries, d).
    """
    heads, d, queries = q_t.shape
    # With a mask, no query attends to keys beyond the last query's own.
    keys = min(k_t.shape[2], queries) if causal else k_t.shape[2]
    assert d <= TILE, "the head dimension is on partitions, of which there are 128"
    assert scale > 0, "maxima are taken before the scores are scaled"
    out = nl.ndarray((heads, queries, d), dtype=v.dtype, buffer=nl.shared_hbm)
    triangle = causal_triangle() if causal else None
    row_bytes = keys * size_of(k_t) + math.ceil(keys / TILE) * d * size_of(v)
    resident = row_bytes <= RESIDENT
    for h in range(heads):
        sections = []
        if resident:
            for j in range(0, keys, SECTION):
                sections.append(load_section(k_t, v, h, j, min(j + SECTION, keys)))
        for g in range(0, queries, GROUP):
            group = min(GROUP, queries - g)
            q_group = nl.ndarray((d, group), dtype=q_t.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=q_group, src=q_t[h, 0:d, g : g + group])
            states = []  # maxima, total weight and weighted values of each tile
            # With a mask, every tile of the group attends to part of each of these sections only.
            for j in range(0, min(keys, g + group) if causal else keys, SECTION):
                if resident:
                    k_tile, v_tile = sections[j // SECTION]
                else:
                    k_tile, v_tile = load_section(k_t, v, h, j, min(j + SECTION, keys))
                for i in range(g, g + group, TILE):
                    seen = min(keys, i + TILE) if causal else keys
                    last = seen <= j + SECTION
                    q_tile = q_group[0:d, i - g : min(i - g + TILE, group)]
                    scores = section_scores(q_tile, k_tile, min(SECTION, seen - j))
                    if causal and last and i < keys:
                        add_triangle(scores, i - j, triangle)
                    if j == 0:
                        states.append(None)
                    t = (i - g) // TILE
                    states[t] = add_section(states[t], scores, v_tile, scale, last)
                    if last:
                        store_result(out[h, i : min(i + TILE, queries), 0:d], states[t])
    return out


def size_of(tensor):
    """Return the bytes of an element."""
    return 4 if tensor.dtype == nl.float32 else 2


def causal_triangle():
    """Return a tile whose row x is 0 up to column x and MASKED behind it."""
    zeros = nl.ndarray((TILE, TILE), dtype=nl.float32, buffer=nl.sbuf)
    triangle = nl.ndarray((TILE, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    nisa.affine_select(
        dst=triangle,
        pattern=[[-1, TILE]],
        channel_multiplier=1,
        on_true_tile=zeros,
        on_false_value=MASKED,
        cmp_op=nl.greater_equal,
    )
    return triangle


def load_section(k_t, v, h, j, end):
    """Return the keys and values from ``j`` to ``end`` of head ``h``, in SBUF.

    Keys are (d, keys), with an additional column of zeros if ``matmul_columns`` requires it. Values
    are (128, blocks, d): keys of a block are on partitions, since the product contracts over them.
    """
    d, size = k_t.shape[1], end - j
    k_tile = nl.ndarray((d, matmul_columns(size)), dtype=k_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=k_tile[0:d, 0:size], src=k_t[h, 0:d, j:end])
    if matmul_columns(size) > size:
        nisa.memset(dst=k_tile[0:d, size : size + 1], value=0.0)
    v_tile = nl.ndarray((TILE, math.ceil(size / TILE), d), dtype=v.dtype, buffer=nl.sbuf)
    full, rest = size // TILE, size % TILE
    if full > 0:
        pattern = [[d, TILE], [TILE * d, full], [1, d]]
        first = (h * v.shape[1] + j) * d
        nisa.dma_copy(dst=v_tile[0:TILE, 0:full, 0:d], src=v.ap(pattern=pattern, offset=first))
    if rest > 0:
        nisa.dma_copy(dst=v_tile[0:rest, full, 0:d], src=v[h, end - rest : end, 0:d])
    return k_tile, v_tile


def matmul_columns(columns):
    """Return ``columns``, or one more if the last matmul had one: some compilers reject that."""
    return columns + 1 if columns % BANK == 1 else columns


def section_scores(q_tile, k_tile, columns):
    """Return the unscaled scores of a query tile against a section's first keys, in PSUM."""
    d, p = q_tile.shape
    width = matmul_columns(columns)
    scores = nl.ndarray((p, width), dtype=nl.float32, buffer=nl.psum)
    for c in range(0, width, BANK):
        end = min(c + BANK, width)
        nisa.nc_matmul(dst=scores[0:p, c:end], stationary=q_tile, moving=k_tile[0:d, c:end])
    return scores[0:p, 0:columns]


def add_triangle(scores, first, triangle):
    """Mask the scores right of the diagonal, which begins at column ``first``, in place."""
    p, columns = scores.shape
    block = scores[0:p, first:columns]
    hidden = triangle[0:p, 0 : columns - first]
    nisa.tensor_tensor(dst=block, data1=block, data2=hidden, op=nl.add)


def add_section(before, scores, v_tile, scale, last):
    """Return maxima, total weight and weighted values after one more section.

    If it is the only one, the weighted values may stay in PSUM.
    """
    p, columns = scores.shape
    top = column(p)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=1)
    if before is not None:
        nisa.tensor_tensor(dst=top, data1=top, data2=before[0], op=nl.maximum)
    bias = column(p)
    nisa.tensor_scalar(dst=bias, data=top, op0=nl.multiply, operand0=-scale)
    # The weights have the dtype of the values: the Tensor engine does not mix dtypes.
    weights = nl.ndarray((p, columns), dtype=v_tile.dtype, buffer=nl.sbuf)
    total = column(p)
    nisa.activation(
        dst=weights,
        op=nl.exp,
        data=scores,
        scale=scale,
        bias=bias,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    product = weighted_values(weights, v_tile)
    if before is not None:
        shrink = column(p)
        nisa.activation(dst=shrink, op=nl.exp, data=before[0], scale=scale, bias=bias)
        scale_and_add(before[1], shrink, total)
        scale_and_add(before[2], shrink, product)
        return top, before[1], before[2]
    if last:
        return top, total, product
    mixed = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=mixed, src=product)
    return top, total, mixed


def column(p):
    """Return a tile for one number per query."""
    return nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)


def scale_and_add(tile, factor, term):
    """Replace ``tile`` by ``tile * factor + term``, with one factor per row."""
    nisa.scalar_tensor_tensor(
        dst=tile, data=tile, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=term
    )


def weighted_values(weights, v_tile):
    """Return the product of weights and values in PSUM.

    As many blocks of weights as fit into a bank are transposed, then copied to SBUF at once.
    """
    p, columns = weights.shape
    d = v_tile.shape[2]
    blocks = 4 * BANK // (TILE * size_of(weights))
    product = nl.ndarray((p, d), dtype=nl.float32, buffer=nl.psum)
    for c in range(0, columns, blocks * TILE):
        end = min(c + blocks * TILE, columns)
        transposed = nl.ndarray((TILE, blocks, TILE), dtype=weights.dtype, buffer=nl.psum)
        for t in range(c, end, TILE):
            w = min(TILE, end - t)
            nisa.nc_transpose(
                dst=transposed[0:w, (t - c) // TILE, 0:p], data=weights[0:p, t : t + w]
            )
        weights_t = nl.ndarray((TILE, blocks, TILE), dtype=weights.dtype, buffer=nl.sbuf)
        full, rest = (end - c) // TILE, (end - c) % TILE
        if full > 0:
            nisa.tensor_copy(
                dst=weights_t[0:TILE, 0:full, 0:p], src=transposed[0:TILE, 0:full, 0:p]
            )
        if rest > 0:
            nisa.tensor_copy(dst=weights_t[0:rest, full, 0:p], src=transposed[0:rest, full, 0:p])
        for t in range(c, end, TILE):
            w = min(TILE, end - t)
            nisa.nc_matmul(
                dst=product,
                stationary=weights_t[0:w, (t - c) // TILE, 0:p],
                moving=v_tile[0:w, t // TILE, 0:d],
                accumulate=(t > 0),
            )
    return product


def store_result(out, state):
    """Write the weighted values, divided by their total weight, to HBM."""
    top, total, mixed = state
    share = column(top.shape[0])
    result = nl.ndarray(mixed.shape, dtype=out.dtype, buffer=nl.sbuf)
    nisa.reciprocal(dst=share, data=total)
    nisa.tensor_scalar(dst=result, data=mixed, op0=nl.multiply, operand0=share)
    nisa.dma_copy(dst=out, src=result)


def main() -> None:
    rng = np.random.default_rng(0)
    heads, queries, d = 2, 600, 64
    q, k, v = (rng.standard_normal((heads, queries, d), dtype=np.float32) for _ in range(3))
    scale = 1.0 / math.sqrt(d)
    q_t, k_t = (np.ascontiguousarray(x.transpose(0, 2, 1)) for x in (q, k))
    for causal in (False, True):
        run = nki.simulate(attention_forward)
        out = run(q_t, k_t, v, scale, causal)

        scores = scale * (q.astype(np.float64) @ k_t.astype(np.float64))
        if causal:
            scores[:, ~np.tri(queries, dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        exact = weights @ v.astype(np.float64) / weights.sum(axis=-1, keepdims=True)
        error = np.abs(out - exact).max()
        mask, report = "causal" if causal else "full", run.report.summary()
        print(f"attention {mask:7} {out.shape} {out.dtype}  max |error| {error:.1e}  {report}")


if __name__ == "__main__":
    main()
