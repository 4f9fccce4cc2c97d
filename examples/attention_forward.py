"""Attention without the score matrix: softmax(q k / sqrt(d)) v with running maxima and sums.

A tile of 128 queries meets the keys in chunks of up to 512. Each chunk's scores live on chip only;
when it raises a query's maximum, what was accumulated so far is scaled down. The exponentials are
turned by the Tensor engine, since the second product contracts over keys. With a causal mask,
chunks right of the diagonal are never computed, and ``affine_select`` blanks the rest by position.
"""

import math

import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

QUERIES, KEYS, TURN = 128, 512, 128
MASKED = -3.0e38  # finite: its distance from any maximum still has an exponential, 0


@nki.jit
def attention_forward(q_t, k_t, v, scale, causal):
    """Return the attention of every head.

    Args:
        q_t: Queries, (heads, d, queries), with d from 2 to 128.
        k_t: Keys, (heads, d, keys), two or more.
        v: Values, (heads, keys, d).
        scale: Factor of the scores, usually ``1 / sqrt(d)``.
        causal: Whether query i sees the keys up to i only.

    Returns:
        (heads, queries, d).
    """
    heads, d, queries = q_t.shape
    keys = k_t.shape[2]
    assert d <= 128, "the head dimension is on partitions, of which there are 128"
    out = nl.ndarray((heads, queries, d), dtype=v.dtype, buffer=nl.shared_hbm)
    for h in range(heads):
        for i in range(0, queries, QUERIES):
            p = min(QUERIES, queries - i)
            q_tile = nl.ndarray((d, p), dtype=q_t.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=q_tile, src=q_t[h, 0:d, i : i + p])
            top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
            total = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
            mixed = nl.ndarray((p, d), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=top, value=MASKED)
            nisa.memset(dst=total, value=0.0)
            nisa.memset(dst=mixed, value=0.0)
            # Keys that any query of a full tile sees; the mask deals with each single one.
            seen = min(keys, i + QUERIES) if causal else keys
            # Nearly equal chunks, for some compilers refuse a last one of a single column.
            chunks = (seen + KEYS - 1) // KEYS
            size = (seen + chunks - 1) // chunks
            for j in range(0, seen, size):
                f = min(size, seen - j)
                scores = score_tile(q_tile, k_t[h, 0:d, j : j + f], scale)
                if causal and j + f - 1 > i:
                    # Row x, column y is query i + x and key j + y: kept while i + x >= j + y.
                    kept = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.affine_select(
                        dst=kept,
                        pattern=[[-1, f]],
                        channel_multiplier=1,
                        on_true_tile=scores,
                        on_false_value=MASKED,
                        cmp_op=nl.greater_equal,
                        offset=i - j,
                    )
                    scores = kept
                add_chunk(mixed, total, top, scores, v[h, j : j + f, 0:d])
            share = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
            result = nl.ndarray((p, d), dtype=v.dtype, buffer=nl.sbuf)
            nisa.reciprocal(dst=share, data=total)
            nisa.tensor_scalar(dst=result, data=mixed, op0=nl.multiply, operand0=share)
            nisa.dma_copy(dst=out[h, i : i + p, 0:d], src=result)
    return out


def score_tile(q_tile, k_t, scale):
    """Return ``scale`` times the scores of a query tile against keys in HBM, in SBUF."""
    d, p = q_tile.shape
    f = k_t.shape[1]
    k_tile = nl.ndarray((d, f), dtype=k_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=k_tile, src=k_t)
    product = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=q_tile, moving=k_tile)
    scores = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=scores, data=product, op0=nl.multiply, operand0=scale)
    return scores


def add_chunk(mixed, total, top, scores, v):
    """Add a chunk of keys to the weighted values, their total weight and the maxima, in place."""
    p, f = scores.shape
    d = v.shape[1]
    chunk_top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
    new_top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
    minus_top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=chunk_top, op=nl.maximum, data=scores, axis=1)
    nisa.tensor_tensor(dst=new_top, data1=top, data2=chunk_top, op=nl.maximum)
    nisa.tensor_scalar(dst=minus_top, data=new_top, op0=nl.multiply, operand0=-1.0)

    # The weights take the type of the values: the Tensor engine does not mix float32 with less.
    weights = nl.ndarray((p, f), dtype=v.dtype, buffer=nl.sbuf)
    chunk_total = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(
        dst=weights,
        op=nl.exp,
        data=scores,
        bias=minus_top,
        reduce_op=nl.add,
        reduce_res=chunk_total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    product = nl.ndarray((p, d), dtype=nl.float32, buffer=nl.psum)
    for t in range(0, f, TURN):
        w = min(TURN, f - t)
        turned = nl.ndarray((w, p), dtype=v.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=weights[0:p, t : t + w])
        weights_t = nl.ndarray((w, p), dtype=v.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=weights_t, src=turned)
        v_tile = nl.ndarray((w, d), dtype=v.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=v_tile, src=v[t : t + w, 0:d])
        nisa.nc_matmul(dst=product, stationary=weights_t, moving=v_tile, accumulate=(t > 0))

    shrink = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=shrink, op=nl.exp, data=top, bias=minus_top)
    scale_and_add(total, shrink, chunk_total)
    scale_and_add(mixed, shrink, product)
    nisa.tensor_copy(dst=top, src=new_top)


def scale_and_add(tile, factor, term):
    """Replace ``tile`` by ``tile * factor + term``, with one factor per row."""
    nisa.scalar_tensor_tensor(
        dst=tile, data=tile, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=term
    )


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
