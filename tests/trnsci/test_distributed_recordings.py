"""Plans of distributed calls against recordings of these calls, of every rank.

A recording runs the public function as one rank of a virtual mesh, on meta tensors. Where what a
call does depends on values (sparse matrices, iterations, rows that ranks tell each other), all
ranks run in threads on real tensors.
"""

from collections import Counter
from functools import partial
from itertools import product
from math import inf, prod
from threading import Barrier, Thread

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard

import trnblas.distributed as blas
import trnfft.distributed as fft
import trnsolver.distributed as solver
import trnsparse
import trnsparse.distributed as sparse
import trntensor.distributed as tensor
from each_case import each_case
from pairwise import in_turn, pairwise
from trnsci.core.distributed.layout import Layout
from trnsci.core.distributed.recording import operand, record, virtual_mesh

F32, F64, C64 = torch.float32, torch.float64, torch.complex64
ROWS, COLUMNS, EVERY = Shard(0), Shard(1), Replicate()
SPLITS = (ROWS, COLUMNS, EVERY)


def recorded(mesh, given, call):
    """Return the recording of each rank; ``given`` has a shape, placements and dtype for each."""
    found = []
    for rank in range(prod(mesh)):
        there = virtual_mesh(mesh, rank)
        found.append(record(there, lambda at=there: ([operand(at, *x) for x in given], call)))
    return found


# -- comparison ------------------------------------------------------------------------------------


def _planned(plan, steps):
    """Return, for each kind of collective, the bytes of every rank and the messages."""
    found = {}
    for step in steps:
        if step.kind != "compute":
            received, messages = found.get(step.kind, ((0,) * plan.ranks, 0))
            sums = tuple(a + b for a, b in zip(received, step.received, strict=True))
            found[step.kind] = sums, messages + step.messages
    return found


def _recorded(ranks):
    """Return the same of recorded collectives.

    The ranks of a group take part in the same collectives: of each, the messages are those of the
    rank with most. Of the groups along a mesh dimension, the one with most messages counts.
    """
    found = {}
    for kind in {each.kind for rank in ranks for each in rank}:
        same = [[each for each in rank if each.kind == kind] for rank in ranks]
        messages = Counter()
        for members in {each.members for rank in same for each in rank}:
            there = [[x.messages for x in same[rank] if x.members == members] for rank in members]
            along = tuple(rank - members[0] for rank in members)
            messages[along] = max(messages[along], sum(map(max, zip(*there, strict=True))))
        received = tuple(sum(each.received for each in rank) for rank in same)
        found[kind] = received, messages.total()
    return found


def compare(plan, recordings, slack=1):
    """Assert that bytes, messages and memory of a plan are those of recordings of its ranks.

    Memory that is bounded, because it depends on values, is at most ``slack`` times too high.
    """
    nothing = (0,) * plan.ranks, 0
    for name, steps in (("forward", plan.steps), ("backward", plan.backward)):
        planned = _planned(plan, steps)
        seen = _recorded([getattr(each, name) for each in recordings])
        for kind in {*planned, *seen}:
            assert planned.get(kind, nothing) == seen.get(kind, nothing), (name, kind)
    recorded = [each.peak_bytes for each in recordings]
    most = max(recorded)
    assert most <= plan.held(recorded.index(most)) <= slack * most


# -- matrices and tensors --------------------------------------------------------------------------


def _both(library, function, shapes, mesh, given, *, text=(), factors=(), dtype=F32, **options):
    """Return the plan of a call and its recordings."""
    operands = [(shape, each, dtype) for shape, each in zip(shapes, given, strict=True)]
    plan = library.plan(
        function, *text, *shapes, mesh=mesh, in_placements=given, dtype=dtype, **options
    )
    routine = partial(getattr(library, function), *text, *factors, **options)
    return plan, recorded(mesh, operands, lambda *x, check: [routine(*x, check=check)])


