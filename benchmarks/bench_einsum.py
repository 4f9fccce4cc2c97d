"""trntensor compared with the best public call, in time and error, in one run.

    python benchmarks/bench_einsum.py               print the table
    python benchmarks/bench_einsum.py --threads 4   with this number of torch threads
    python benchmarks/bench_einsum.py --cuda        contractions and decompositions on a CUDA device
    python benchmarks/bench_einsum.py --record      also append to benchmarks/results/

The baseline of a contraction is the faster of ``torch.einsum`` and opt_einsum's
``contract_expression``. That of a decomposition is tensorly and, for Tucker and trains, plain
torch; without tensorly, decompositions are left out. Contenders are timed in turns, so that noise
is shared; small problems are repeated within a turn. With one CPU thread, thread time is used,
since a busy machine interrupts long turns more than short ones. Errors of both contenders are
relative to the tensor.

A second table has the predictions of the plans for a NeuronCore: nothing in it was measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import opt_einsum
import torch
from runner import Timing, clock_for, judged, measure, record, show
from torch import Tensor

import trntensor

Call = Callable[[], object]
Row = tuple[str, str, str, str]

TURN_S = 5e-3


@dataclass(frozen=True)
class Problem:
    """One contraction, with the equivalent direct torch call if there is one."""

    name: str
    subscripts: str
    shapes: tuple[tuple[int, ...], ...]
    direct: Callable[..., Tensor] | None = None

    def operands(self, device: str) -> list[Tensor]:
        """Return tensors of its shapes."""
        generator = torch.Generator().manual_seed(0)
        return [torch.randn(shape, generator=generator).to(device) for shape in self.shapes]


PROBLEMS = (
    Problem("matmul 512", "ij,jk->ik", ((512, 512), (512, 512))),
    Problem("matmul 1024", "ij,jk->ik", ((1024, 1024), (1024, 1024))),
    Problem("matmul, transposed result", "ij,jk->ki", ((400, 500), (500, 600))),
    Problem("bmm 16 x 256", "bij,bjk->bik", ((16, 256, 256), (16, 256, 256))),
    Problem("bmm, batch last", "ijb,jkb->ikb", ((64, 64, 32), (64, 64, 32))),
    Problem("attention scores", "bqhd,bkhd->bhqk", ((4, 128, 8, 64), (4, 128, 8, 64))),
    Problem("DF pair", "ap,bp->ab", ((48, 128), (48, 128))),
    Problem("half transform", "mi,mnp->inp", ((128, 32), (128, 128, 64))),
    Problem("second half", "inp,na->iap", ((32, 128, 64), (128, 96))),
    Problem("AO to MO", "mnp,mi,na->iap", ((128, 128, 64), (128, 32), (128, 96))),
    Problem("four indices", "ijkl,klmn->ijmn", ((24, 24, 24, 24), (24, 24, 24, 24))),
    Problem("four indices, mixed", "mhkn,ukvh->munv", ((24, 24, 24, 24), (24, 24, 24, 24))),
    Problem("sum of all", "ij,jk->", ((512, 512), (512, 512))),
    Problem("MTTKRP", "ijk,jr,kr->ir", ((64, 64, 64), (64, 16), (64, 16))),
    Problem("matrix times vector", "ij,j->i", ((2000, 2000), (2000,))),
    Problem("outer", "i,j->ij", ((2000,), (2000,))),
    Problem("element by element", "ij,ij->ij", ((1500, 1500), (1500, 1500))),
    Problem("batch of dots", "bi,bi->b", ((4096, 256), (4096, 256))),
)
SMALL = (
    Problem("matmul 8", "ij,jk->ik", ((8, 8), (8, 8)), torch.mm),
    Problem("dot 8", "i,i->", ((8,), (8,)), torch.dot),
    Problem("bmm 4 x 8", "bij,bjk->bik", ((4, 8, 8), (4, 8, 8)), torch.bmm),
)
REPEATED = Problem("five operands", "ab,bc,cd,de,ef->af", ((8, 8), (8, 8), (8, 8), (8, 8), (8, 8)))


def duel(ours: Call, rivals: dict[str, Call], device: str) -> dict[str, Timing]:
    """Return seconds per call of trntensor and of the baselines, measured in turns."""
    clock = clock_for(device, torch.get_num_threads(), keep=False)
    finish = torch.cuda.synchronize if device == "cuda" else None
    once = measure({"": ours}, rounds=3, finish=finish)[""].p20
    times = max(1, min(2000, int(TURN_S / once)))
    return measure({"trntensor": ours, **rivals}, 25, clock, times, finish)


def best_of(timings: dict[str, Timing]) -> str:
    """Return the fastest baseline."""
    return min((name for name in timings if name != "trntensor"), key=lambda n: timings[n].p20)


def rivals_of(problem: Problem, tensors: list[Tensor]) -> dict[str, Call]:
    expression = opt_einsum.contract_expression(problem.subscripts, *problem.shapes)
    return {
        "torch": lambda: torch.einsum(problem.subscripts, *tensors),
        "opt_einsum": lambda: expression(*tensors),
    }


def contraction_row(problem: Problem, device: str, keep: bool) -> Row:
    tensors = problem.operands(device)
    timings = duel(
        lambda: trntensor.einsum(problem.subscripts, *tensors), rivals_of(problem, tensors), device
    )
    if keep:
        record("einsum", f"{problem.name} float32 {device}", timings)
    rival = best_of(timings)
    shown, goal, verdict = judged(timings["trntensor"], timings[rival], rival)
    wide = [x.double() for x in tensors]
    exact = torch.einsum(problem.subscripts, *wide)
    got = trntensor.einsum(problem.subscripts, *tensors)
    error = float((got - exact).norm() / exact.norm())
    name = f"{problem.name}, {problem.subscripts}"
    return name, f"{shown:<32} error {error:.1e}", goal, verdict


def small_row(problem: Problem, device: str) -> Row:
    tensors = problem.operands(device)
    direct = problem.direct
    assert direct is not None
    timings = duel(
        lambda: trntensor.einsum(problem.subscripts, *tensors),
        {"direct": lambda: direct(*tensors)},
        device,
    )
    return f"{problem.name}, added", *judged(timings["trntensor"], timings["direct"], "direct")


def repeated_row(device: str) -> Row:
    tensors = REPEATED.operands(device)
    timings = duel(
        lambda: trntensor.einsum(REPEATED.subscripts, *tensors),
        {"torch": lambda: torch.einsum(REPEATED.subscripts, *tensors)},
        device,
    )
    return REPEATED.name, *judged(timings["trntensor"], timings["torch"], "torch")


# -- decompositions --------------------------------------------------------------------------------


def planted(shape: tuple[int, ...], rank: int, noise: float, device: str) -> Tensor:
    """Return a tensor of a rank with noise of a relative norm."""
    generator = torch.Generator().manual_seed(0)
    factors = [torch.randn(n, rank, generator=generator) for n in shape]
    exact = trntensor.cp_reconstruct(factors, torch.ones(rank))
    drawn = torch.randn(shape, generator=generator)
    return (exact + noise * exact.norm() / drawn.norm() * drawn).to(device)


def plain_tucker(x: Tensor, ranks: tuple[int, ...]) -> tuple[Tensor, list[Tensor]]:
    """Return HOOI by singular values of every unfolding: Tucker in a few lines of torch."""

    def basis(y: Tensor, mode: int) -> Tensor:
        unfolding = y.movedim(mode, 0).flatten(1)
        return torch.linalg.svd(unfolding, full_matrices=False).U[:, : ranks[mode]]

    factors = [basis(x, mode) for mode in range(3)]
    size, last = x.norm(), x.new_zeros(())
    for _ in range(25):
        a, b, c = factors
        factors[0] = a = basis(torch.einsum("abc,bj,ck->ajk", x, b, c), 0)
        factors[1] = b = basis(torch.einsum("abc,ai,ck->ibk", x, a, c), 1)
        factors[2] = basis(torch.einsum("abc,ai,bj->ijc", x, a, b), 2)
        core = torch.einsum("abc,ai,bj,ck->ijk", x, *factors)
        error = (size**2 - core.norm() ** 2).clamp(min=0).sqrt()
        if abs(error - last) <= 1e-6 * error:
            break
        last = error
    return core, factors


def plain_train(x: Tensor, rank: int) -> list[Tensor]:
    """Return TT-SVD in a few lines of torch."""
    cores, rows, sizes = [], 1, x.shape
    for size in sizes[:-1]:
        u, s, v = torch.linalg.svd(x.reshape(rows * size, -1), full_matrices=False)
        kept = min(rank, len(s))
        cores.append(u[:, :kept].reshape(rows, size, kept))
        x, rows = s[:kept, None] * v[:kept], kept
    return [*cores, x.reshape(rows, sizes[-1], 1)]


def decomposition_rows(device: str) -> list[Row]:
    if find_spec("tensorly") is None:
        print("tensorly is not installed: decompositions are left out")
        return []
    import tensorly

    tensorly.set_backend("pytorch")
    from tensorly import decomposition

    small, cube = planted((16, 16, 16), 8, 0.01, device), planted((64, 64, 64), 8, 0.1, device)
    long = planted((20, 20, 20, 20), 5, 0.01, device)
    problems: list[tuple[str, Tensor, dict[str, Callable[[], Tensor]]]] = []
    for name, x in (("CP 16^3, rank 8", small), ("CP 64^3, rank 8", cube)):
        problems.append(
            (
                name,
                x,
                {
                    "trntensor": lambda x=x: trntensor.cp_reconstruct(
                        *trntensor.cp_decompose(x, 8)
                    ),
                    "tensorly": lambda x=x: tensorly.cp_to_tensor(
                        decomposition.parafac(x, 8, init="svd")
                    ),
                },
            )
        )
    for name, x, ranks in (
        ("Tucker 16^3 to 4^3", small, (4, 4, 4)),
        ("Tucker 64^3 to 8^3", cube, (8, 8, 8)),
    ):
        problems.append(
            (
                name,
                x,
                {
                    "trntensor": lambda x=x, r=ranks: trntensor.tucker_reconstruct(
                        *trntensor.tucker_decompose(x, r)
                    ),
                    "tensorly": lambda x=x, r=ranks: tensorly.tucker_to_tensor(
                        decomposition.tucker(x, r)
                    ),
                    "torch": lambda x=x, r=ranks: trntensor.tucker_reconstruct(*plain_tucker(x, r)),
                },
            )
        )
    problems.append(
        (
            "TT 20^4, rank 8",
            long,
            {
                "trntensor": lambda: trntensor.tt_reconstruct(trntensor.tt_decompose(long, 8)),
                "tensorly": lambda: tensorly.tt_to_tensor(
                    decomposition.tensor_train(long, [1, 8, 8, 8, 1])
                ),
                "torch": lambda: trntensor.tt_reconstruct(plain_train(long, 8)),
            },
        )
    )
    return [decomposition_row(name, x, calls, device) for name, x, calls in problems]


def decomposition_row(name: str, x: Tensor, calls: dict[str, Any], device: str) -> Row:
    errors = {who: float((call() - x).norm() / x.norm()) for who, call in calls.items()}
    rivals = {who: call for who, call in calls.items() if who != "trntensor"}
    timings = duel(calls["trntensor"], rivals, device)
    rival = best_of(timings)
    shown, goal, missed = judged(timings["trntensor"], timings[rival], rival)
    least = min(error for who, error in errors.items() if who != "trntensor")
    error = f"error {errors['trntensor']:.3e}, theirs {least:.3e}"
    # Errors come from float32 sums over all elements: five digits are significant.
    inexact = "inexact" if errors["trntensor"] > least * 1.00001 else ""
    return name, f"{shown:<32} {error}", goal, ", ".join(filter(None, (missed, inexact)))


def predicted_rows() -> list[Row]:
    rows = []
    for problem in PROBLEMS:
        plan = trntensor.plan_contraction(problem.subscripts, *problem.operands("cpu"))
        cost = plan.cost
        text = (
            f"{cost.launches} products, {cost.flops / 1e6:.1f} Mflop, {cost.hbm_bytes / 1e6:.2f} MB"
        )
        rows.append((problem.name, text, f"{plan.peak_bytes / 1e6:.2f} MB", ""))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = "cuda" if options.cuda else "cpu"
    machine = torch.cuda.get_device_name() if options.cuda else "CPU"
    print(f"{machine}, float32, torch {torch.__version__}, threads {options.threads}")
    rows = [contraction_row(problem, device, options.record) for problem in PROBLEMS]
    rows += [small_row(problem, device) for problem in SMALL]
    rows.append(repeated_row(device))
    rows += decomposition_rows(device)
    show(rows)
    print("\npredicted for a NeuronCore, gen2")
    show(predicted_rows(), ("problem", "predicted", "memory", ""))


if __name__ == "__main__":
    main()
