"""Speed of trnsolver compared with the best direct call, and its accuracy, in one run.

    python benchmarks/bench_solver.py               print the table
    python benchmarks/bench_solver.py --threads 4   with this number of threads
    python benchmarks/bench_solver.py --cuda        factorizations and batches on a CUDA device
    python benchmarks/bench_solver.py --accuracy    errors of solve(target_forward_error=1e-10)
    python benchmarks/bench_solver.py --least-squares    tall lstsq only
    python benchmarks/bench_solver.py --record      also append to benchmarks/results/

The baseline is ``torch.linalg``, or ``scipy`` if torch has no such routine. Contenders are timed in
turns, so that noise is shared; small problems are repeated within a turn. The goal is 1.05 of the
baseline's time from 200 us on, and at most 10 us more below. The table also has the iterations and
the error: ``norm(A - product of the factors) / norm(A)`` for factorizations, the relative residual
for solutions, both in float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import torch
from runner import NEAR, Timing, clock_for, judged, measure, ratio, record, show
from torch import Tensor

import trnsolver

Call = Callable[[], Any]
Row = tuple[str, str, str, str]

ORDERS = (64, 256, 512)
BATCHES = ((500, 100), (64, 32), (5000, 8))
TURN_S = 5e-3
LSTSQ_RATIO = 1.2
"""Largest time of tall ``lstsq``, which proves its rank, in that of torch's pivoted QR."""


@dataclass(frozen=True)
class Problem:
    """A trnsolver call, its baseline, and the error of the trnsolver result."""

    name: str
    ours: Call
    rival: Call
    judge: Callable[[Any], str]
    has_goal: bool = True
    most: float | None = None
    """Largest ratio of the times, if it is not the usual one."""


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Return normal numbers in float32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def off(product: Tensor, a: Tensor) -> str:
    """Return the relative error of a product of factors."""
    wide = a.double()
    return f"error {float((product - wide).norm() / wide.norm()):.1e}"


def left_over(a: Tensor, x: Tensor, b: Tensor) -> str:
    """Return the relative residual."""
    wide = b.double()
    return f"residual {float((wide - a.double() @ x.double()).norm() / wide.norm()):.1e}"


