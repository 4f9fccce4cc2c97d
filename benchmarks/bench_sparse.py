"""Speed of trnsparse compared with scipy.sparse and torch.sparse, in one run.

    python benchmarks/bench_sparse.py               print the table
    python benchmarks/bench_sparse.py --threads 4   with this number of torch threads
    python benchmarks/bench_sparse.py --cuda        on a CUDA device, against torch.sparse only
    python benchmarks/bench_sparse.py --only spmm   rows with this word in the name
    python benchmarks/bench_sparse.py --record      also append to benchmarks/results/
    python benchmarks/bench_sparse.py --predicted   device times at float32 and doublefloat only

The baseline of a row is the fastest of SciPy and torch.sparse on the same data, the latter with its
default int64 indices and with int32 for MKL; without MKL it has no product of blocks. The goal is
1.05 times the baseline from 200 us on; below, 5 us more for a product with a vector and 10 us for
the rest. Solvers, parts, and products of two sparse matrices have no goal; they are shown for
comparison. Padded rows (ELL) are compared with our CSR. Contenders are timed in turns, so that
noise is shared; with one CPU thread, thread time is used.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch
from runner import Timing, clock_for, judged, measure, record, show
from torch import Tensor

import nkisim
import trnsolver
import trnsparse as ts
from trnsci.core.backend.launch import SIMULATE
from trnsci.core.backend.precision import precision

Call = Callable[[], object]
Row = tuple[str, str, str, str]

SIZES, DENSITIES, WIDTHS = (256, 1024, 4096), (0.001, 0.01, 0.1), (1, 32, 128)
BLOCK_GRIDS = ((4, 0.25, 128), (8, 0.1, 128), (8, 0.25, 256), (8, 0.5, 256), (16, 0.25, 256))
TURN_S, ROUNDS = 3e-3, 9


@dataclass(frozen=True)
class Problem:
    """One task: the trnsparse call, the baselines, and the time that may be added."""

    name: str
    ours: Call
    rivals: dict[str, Call]
    inner: bool = False
    has_goal: bool = True


def matrices(size: int, density: float, device: str) -> tuple[ts.CSRMatrix, sp.csr_array, Tensor]:
    """Return one random matrix in the formats of trnsparse, SciPy and torch."""
    rng = np.random.default_rng(0)
    found = sp.random_array((size, size), density=density, format="csr", rng=rng, dtype=np.float32)
    ours = ts.from_scipy(found).to(device)
    wide = ours.row_ptrs.long(), ours.col_indices.long(), ours.values
    return ours, found, torch.sparse_csr_tensor(*wide, ours.shape)


def narrowed(tensor: Tensor) -> Tensor:
    """Return a CSR tensor with int32 indices, as MKL requires."""
    parts = tensor.crow_indices().int(), tensor.col_indices().int(), tensor.values()
    return torch.sparse_csr_tensor(*parts, tensor.shape)


def conversions(device: str) -> Iterator[Problem]:
    for size, density in ((1024, 0.01), (1024, 0.1), (4096, 0.01)):
        A, S, T = matrices(size, density, device)
        name = f"{size}, {density:.1%}"
        dense = A.to_dense()
        rng = np.random.default_rng(1)
        order = torch.from_numpy(rng.permutation(A.nnz)).to(device)
        coo = A.to_coo()
        C = ts.COOMatrix(coo.values[order], coo.row_indices[order], coo.col_indices[order], A.shape)
        places = torch.stack([C.row_indices, C.col_indices]).long()
        rivals: dict[str, Call] = {"torch": lambda d=dense: d.to_sparse_csr()}
        on_cpu = device == "cpu"
        if on_cpu:
            array = dense.numpy()
            rivals["scipy"] = lambda d=array: sp.csr_array(d)
        yield Problem(f"from_dense {name}", lambda d=dense: ts.from_dense(d), rivals)

        def from_coo(p=places, v=C.values, s=A.shape):
            return torch.sparse_coo_tensor(p, v, s).coalesce().to_sparse_csr()

        rivals = {"torch": from_coo}
        if on_cpu:
            K = C.to_scipy()
            rivals["scipy"] = lambda K=K: sp.coo_array((K.data, K.coords), K.shape).tocsr()

        def to_csr(C=C):
            return ts.COOMatrix(
                C.values, C.row_indices, C.col_indices, C.shape, validate=False
            ).to_csr()

        yield Problem(f"coo to csr {name}", to_csr, rivals)

        def fresh(A=A):  # a new matrix without cached properties
            return ts.CSRMatrix(
                A.values, A.col_indices.view(-1), A.row_ptrs.view(-1), A.shape, validate=False
            )

        rivals = {"torch": lambda T=T: T.to_sparse_csc()}
        if on_cpu:
            rivals["scipy"] = lambda S=S: S.tocsc()
        yield Problem(f"csr to csc {name}", lambda f=fresh: f().to_csc(), rivals)
        rivals = {"torch": lambda T=T: T.to_sparse_coo()}
        if on_cpu:
            rivals["scipy"] = lambda S=S: S.tocoo()
        yield Problem(f"csr to coo {name}", lambda f=fresh: f().to_coo(), rivals)
        rivals = {"torch": lambda T=T: T.to_dense()}
        if on_cpu:
            rivals["scipy"] = lambda S=S: S.toarray()
        # This uses no cached properties of the matrix, so any matrix is valid.
        yield Problem(f"csr to dense {name}", lambda A=A: A.to_dense(), rivals)
        C, B = A.to_csc(), A.to_bsr(8)
        of_csc, of_bsr, of_coo = C.to_scipy(), B.to_scipy(), coo.to_scipy()
        pairs: dict[str, tuple[Call, Call]] = {
            "csc to csr": (lambda C=C: C.to_csr(), lambda S=of_csc: S.tocsr()),
            "csc to coo": (lambda C=C: C.to_coo(), lambda S=of_csc: S.tocoo()),  # by column
            "csc to dense": (lambda C=C: C.to_dense(), lambda S=of_csc: S.toarray()),
            "coo to dense": (lambda C=coo: C.to_dense(), lambda S=of_coo: S.toarray()),
            "bsr 8 to csr": (lambda B=B: B.to_csr(), lambda S=of_bsr: S.tocsr()),  # with zeros
            "from_scipy csc": (lambda S=of_csc: ts.from_scipy(S), lambda S=of_csc: S.tocsr()),
        }
        for kind, (ours, scipys) in pairs.items() if on_cpu else ():
            yield Problem(f"{kind} {name}", ours, {"scipy": scipys})
        rivals = {"torch": lambda T=T: T.to_sparse_bsr((32, 32))}
        if on_cpu:
            rivals["scipy"] = lambda S=S: S.tobsr((32, 32))
        yield Problem(f"csr to bsr 32 {name}", lambda f=fresh: f().to_bsr(32), rivals)


def products(device: str) -> Iterator[Problem]:
    for size in SIZES:
        for density in DENSITIES:
            if size == 4096 and density > 0.05:
                continue
            A, S, T = matrices(size, density, device)
            N = narrowed(T)
            for width in WIDTHS:
                B = torch.randn(size, width, device=device)
                B = B[:, 0].contiguous() if width == 1 else B
                rivals: dict[str, Call] = {
                    "torch": lambda T=T, B=B: T @ B,
                    "torch int32": lambda N=N, B=B: N @ B,
                }
                if device == "cpu":
                    array = B.numpy()
                    rivals["scipy"] = lambda S=S, b=array: S @ b
                kind = "spmv" if width == 1 else "spmm"
                yield Problem(
                    f"{kind} {size}, {density:.1%}, {width}",
                    lambda A=A, B=B: A @ B,
                    rivals,
                    inner=width == 1,
                )


def transposes(device: str) -> Iterator[Problem]:
    for size, row in ((1_000, 5), (1_000, 50), (10_000, 5), (10_000, 50), (100_000, 5)):
        for dtype in (torch.float32, torch.float64):
            A, S, T = matrices(size, row / size, device)
            A, T = A.to(dtype), T.to(dtype)
            x = torch.randn(size, dtype=dtype, device=device)
            rivals: dict[str, Call] = {"torch": lambda T=T, x=x: T.t() @ x}
            if device == "cpu":
                array = x.numpy()
                S = S.astype(array.dtype)
                rivals["scipy"] = lambda S=S, a=array: S.T @ a
            view = A.transposed_view
            calls: dict[str, Call] = {
                "A.T @ x": lambda A=A, x=x: A.T @ x,
                "A.transposed_view() @ x": lambda v=view, x=x: v() @ x,
                "x @ A": lambda A=A, x=x: x @ A,
            }
            for name, call in calls.items():
                kind = str(dtype).removeprefix("torch.")
                yield Problem(f"{name} {size}, {row} a row, {kind}", call, rivals, inner=True)


def gradients(device: str) -> Iterator[Problem]:
    for size, density, width in ((1024, 0.01, 32), (4096, 0.01, 32)):
        A, _, _ = matrices(size, density, device)
        values = A.values.clone().requires_grad_()
        B = torch.randn(size, width, device=device, requires_grad=True)
        coo = A.to_coo()
        places = torch.stack([coo.row_indices, coo.col_indices])

        def ours(A=A, v=values, B=B):
            (A.with_values(v) @ B).sum().backward()

        def torchs(p=places, v=values, B=B, s=A.shape):
            torch.sparse.mm(torch.sparse_coo_tensor(p, v, s, is_coalesced=True), B).sum().backward()

        yield Problem(
            f"forward and backward {size}, {density:.1%}, {width}", ours, {"torch": torchs}
        )


def blocks(device: str) -> Iterator[Problem]:
    for grid, density, width in BLOCK_GRIDS:
        generator = torch.Generator().manual_seed(0)
        kept = torch.rand(grid, grid, generator=generator) < density
        kept[0, 0] = True
        rows, columns = kept.nonzero(as_tuple=True)
        pointers = torch.zeros(grid + 1, dtype=torch.int64)
        pointers[1:] = torch.bincount(rows, minlength=grid).cumsum(0)
        data = torch.randn(rows.numel(), 128, 128, generator=generator)
        A = ts.BSRMatrix(data, columns, pointers, (grid * 128, grid * 128)).to(device)
        T = A.to_torch_sparse()
        B = torch.randn(grid * 128, width, device=device)
        rivals: dict[str, Call] = {}
        if device == "cuda" or torch.backends.mkl.is_available():
            rivals["torch"] = lambda T=T, B=B: T @ B
        if device == "cpu":
            S, array = A.to_scipy(), B.numpy()
            rivals["scipy"] = lambda S=S, b=array: S @ b
        yield Problem(
            f"bsr spmm {grid} x {grid} blocks, {density:.0%}, {width}",
            lambda A=A, B=B: A @ B,
            rivals,
        )


def attention(device: str) -> Iterator[Problem]:
    heads, tokens, width, block = 8, 2048, 64, 128
    generator = torch.Generator().manual_seed(0)
    Q, K, V = (
        torch.randn(1, heads, tokens, width, generator=generator).to(device) for _ in range(3)
    )
    mask = ts.local_window_mask(tokens, 1, block)
    seen = torch.arange(tokens, device=device) // block
    dense = (seen[:, None] - seen[None, :]).abs() <= 1
    usual = torch.nn.functional.scaled_dot_product_attention
    yield Problem(
        f"attention {tokens} tokens, window 1",
        lambda: ts.block_sparse_attention(Q, K, V, mask),
        {"torch, dense mask": lambda: usual(Q, K, V, attn_mask=dense)},
    )


def solutions(device: str) -> Iterator[Problem]:
    if device != "cpu":
        return
    n = 64
    one = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=(-1, 0, 1))
    eye = sp.eye_array(n)
    S = (sp.kron(one, eye) + sp.kron(eye, one)).tocsr()
    A, b = ts.from_scipy(S), np.ones(n * n)
    x = torch.from_numpy(b)
    lower = sp.tril(S).tocsr()
    L = ts.from_scipy(lower)
    pairs: dict[str, tuple[Call, Call]] = {
        "cg, Laplacian 64 x 64": (
            lambda: ts.cg(A, x, tol=1e-8),
            lambda: spl.cg(S, b, rtol=1e-8),
        ),
        "spsolve, Laplacian 64 x 64": (
            lambda: ts.spsolve(A, x),
            lambda: spl.splu(S.tocsc()).solve(b),
        ),
        "sptrsv, Laplacian 64 x 64": (
            lambda: ts.sptrsv(L, x),
            lambda: spl.spsolve_triangular(lower, b),
        ),
        "spgemm, Laplacian 64 x 64": (lambda: A @ A, lambda: S @ S),
        # SciPy's stopping rule has the norms of A and x in it, so it makes fewer iterations.
        "minres, Laplacian 64 x 64": (
            lambda: ts.minres(A, x, tol=1e-8),
            lambda: spl.minres(S, b, rtol=1e-8),
        ),
        "ichol_preconditioner, Laplacian 64 x 64": (
            lambda: ts.ichol_preconditioner(A),
            lambda: spl.spilu(S.tocsc(), fill_factor=1, drop_tol=0),
        ),
    }
    rng = np.random.default_rng(0)
    R = sp.random_array((20_000, 20_000), density=5 / 20_000, format="csr", rng=rng)
    B = ts.from_scipy(R)
    pairs["A[::2], order 20,000"] = lambda: B[::2], lambda: R[::2]
    for name, (ours, scipys) in pairs.items():
        yield Problem(name, ours, {"scipy": scipys}, has_goal=False)


def rearranged(A: ts.CSRMatrix, S: sp.csr_array) -> dict[str, tuple[Call, Call]]:
    """Return calls of trnsparse and SciPy, and of padded rows (ELL) and CSR."""
    size, line = A.shape[0], [-1.0, 2.0, -1.0]
    columns = torch.from_numpy(np.random.default_rng(1).permutation(size))
    chosen, part = columns.numpy(), slice(10, size // 2)
    learned, narrow = A.clone().requires_grad_(), A.to(torch.bfloat16)
    D = sp.diags_array(line, offsets=[-1, 0, 1], shape=(3, 3), format="csr")
    M = ts.from_scipy(D).to(A.dtype)
    x, E, F = torch.randn(size), A.to_ell(), ts.diags([*line, *line], range(-3, 3), A.shape)
    padded = F.to_ell()
    return {
        "A @ A": (lambda: A @ A, lambda: S @ S),
        "A @ A, recorded by autograd": (lambda: learned @ learned, lambda: S @ S),
        "A @ A, bfloat16": (lambda: narrow @ narrow, lambda: S @ S),
        "A[:, columns]": (lambda: A[:, columns], lambda: S[:, chosen]),
        "A[:, a:b]": (lambda: A[:, part], lambda: S[:, part]),
        "A.max(1)": (lambda: A.max(1), lambda: S.max(axis=1)),
        "kron(A, 3 x 3)": (lambda: ts.kron(A, M), lambda: sp.kron(S, D, format="csr")),
        "hstack": (lambda: ts.hstack([A, A]), lambda: sp.hstack([S, S], format="csr")),
        "ELL @ x": (lambda: E @ x, lambda: A @ x),
        "ELL @ x, six diagonals": (lambda: padded @ x, lambda: F @ x),
    }


def rearrangements(device: str) -> Iterator[Problem]:
    if device != "cpu":
        return
    for size, density in ((1_000, 0.01), (1_000, 1e-4), (10_000, 1e-3), (100_000, 1e-5)):
        A, S, _ = matrices(size, density, device)
        for name, (ours, rival) in rearranged(A, S).items():
            label = f"{name}, order {size:,}, density {density:g}"
            kind = "CSR" if name.startswith("ELL") else "scipy"
            yield Problem(label, ours, {kind: rival}, has_goal=False)


def plain_cg(product: Callable[[Tensor], Tensor], b: Tensor, tol: float) -> Tensor:
    """Return a solution by the iteration of ``cg`` in plain torch, without a report."""
    x, r, p = torch.zeros_like(b), b.clone(), b.clone()
    square = torch.dot(r, r).item()
    goal = tol * tol * square
    while square > goal:
        image = product(p)
        alpha = square / torch.dot(p, image).item()
        x.add_(p, alpha=alpha)
        r.sub_(image, alpha=alpha)
        before, square = square, torch.dot(r, r).item()
        p.mul_(square / before).add_(r)
    return x


def iterations(device: str) -> Iterator[Problem]:
    if device != "cpu":
        return
    one = sp.diags_array([-np.ones(15), 2 * np.ones(16), -np.ones(15)], offsets=(-1, 0, 1))
    eye = sp.eye_array(16)
    for dtype, tol in ((torch.float64, 1e-8), (torch.float32, 1e-5)):
        A = ts.from_scipy((sp.kron(one, eye) + sp.kron(eye, one)).tocsr()).to(dtype)
        D, T = A.to_dense(), narrowed(A.to_torch_sparse())
        b = torch.randn(256, dtype=dtype)
        kind = str(dtype).removeprefix("torch.")
        yield Problem(
            f"cg of order 256, {kind}",
            lambda A=A, b=b, tol=tol: ts.cg(A, b, tol=tol),
            {"torch loop": lambda T=T, b=b, tol=tol: plain_cg(T.__matmul__, b, tol)},
            has_goal=False,
        )
        yield Problem(
            f"cg of order 256, dense, {kind}",
            lambda D=D, b=b, tol=tol: trnsolver.cg(D, b, tol=tol),
            {"torch loop": lambda D=D, b=b, tol=tol: plain_cg(D.mv, b, tol)},
            has_goal=False,
        )


GROUPS = (
    conversions,
    products,
    transposes,
    gradients,
    blocks,
    attention,
    solutions,
    rearrangements,
    iterations,
)


def level_problems() -> Iterator[tuple[str, Call]]:
    """Return products whose predicted times at two levels are compared.

    In float32 a matrix may hold dense tiles, which at doublefloat are not read.
    """
    rng = np.random.default_rng(0)
    near = sp.diags_array(
        [np.ones(2048 - abs(k)) for k in (-64, -8, -1, 0, 1, 8, 64)],
        offsets=(-64, -8, -1, 0, 1, 8, 64),
    )
    ragged = sp.random_array((1024, 1024), density=0.02, format="csr", rng=rng)
    for name, matrix in (("7 diagonals of order 2048", near), ("2% of order 1024", ragged)):
        A = ts.from_scipy(sp.csr_array(matrix).astype(np.float32))
        for width in (1, 16, 128):
            b = torch.randn(A.shape[1], width)
            yield f"{name}, {width} columns", lambda A=A, b=b: A.clone() @ b
            if width > 1:
                held = f"{name}, {width}, with held tiles"
                yield held, lambda A=A, b=b: A.clone().hold_tiles() @ b
    kept = torch.from_numpy(rng.random((12, 12)) < 0.3).repeat_interleave(128, 0)
    dense = torch.randn(1536, 1536) * kept.repeat_interleave(128, 1)
    for size in (128, 32):
        B = ts.BSRMatrix.from_dense(dense[: 12 * size, : 12 * size].contiguous(), size)
        for width in (1, 16, 128):
            b = torch.randn(B.shape[1], width)
            yield f"{B.n_blocks} blocks of {size}, {width} columns", lambda B=B, b=b: B @ b


def predicted() -> None:
    """Print the predicted times on gen3 of the launches at float32 and at doublefloat."""
    times: list[float] = []

    def profiled(kernel: object) -> Callable[..., object]:
        def call(*args: object) -> object:
            profile = nkisim.profile(kernel, "gen3", advice=False)(*args)
            times.append(profile.latency_us)
            return nkisim.simulate(kernel, target="gen3")(*args)

        return call

    print(f"{'us on gen3':<52}{'float32':>10}{'doublefloat':>13}{'ratio':>8}")
    with SIMULATE.scope(profiled), ts.backend("simulator"):
        for name, product in level_problems():
            found = []
            for level in ("float32", "doublefloat"):
                times.clear()
                with precision(level):
                    product()
                found.append(sum(times))
            print(f"{name:<52}{found[0]:>10.1f}{found[1]:>13.1f}{found[1] / found[0]:>8.2f}")


def timings_of(
    problem: Problem, device: str, clock: Callable[[], float]
) -> tuple[str, dict[str, Timing]]:
    """Return the fastest baseline, its seconds per call and ours."""
    finish = torch.cuda.synchronize if device == "cuda" else None
    once = measure({"": problem.ours}, 3, clock, finish=finish)[""].p50
    times = max(1, min(300, int(TURN_S / once)))
    duels = {}
    for name, rival in problem.rivals.items():
        pair = {"trnsparse": problem.ours, name: rival}
        duels[name] = measure(pair, ROUNDS, clock, times, finish)
    fastest = min(duels, key=lambda name: duels[name][name].p50)
    return fastest, duels[fastest]


def row_of(problem: Problem, rival: str, timings: dict[str, Timing]) -> Row:
    """Return a row: the ratio to the baseline, or the time added to a short call."""
    ours, best = timings["trnsparse"], timings[rival]
    shown, goal, verdict = judged(ours, best, rival, inner=problem.inner)
    if not problem.has_goal:
        goal = verdict = ""
    return problem.name, shown, goal, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--predicted", action="store_true")
    options = parser.parse_args()
    if options.predicted:
        predicted()
        return
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", message="Sparse")
    device = "cuda" if options.cuda else "cpu"
    machine = torch.cuda.get_device_name() if options.cuda else "CPU"
    print(f"{machine}, float32, torch {torch.__version__}, threads {options.threads}")
    clock = clock_for(device, options.threads, options.record)
    rows: list[Row] = []
    for group in GROUPS:
        for problem in group(device):
            if options.only not in problem.name:
                continue
            rival, timings = timings_of(problem, device, clock)
            rows.append(row_of(problem, rival, timings))
            if options.record:
                record("sparse", f"{problem.name} float32 {machine}", timings)
    show(rows)


if __name__ == "__main__":
    main()
