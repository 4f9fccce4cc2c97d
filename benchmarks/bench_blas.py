"""trnblas compared with the best public call, as ratios and differences in one run.

    python benchmarks/bench_blas.py              print the table
    python benchmarks/bench_blas.py --cuda       the same on a CUDA device, against torch
    python benchmarks/bench_blas.py --dtype float64 --sizes 256 2048
    python benchmarks/bench_blas.py --ranks      distributed.gemm on one rank, against DTensor
    python benchmarks/bench_blas.py --record     also append to benchmarks/results/

The baseline of a product is torch's routine with alpha and beta folded in; that of a routine which
torch lacks is the faster of torch's best expression and, on a CPU, SciPy's BLAS on the same memory.
The goal is 1.05 of a baseline of 200 us or more; below, 3 times it for inner-loop routines and 5
times for others. Contenders are timed in turns, so that noise is shared. Small
problems are repeated within a turn and use the 20th percentile, because on a busy machine half of
the turns are interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from runner import Timing, judged, measure, record, show
from torch import Tensor

import trnblas

Call = Callable[[], object]
Row = tuple[str, str, str, str]

SMALL, REPEATS, SMALL_ROUNDS, ROUNDS = 8, 100, 60, 15
ALPHA, BETA = 0.5, -2.0
GROUPS = 64
INNER = ("gemm", "gemv", "axpy", "dot")


def operands(n: int, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """Return matrices, a batch and vectors of order n; ``t`` is diagonally dominant."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=dtype, generator=generator).to(device)

    batch = max(4, 256 // n)
    found = {"a": draw(n, n), "b": draw(n, n), "c": draw(n, n), "x": draw(n), "y": draw(n)}
    found |= {"ab": draw(batch, n, n), "bb": draw(batch, n, n), "cb": draw(batch, n, n)}
    found["t"] = found["a"] / n + 2 * torch.eye(n, dtype=dtype, device=device)
    return found


def torch_rivals(o: dict[str, Tensor]) -> dict[str, tuple[Call, dict[str, Call]]]:
    """Return, by routine, the trnblas call and the equivalent torch calls."""
    a, b, c, x, y, t = (o[name] for name in "abcxyt")
    ab, bb, cb = o["ab"], o["bb"], o["cb"]
    left, right = (list(x.unbind()) * (GROUPS // len(x) or 1) for x in (ab, bb))

    z, w = torch.complex(a, b), torch.complex(b, c)

    def symmetric() -> Tensor:
        return torch.triu(a) + torch.triu(a, 1).mT

    return {
        "gemm": (lambda: trnblas.gemm(1.0, a, b), {"mm": lambda: torch.mm(a, b)}),
        "gemm alpha beta": (
            lambda: trnblas.gemm(ALPHA, a, b, BETA, c),
            {"addmm": lambda: torch.addmm(c, a, b, alpha=ALPHA, beta=BETA)},
        ),
        "gemm transposed": (
            lambda: trnblas.gemm(ALPHA, a, b, BETA, c, True, True),
            {"addmm": lambda: torch.addmm(c, a.mT, b.mT, alpha=ALPHA, beta=BETA)},
        ),
        "batched_gemm": (
            lambda: trnblas.batched_gemm(ALPHA, ab, bb, BETA, cb),
            {"baddbmm": lambda: torch.baddbmm(cb, ab, bb, alpha=ALPHA, beta=BETA)},
        ),
        "batched_gemm shared": (
            lambda: trnblas.batched_gemm(1.0, ab, b),
            {"matmul": lambda: torch.matmul(ab, b)},
        ),
        "gemv": (
            lambda: trnblas.gemv(ALPHA, a, x, BETA, y),
            {"addmv": lambda: torch.addmv(y, a, x, alpha=ALPHA, beta=BETA)},
        ),
        "trsm": (
            lambda: trnblas.trsm(1.0, t, b),
            {"solve_triangular": lambda: torch.linalg.solve_triangular(t, b, upper=True)},
        ),
        "symm": (lambda: trnblas.symm(1.0, a, b), {"torch": lambda: torch.mm(symmetric(), b)}),
        "syrk": (lambda: trnblas.syrk(1.0, a), {"torch": lambda: torch.mm(a, a.mT)}),
        "trmm": (lambda: trnblas.trmm(1.0, a, b), {"torch": lambda: torch.mm(torch.triu(a), b)}),
        "symv": (lambda: trnblas.symv(1.0, a, x), {"torch": lambda: torch.mv(symmetric(), x)}),
        "trmv": (lambda: trnblas.trmv(a, x), {"torch": lambda: torch.mv(torch.triu(a), x)}),
        "axpy": (
            lambda: trnblas.axpy(ALPHA, a, b),
            {"add": lambda: torch.add(b, a, alpha=ALPHA)},
        ),
        "axpy doublefloat": (
            lambda: trnblas.axpy(ALPHA, a, b, precision="doublefloat"),
            {"add": lambda: torch.add(b, a, alpha=ALPHA)},
        ),
        "axpy doublefloat wide": (  # of the same accuracy
            lambda: trnblas.axpy(ALPHA, a, b, precision="doublefloat"),
            {"add": lambda: torch.add(b.double(), a.double(), alpha=ALPHA).to(a.dtype)},
        ),
        "axpy doublefloat complex": (
            lambda: trnblas.axpy(ALPHA, z, w, precision="doublefloat"),
            {"add": lambda: torch.add(w, z, alpha=ALPHA)},
        ),
        "axpy doublefloat complex wide": (
            lambda: trnblas.axpy(ALPHA, z, w, precision="doublefloat"),
            {"add": lambda: torch.add(w.cdouble(), z.cdouble(), alpha=ALPHA).to(z.dtype)},
        ),
        "grouped_gemm": (
            lambda: trnblas.grouped_gemm(1.0, left, right),
            {"loop": lambda: [torch.matmul(p, q) for p, q in zip(left, right, strict=True)]},
        ),
        "dot": (lambda: trnblas.dot(x, y), {"dot": lambda: torch.dot(x, y)}),
        "nrm2": (lambda: trnblas.nrm2(a), {"vector_norm": lambda: torch.linalg.vector_norm(a)}),
    }


def scipy_rivals(o: dict[str, Tensor]) -> dict[str, Call]:
    """Return, by routine, the SciPy BLAS call on tensors."""
    from scipy.linalg import blas

    a, b, x = o["a"], o["b"], o["x"]
    prefix = {torch.float32: "s", torch.float64: "d"}[a.dtype]

    def routine(name: str) -> Callable[..., object]:
        return getattr(blas, prefix + name)

    def tensor(array) -> Tensor:
        return torch.from_numpy(array)

    symm, syrk, trmm = routine("symm"), routine("syrk"), routine("trmm")
    symv, trmv = routine("symv"), routine("trmv")

    def rank_k() -> Tensor:
        # One triangle; the other is mirrored by torch, since the result is the full matrix.
        half = tensor(syrk(1.0, a.numpy().T, trans=1, lower=1).T)
        return half + torch.triu(half, 1).mT

    sided = {"side": 1, "lower": 1}
    return {
        "symm": lambda: tensor(symm(1.0, a.numpy().T, b.numpy().T, **sided).T),
        "syrk": rank_k,
        "trmm": lambda: tensor(trmm(1.0, a.numpy().T, b.numpy().T, **sided).T),
        "symv": lambda: tensor(symv(1.0, a.numpy().T, x.numpy(), lower=1)),
        "trmv": lambda: tensor(trmv(a.numpy().T, x.numpy(), lower=1, trans=1)),
    }


def timings_of(n: int, dtype: torch.dtype, device: str) -> dict[str, dict[str, Timing]]:
    """Return the seconds per call of every contender, by routine."""
    tensors = operands(n, dtype, device)
    others = scipy_rivals(tensors) if device == "cpu" else {}
    times = REPEATS if n <= SMALL else 1 if n > 256 else 20
    finish = torch.cuda.synchronize if device == "cuda" else None
    found = {}
    for name, (ours, rivals) in torch_rivals(tensors).items():
        contenders = {"trnblas": ours, **rivals}
        if name in others:
            contenders["scipy"] = others[name]
        rounds = SMALL_ROUNDS if n <= SMALL else ROUNDS
        found[name] = measure(contenders, rounds, calls=times, finish=finish)
    return found


def one_rank_timings(n: int, dtype: torch.dtype) -> dict[str, dict[str, Timing]]:
    """Return the seconds per call of products of DTensors on a mesh of one rank."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from trnblas import distributed

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    tensors = operands(n, dtype, "cpu")
    a, b = (distribute_tensor(tensors[name], mesh, [Shard(0)]) for name in "ab")
    contenders = {"trnblas": lambda: distributed.gemm(1.0, a, b), "DTensor": lambda: a @ b}
    return {"distributed.gemm": measure(contenders, SMALL_ROUNDS, calls=20)}


def row_of(name: str, n: int, timings: dict[str, Timing]) -> Row:
    """Return a row: the ratio to the baseline, or the time added to a small call."""
    ours = timings["trnblas"]
    rival = min((k for k in timings if k != "trnblas"), key=lambda k: timings[k].p50)
    inner = name.split()[0] in INNER
    return f"{name} {n}", *judged(ours, timings[rival], rival, inner=inner)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--sizes", type=int, nargs="+", default=[SMALL, 256, 1024])
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    device = "cuda" if options.cuda else "cpu"
    machine = torch.cuda.get_device_name() if options.cuda else "CPU"
    print(
        f"{machine}, {options.dtype}, torch {torch.__version__}, threads {torch.get_num_threads()}"
    )
    rows = []
    for n in options.sizes:
        dtype = getattr(torch, options.dtype)
        found = one_rank_timings(n, dtype) if options.ranks else timings_of(n, dtype, device)
        for name, timings in found.items():
            rows.append(row_of(name, n, timings))
            if options.record:
                record("blas", f"{name} {n} {options.dtype} {machine}", timings)
    show(rows)


if __name__ == "__main__":
    main()