gemm = partial(_both, blas, "gemm", factors=(2.0,))
product_of_two = partial(_both, tensor, "einsum", text=("mk,kn->mn",))
MESHES = [(1,), (2,), (3,), (4,), (2, 2), (2, 3), (3, 1)]
PLACES = {
    1: [(each,) for each in SPLITS],
    2: [(ROWS, COLUMNS), (COLUMNS, EVERY), (EVERY, EVERY)],
}
"""Placements by the number of mesh dimensions."""

each_mesh = pytest.mark.parametrize("mesh", [(1,), (3,), (4,), (2, 2), (2, 3)], ids=str)
# Plans have rules for two operands, and for an operand and the result; none for three of them.
combined = pytest.mark.parametrize(
    "combined", [pairwise, pytest.param(product, marks=pytest.mark.slow)]
)


@combined
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_products(mesh, combined):
    places = PLACES[len(mesh)]
    wanted = (None, *places) if len(mesh) == 1 else (None, (EVERY, COLUMNS))
    for call, left, right, out in combined((gemm, product_of_two), places, places, wanted):
        compare(*call(((5, 7), (7, 4)), mesh, (left, right), placements=out))


def test_products_with_transposes_panels_and_dtypes():
    splits = ((ROWS, COLUMNS),) * 2
    for flags in product((False, True), repeat=2):
        shapes = [s[::-1] if flag else s for s, flag in zip(((6, 4), (4, 5)), flags, strict=True)]
        options = {"transA": flags[0], "transB": flags[1]}
        compare(*gemm(shapes, (2, 2), splits, dtype=C64, **options))
    for shapes in (((8, 1100), (1100, 6)), ((1100, 8), (8, 1300)), ((4, 0), (0, 3))):
        for mesh in ((2, 2), (3, 2)):
            compare(*gemm(shapes, mesh, splits, dtype=F64))


def test_gemm_and_einsum_have_one_schedule():
    for mesh in MESHES:
        places = PLACES[len(mesh)]
        sizes = (5, 7, 4), (64, 8, 128), (3, 100, 100)
        for left, right, (m, k, n) in product(places, places, sizes):
            options = {"mesh": mesh, "in_placements": (left, right)}
            plans = (
                blas.plan("gemm", (m, k), (k, n), **options),
                tensor.plan("einsum", "mk,kn->mn", (m, k), (k, n), **options),
            )
            totals = [[plan.received(rank) for rank in range(plan.ranks)] for plan in plans]
            assert totals[0] == totals[1]


@each_mesh
def test_symmetric_products(mesh):
    for given, trans in product(PLACES[len(mesh)], (False, True)):
        compare(*_both(blas, "syrk", [(5, 7)], mesh, [given], factors=(2.0,), trans=trans))


@combined
@each_mesh
def test_triangular_systems(mesh, combined):
    places = PLACES[len(mesh)]
    for *given, side, columns in combined(places, places, ("left", "right"), (2, 30)):
        shape = (5, columns) if side == "left" else (columns, 5)
        uplo = "upper" if columns == 2 else "lower"
        options = {"factors": (2.0,), "side": side, "uplo": uplo}
        compare(*_both(blas, "trsm", [(5, 5), shape], mesh, given, **options))


@each_case(
    ("mesh", "shapes"),
    in_turn([(1,), (2,), (4,), (3,), (2, 2), (2, 3)], [((8, 4, 6),), ((7, 3, 5), (2, 3, 4))]),
)
def test_pair_energies(mesh, shapes):
    every = (EVERY,) * len(mesh)

    def call(B, occupied, virtual, check):
        return [blas.batched_pair_energy(B, occupied.to_local(), virtual.to_local(), check=check)]

    for shape in shapes:
        given = [((ROWS, EVERY)[: len(mesh)], shape), (every, shape[:1]), (every, shape[1:2])]
        operands = [(size, places, F32) for places, size in given]
        plan = blas.plan("batched_pair_energy", shape, mesh=mesh)
        compare(plan, recorded(mesh, operands, call))


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("bij,bjk->bik", ((4, 5, 3), (4, 3, 6))),
        ("ij,jk,kl->il", ((5, 4), (4, 6), (6, 3))),
        ("ii->i", ((5, 5),)),
        ("ij->", ((5, 4),)),
        ("ii,ij->j", ((5, 5), (5, 4))),
        ("ij,ij->ij", ((5, 1), (1, 4))),
    ],
)
@pytest.mark.parametrize("mesh", [(1,), (3,), (4,), (2, 2)], ids=str)
def test_contractions(mesh, subscripts, shapes):
    for places in ((ROWS, COLUMNS), (COLUMNS, ROWS), (EVERY, EVERY), (EVERY, ROWS)):
        given = [places[: len(mesh)]] * len(shapes)
        compare(*_both(tensor, "einsum", shapes, mesh, given, text=(subscripts,), dtype=C64))


