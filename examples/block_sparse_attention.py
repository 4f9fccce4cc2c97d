"""Block-sparse attention: a mask built once, the result against all scores, and its picture.

    python examples/block_sparse_attention.py
    python examples/block_sparse_attention.py --seq-len 4096 --pattern global --causal
    python examples/block_sparse_attention.py --picture pattern.png
    python examples/block_sparse_attention.py --simulator --seq-len 256

The pattern is printed in characters, and drawn with ``--picture`` (matplotlib). With
``--simulator`` the kernels compute, forward and backward, on a CPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

import trnsparse
from trnsparse import AttentionMask

MASKS: dict[str, Callable[[argparse.Namespace], AttentionMask]] = {
    "local": lambda a: trnsparse.local_window_mask(
        a.seq_len, a.window, a.block_size, causal=a.causal
    ),
    "dilated": lambda a: trnsparse.dilated_mask(a.seq_len, a.stride, a.block_size, causal=a.causal),
    "global": lambda a: trnsparse.global_window_mask(
        a.seq_len, a.n_global, a.window, a.block_size, causal=a.causal
    ),
    "causal": lambda a: trnsparse.causal_mask(a.seq_len, a.block_size),
}


def dense_attention(q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask) -> Tensor:
    """Return the attention with all scores, in float64."""
    return torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), attn_mask=mask.to_dense()
    )


def drawn(mask: AttentionMask) -> str:
    """Return the pattern in characters: full blocks, partial ones, and none."""
    dense, (rows, columns) = mask.to_dense(), mask.block_size
    lines = []
    for first in range(0, dense.shape[0], rows):
        blocks = dense[first : first + rows].split(columns, dim=1)
        lines.append("".join("#" if b.all() else "+" if b.any() else "." for b in blocks))
    return "\n".join(lines)


def timed(function: Callable[[], Tensor]) -> tuple[Tensor, float]:
    function()
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seq-len", type=int, default=512)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--pattern", choices=MASKS, default="local")
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--stride", type=int, default=2)
    parser.add_argument("--n-global", type=int, default=1)
    parser.add_argument("--block-size", type=int, default=64)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--simulator", action="store_true", help="run the kernels on a CPU")
    parser.add_argument("--picture", metavar="FILE", help="draw the pattern to a file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    mask = MASKS[options.pattern](options)
    print(mask)
    print(drawn(mask))
    shape = (1, options.heads, options.seq_len, options.head_dim)
    q, k, v = (torch.randn(shape, generator=torch.manual_seed(i)) for i in range(3))
    with trnsparse.backend("simulator" if options.simulator else "auto"):
        leaves = [x.requires_grad_() for x in (q, k, v)]
        out, seconds = timed(lambda: trnsparse.block_sparse_attention(*leaves, mask))
        grads = torch.autograd.grad(out.square().sum(), leaves)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    want = dense_attention(wide[0], wide[1], wide[2], mask)
    exact = torch.autograd.grad(want.square().sum(), wide)
    dense, dense_seconds = timed(
        lambda: torch.nn.functional.scaled_dot_product_attention(
            q.detach(), k.detach(), v.detach(), attn_mask=mask.to_dense()
        )
    )
    del dense
    error = float((out - want).detach().abs().max())
    slope = max(float((g - e).abs().max()) for g, e in zip(grads, exact, strict=True))
    print(f"max |error| {error:.1e}, of gradients {slope:.1e}")
    print(f"{1e3 * seconds:.1f} ms; all scores with a mask in torch {1e3 * dense_seconds:.1f} ms")
    assert error < 1e-3, "block-sparse and dense attention disagree"
    if options.picture:
        try:
            mask.plot().figure.savefig(options.picture, dpi=150, bbox_inches="tight")
        except (OSError, ValueError) as error:  # no such folder, or unknown image format
            sys.exit(f"--picture: {error}")
        print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