def factorizations(n: int, device: str) -> list[Problem]:
    """Return the problems of one order for which torch has routines."""
    a = draw(n, n).to(device)
    spd = (a @ a.mT / n + torch.eye(n, device=device)).contiguous()
    sym = a + a.mT
    tall = draw(8 * n, n // 4, seed=1).to(device)
    b = draw(n, 4, seed=2).to(device)
    linalg = torch.linalg

    def wide(*parts: Tensor) -> list[Tensor]:
        return [part.double() for part in parts]

    def of_cholesky(factor: Tensor) -> str:
        (lower,) = wide(factor)
        return off(lower @ lower.mT, spd)

    def of_product(*parts: Tensor, of: Tensor = a) -> str:
        product, *rest = wide(*parts)
        for part in rest:
            product = product @ part
        return off(product, of)

    return [
        Problem(
            f"cholesky {n}",
            lambda: trnsolver.cholesky(spd),
            lambda: linalg.cholesky(spd),
            of_cholesky,
        ),
        Problem(f"lu {n}", lambda: trnsolver.lu(a), lambda: linalg.lu(a), lambda f: of_product(*f)),
        Problem(f"qr {n}", lambda: trnsolver.qr(a), lambda: linalg.qr(a), lambda f: of_product(*f)),
        Problem(
            f"cholqr2 {8 * n} x {n // 4}",
            lambda: trnsolver.cholqr2(tall),
            lambda: linalg.qr(tall),
            lambda f: of_product(*f, of=tall),
        ),
        Problem(
            f"svd {n}",
            lambda: trnsolver.svd(a),
            lambda: linalg.svd(a, full_matrices=False),
            lambda f: of_product(f[0] * f[1], f[2]),
        ),
        Problem(
            f"eigh {n}",
            lambda: trnsolver.eigh(sym),
            lambda: linalg.eigh(sym),
            lambda f: of_product(f[1] * f[0], f[1].mT, of=sym),
        ),
        Problem(
            f"solve {n}",
            lambda: trnsolver.solve(a, b),
            lambda: linalg.solve(a, b),
            lambda x: left_over(a, x, b),
        ),
        Problem(
            f"solve_spd {n}",
            lambda: trnsolver.solve_spd(spd, b),
            lambda: torch.cholesky_solve(b, linalg.cholesky(spd)),
            lambda x: left_over(spd, x, b),
        ),
        Problem(
            f"inv_sqrt_spd {n}",
            lambda: trnsolver.inv_sqrt_spd(spd),
            lambda: _by_eigenvalues(spd),
            lambda x: off(x.double() @ spd.double() @ x.double(), torch.eye(n, device=device)),
        ),
        Problem(
            f"expm {n}",
            lambda: trnsolver.expm(sym / n),
            lambda: linalg.matrix_exp(sym / n),
            lambda x: "",
        ),
    ]


def _by_eigenvalues(a: Tensor) -> Tensor:
    w, v = torch.linalg.eigh(a)
    return (v * w.rsqrt()) @ v.mT


def cheaper(n: int) -> list[Problem]:
    """Return CPU problems that compute part of the result, such as some eigenvalues."""
    rng = np.random.default_rng(0)
    q = torch.from_numpy(np.linalg.qr(rng.standard_normal((n, n)))[0])
    falling = (q * 0.7 ** torch.arange(n, dtype=torch.float64)) @ q.mT
    falling = 0.5 * (falling + falling.mT)
    spd = (draw(n, n) @ draw(n, n).mT / n + torch.eye(n)).double()
    general = draw(n, n).double() / n**0.5 + 2 * torch.eye(n)
    b = draw(n, seed=3).double()
    return [
        Problem(
            f"eigh {n}, 4 smallest",
            lambda: trnsolver.eigh(spd, k=4),
            lambda: torch.linalg.eigh(spd),
            lambda f: f"residual {float((spd @ f[1] - f[1] * f[0]).norm()):.1e}",
        ),
        Problem(
            f"eigh {n}, 8 largest to 1e-6",
            lambda: trnsolver.eigh(falling, 1e-6, k=8, which="largest"),
            lambda: trnsolver.eigh(falling, k=8, which="largest"),  # its residual is not measured
            lambda f: f"{f.info.method}, {f.info.iterations} rounds, {f.info.backward_error:.1e}",
            has_goal=False,
        ),
        Problem(
            f"rsvd {n}, rank 10",
            lambda: trnsolver.rsvd(falling, 10),
            lambda: torch.linalg.svd(falling),
            lambda f: off(f.U * f.s @ f.Vh, falling),
        ),
        Problem(
            f"cg {n}",
            lambda: trnsolver.cg(spd, b, tol=1e-8),
            lambda: scipy.sparse.linalg.cg(spd.numpy(), b.numpy(), rtol=1e-8),
            lambda x: f"{x.iterations} iterations, {left_over(spd, x.x, b)}",
        ),
        Problem(
            f"gmres {n}",
            lambda: trnsolver.gmres(general, b, tol=1e-8),
            lambda: scipy.sparse.linalg.gmres(general.numpy(), b.numpy(), rtol=1e-8, restart=30),
            lambda x: f"{x.info.matvecs} products, {left_over(general, x.x, b)}",
        ),
        Problem(
            f"inv_sqrt_spd_ns {n}",
            lambda: trnsolver.inv_sqrt_spd_ns(spd, tol=1e-10),
            lambda: _by_eigenvalues(spd),
            lambda x: f"{x.iterations} steps, {x.residual:.1e}",
            has_goal=False,
        ),
        Problem(
            f"schur {min(n, 128)}",
            lambda: trnsolver.schur(general[:128, :128]),
            lambda: scipy.linalg.schur(general[:128, :128].numpy()),
            lambda f: off(f.Q @ f.T_ @ f.Q.mT, general[:128, :128]),
        ),
    ]


def least_squares() -> list[Problem]:
    """Return tall problems with one right-hand side, by torch's default driver on the CPU."""
    found = []
    for m, n in ((1000, 20), (600, 200), (2000, 400), (10000, 200)):
        tall, side = draw(m, n), draw(m, 1, seed=3)
        found.append(
            Problem(
                f"lstsq {m} x {n}",
                lambda tall=tall, side=side: trnsolver.lstsq(tall, side),
                lambda tall=tall, side=side: torch.linalg.lstsq(tall, side),
                lambda f: f"rank {int(f.rank)}",
                most=LSTSQ_RATIO,
            )
        )
    return found


def batches(device: str) -> list[Problem]:
    """Return batches of symmetric matrices, and of others."""
    found = []
    for count, n in BATCHES:
        a = draw(count, n, n).to(device)
        sym = a + a.mT
        found.append(
            Problem(
                f"eigh {count} x {n} x {n}",
                lambda sym=sym: trnsolver.eigh(sym),
                lambda sym=sym: torch.linalg.eigh(sym),
                lambda f, sym=sym: off(
                    (f[1].double() * f[0].double().unsqueeze(-2)) @ f[1].double().mT, sym
                ),
            )
        )
        found.append(
            Problem(
                f"svd {count} x {n} x {n}",
                lambda a=a: trnsolver.svd(a),
                lambda a=a: torch.linalg.svd(a, full_matrices=False),
                lambda f, a=a: off(
                    (f[0].double() * f[1].double().unsqueeze(-2)) @ f[2].double(), a
                ),
            )
        )
        for part in (a, a[..., : n // 4].contiguous()):
            found.append(
                Problem(
                    f"qr {count} x {n} x {part.shape[-1]}",
                    lambda part=part: trnsolver.qr(part),
                    lambda part=part: torch.linalg.qr(part),
                    lambda f, part=part: off(f[0].double() @ f[1].double(), part),
                )
            )
    return found


def timed(problem: Problem, device: str, keep: bool) -> dict[str, Timing]:
    """Return the times of both contenders, one call each."""
    clock = clock_for(device, torch.get_num_threads(), keep)
    finish = torch.cuda.synchronize if device == "cuda" else None
    once = measure({"": problem.rival}, rounds=3, finish=finish)[""].p50
    return measure(
        {"trnsolver": problem.ours, "rival": problem.rival},
        rounds=9 if once > 0.2 else 31,
        clock=clock,
        calls=max(1, round(TURN_S / max(once, 1e-7))),
        finish=finish,
    )


def rows_of(problems: list[Problem], device: str, keep: bool) -> list[Row]:
    """Return a row of the table for each problem."""
    rows = []
    for problem in problems:
        times = timed(problem, device, keep)
        ours, rival = times["trnsolver"], times["rival"]
        shown, goal, verdict = judged(ours, rival, "baseline")
        if not problem.has_goal:
            goal = verdict = ""
        if problem.most is not None:
            goal = f"{problem.most:g}"
            verdict = "missed" if ratio(ours, rival) > problem.most * NEAR else ""
        rows.append((problem.name, f"{shown}  {problem.judge(problem.ours())}", goal, verdict))
        if keep:
            record("solver", problem.name, times)
    return rows


def accuracy() -> list[Row]:
    """Return the reported and the actual errors for a target of 1e-10."""
    import mpmath

    rows = []
    n = 50
    for power in range(3, 10):
        rng = np.random.default_rng(power)
        q, p = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        a = torch.from_numpy(q * np.logspace(0, -power, n) @ p).float()
        b = torch.from_numpy(rng.standard_normal(n)).float()
        x, info = trnsolver.solve(a, b, target_forward_error=1e-10)
        with mpmath.workdps(60):
            exact = mpmath.lu_solve(mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist()))
            errors = [abs(mpmath.mpf(v) - w) for v, w in zip(x.tolist(), exact, strict=True)]
            actual = float(max(errors) / max(abs(w) for w in exact))
        text = (
            f"bound {info.forward_error:.1e}, actual {actual:.1e}, condition {info.condition:.1e}, "
            f"{info.iterations} corrections, {'; '.join(info.precision)}"
        )
        good = actual <= info.forward_error <= 1e-10
        rows.append((f"condition 1e{power}", text, "1e-10", "" if good else "missed"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="trnsolver compared with torch.linalg and scipy")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--least-squares", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.accuracy:
        show(accuracy())
        return
    if options.least_squares:
        show(rows_of(least_squares(), "cpu", options.record))
        return
    device = "cuda" if options.cuda else "cpu"
    problems = [problem for n in ORDERS for problem in factorizations(n, device)]
    problems += batches(device)
    if device == "cpu":
        problems += cheaper(256) + cheaper(600) + least_squares()
    show(rows_of(problems, device, options.record))


if __name__ == "__main__":
    main()