# -- transforms ------------------------------------------------------------------------------------


def _fft(kind, shape, mesh, given, dtype, **options):
    plan = fft.plan(kind, shape, mesh, in_placements=given, dtype=dtype, **options)
    call = lambda x, check: [getattr(fft, kind)(x, check=check, **options)]  # noqa: E731
    compare(plan, recorded(mesh, [(shape, given, dtype)], call))


@combined
@pytest.mark.parametrize("mesh", [(1,), (3,), (7,), (2, 2), (2, 3)], ids=str)
def test_transforms_of_dimensions(mesh, combined):
    kinds = ["fftn", "ifftn", "rfftn", "irfftn"]
    orders = [order[: len(mesh)] for order in ((ROWS, COLUMNS), (COLUMNS, ROWS))]
    cases = ({}, {"placements": ...}, {"dim": (-1,)}, {"s": (4, 9), "dim": (0, 1)})
    for kind, shape, given, options in combined(kinds, ((4, 6, 8), (5, 3, 7)), orders, cases):
        dtype = F32 if kind == "rfftn" else C64
        same = {"placements": given} if "placements" in options else {}
        _fft(kind, shape, mesh, given, dtype, **options | same)


@each_case(
    ("kind", "dtype", "p", "size"),
    pairwise(["fft", "ifft"], [F32, C64], (1, 3, 4), (12, 60, 35, 7)),
)
def test_transforms_of_vectors(kind, dtype, p, size):
    _fft(kind, (size,), (p,), (ROWS,), dtype)
    _fft(kind, (2, size), (p,), (COLUMNS,), dtype, transposed=True)
    _fft(kind, (5, 2 * size), (2, p), (ROWS, COLUMNS), dtype)


# -- solvers ---------------------------------------------------------------------------------------


def _layout(rows, columns):
    return Layout((sum(rows), columns), 0, tuple(sum(rows[:at]) for at in range(len(rows) + 1)))


@pytest.mark.parametrize("dtype", [F32, torch.complex128], ids=str)
@pytest.mark.parametrize("rows", [(9,), (4, 5), (6, 0, 3), (0, 5, 4, 2), (30, 20, 0)], ids=str)
@pytest.mark.parametrize("kind", ["tsqr", "lstsq", "rsvd", "msign", "cholesky", "solve_spd"])
def test_direct_solvers(kind, rows, dtype):
    layout = _layout(rows, sum(rows) if kind in ("cholesky", "solve_spd") else 4)
    widths = [layout.shape[1]] + [2] * (kind in ("lstsq", "solve_spd"))
    options = {"k": 2, "oversampling": 1} if kind == "rsvd" else {}

    def call(*operands, check, group):
        if kind in ("rsvd", "msign"):  # without gradients
            operands = [x.detach() for x in operands]
        routine = getattr(solver, kind)
        found = routine(*operands, group=group, layout=layout, check=check, **options)
        if kind == "tsqr":
            return list(found)
        return [found[0]] if isinstance(found, tuple) else [found]

    def problem(group, count):
        given = [torch.empty(count, width, dtype=dtype, device="meta") for width in widths]
        return given, partial(call, group=group)

    recordings = []
    for rank, count in enumerate(rows):
        mesh = virtual_mesh((len(rows),), rank)
        recordings.append(record(mesh, partial(problem, mesh.world, count)))
    compare(solver.plan(kind, layout, right_sides=2, dtype=dtype, **options), recordings)


