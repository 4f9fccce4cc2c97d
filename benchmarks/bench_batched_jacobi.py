"""Batches of small eigenproblems, singular values and QR on a CUDA device, against torch.linalg.

    python benchmarks/bench_batched_jacobi.py --cuda            print the table
    python benchmarks/bench_batched_jacobi.py --cuda --only qr  one of eigh, svd and qr
    python benchmarks/bench_batched_jacobi.py --cuda --record   also append to benchmarks/results/

Each row has the time of a batch and its ratio to that of torch, and the residual and the
orthogonality of both, in units of the precision of the dtype. The goal is at most 1.05 of torch's
time with errors no worse. The rule in ``trnsolver._paths.cuda.launch`` that selects batches for
kernels (``LEAST_BATCH``) is derived from this table; for smaller batches both columns are torch's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from runner import judged, measure, record, show
from torch import Tensor

import trnsolver

BATCHES = (1, 4, 16, 64, 500)
ORDERS = (4, 16, 32, 64, 100, 128, 160)


def waiting(call: Callable[[Tensor], object], a: Tensor) -> Callable[[], None]:
    """Return a call that synchronizes the device."""

    def run() -> None:
        call(a)
        torch.cuda.synchronize()

    return run


def norm(x: Tensor) -> float:
    return float(torch.linalg.matrix_norm(x, 2).max())


def errors_of_pairs(a: Tensor, w: Tensor, v: Tensor) -> str:
    """Return residual and orthogonality error, in units of the precision."""
    wide, x, eps = a.double(), v.double(), torch.finfo(a.dtype).eps
    residual = norm(wide @ x - x * w.double().unsqueeze(-2)) / norm(wide)
    return f"{residual / eps:.1f} {norm(x.mT @ x - torch.eye(x.shape[-1]).to(x)) / eps:.1f}"


def errors_of_factors(a: Tensor, u: Tensor, s: Tensor, vh: Tensor) -> str:
    wide, x, eps = a.double(), u.double(), torch.finfo(a.dtype).eps
    residual = norm((x * s.double().unsqueeze(-2)) @ vh.double() - wide) / norm(wide)
    return f"{residual / eps:.1f} {norm(x.mT @ x - torch.eye(x.shape[-1]).to(x)) / eps:.1f}"


def errors_of_columns(a: Tensor, q: Tensor, r: Tensor) -> str:
    wide, x, eps = a.double(), q.double(), torch.finfo(a.dtype).eps
    residual = norm(x @ r.double() - wide) / norm(wide)
    return f"{residual / eps:.1f} {norm(x.mT @ x - torch.eye(x.shape[-1]).to(x)) / eps:.1f}"


def rows_of(dtype: torch.dtype, recorded: bool, only: str) -> list[tuple[str, str, str, str]]:
    rows = []
    generator = torch.Generator("cuda").manual_seed(0)
    for n in ORDERS:
        for batch in BATCHES:
            x = torch.randn(batch, n, n, generator=generator, device="cuda", dtype=torch.float64)
            for name, a, ours, theirs, errors in (
                ("eigh", (x + x.mT) / 2, trnsolver.eigh, torch.linalg.eigh, errors_of_pairs),
                (
                    "svd",
                    x,
                    trnsolver.svd,
                    lambda m: torch.linalg.svd(m, full_matrices=False),
                    errors_of_factors,
                ),
                ("qr", x, trnsolver.qr, torch.linalg.qr, errors_of_columns),
                (
                    "qr of half the columns",
                    x[..., : (n + 1) // 2],
                    trnsolver.qr,
                    torch.linalg.qr,
                    errors_of_columns,
                ),
            ):
                if not name.startswith(only):
                    continue
                a = a.to(dtype)
                found = ours(a)
                pair = {"trnsolver": waiting(ours, a), "torch": waiting(theirs, a)}
                timed = measure(pair, rounds=3 if batch * n > 10_000 else 7)
                text, goal, verdict = judged(timed["trnsolver"], timed["torch"], "torch")
                rows.append(
                    (
                        f"{name} {batch} x {n}",
                        f"{text:<32} {errors(a, *found)} | {errors(a, *theirs(a))}",
                        goal,
                        verdict,
                    )
                )
                if recorded:
                    record("batched_jacobi", f"{name} {batch} x {n} {dtype}", timed)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuda", action="store_true", help="the default")
    parser.add_argument("--only", choices=("eigh", "svd", "qr"), default="")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device: the kernels are not measured")
        return
    for dtype in (torch.float32, torch.float64):
        print(f"\n{torch.cuda.get_device_name()}, {dtype}, torch {torch.__version__}")
        header = ("batch", "time, errors of ours | torch", "goal", "")
        show(rows_of(dtype, options.record, options.only), header)


if __name__ == "__main__":
    main()