# -- calls that depend on values -------------------------------------------------------------------


class World:
    """Ranks in threads that give each other values."""

    def __init__(self, size):
        self.size, self.barrier = size, Barrier(size, timeout=60)
        self.given, self.results, self.errors = [None] * size, [None] * size, []

    def meet(self, rank, value):
        self.given[rank] = value
        self.barrier.wait()
        found = list(self.given)
        self.barrier.wait()
        return found

    def run(self, function):
        """Return the results of a function of each rank's mesh."""

        def work(rank):
            try:
                mesh = virtual_mesh((self.size,), rank, lambda _: partial(self.meet, rank))
                self.results[rank] = function(mesh)
            except BaseException as error:
                self.errors.append(error)
                self.barrier.abort()

        threads = [Thread(target=work, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in self.errors:
            raise error
        return self.results


def _band(n):
    eye = torch.eye(n, dtype=F64)
    diagonal = torch.diag(torch.linspace(3, 9, n, dtype=F64))
    return trnsparse.from_dense(diagonal - eye.roll(1, 0) - eye.roll(-1, 0))


LAYOUTS = [(12,), (4, 8), (5, 0, 7), (3, 4, 4, 1)]


@pytest.mark.parametrize("sides", [1, 3])
@pytest.mark.parametrize("rows", LAYOUTS, ids=str)
def test_sparse_products(rows, sides):
    whole, layout = _band(12), _layout(rows, 12)

    def built(mesh):
        def call(check):
            sparse.RowShardedCSR.from_csr(whole, mesh.world, layout, check=check)
            return []

        return record(mesh, lambda: ([], call))

    def multiplied(mesh, transposed):
        def made():
            A = sparse.RowShardedCSR.from_csr(whole, mesh.world, layout)
            form, local = A.T if transposed else A, A.local
            X = torch.ones(rows[mesh.rank], *([sides] if sides > 1 else []), dtype=F64)
            held = [local.values, local.col_indices, local.row_ptrs, X]
            return held, lambda *x, check: [form.matmul(x[-1], check=check)]

        return record(mesh, made)

    plan = sparse.plan("RowShardedCSR", whole, layout)
    compare(plan, World(len(rows)).run(built), slack=inf)
    for function in ("matmul", "transposed"):
        plan = sparse.plan(function, whole, layout, right_sides=sides)
        found = World(len(rows)).run(partial(multiplied, transposed=function != "matmul"))
        compare(plan, found, slack=2)


@pytest.mark.parametrize("kind", ["cg", "minres"])
@pytest.mark.parametrize("rows", LAYOUTS, ids=str)
def test_iterative_solvers(rows, kind):
    dense, layout, taken = _band(12).to_dense(), _layout(rows, 12), []

    def solved(mesh):
        def made():
            own = dense[layout.rows(mesh.rank)].clone()
            return [own, torch.ones(rows[mesh.rank], dtype=F64)], call

        def call(A, b, check):
            found = getattr(solver, kind)(A, b, group=mesh.world, layout=layout, check=check)
            taken.append(found.iterations)
            return [found.x]

        return record(mesh, made)

    found = World(len(rows)).run(solved)
    plan = solver.plan(kind, layout, iterations=taken[0], dtype=F64)
    compare(plan, found, slack=2)


def test_rows_that_ranks_tell_each_other():
    rows = (4, 0, 5)

    def factorized(mesh):
        def call(A, check):
            return list(solver.tsqr(A, mesh.world, check=check))

        return record(mesh, lambda: ([torch.randn(rows[mesh.rank], 3, dtype=F64)], call))

    found = World(3).run(factorized)
    plan = solver.plan("tsqr", rows, 3, dtype=F64)
    compare(plan, found)
