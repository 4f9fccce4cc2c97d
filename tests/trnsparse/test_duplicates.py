"""Duplicates of a place are summed by every public function, in and outside of compiled graphs.

The matrices are symmetric positive definite, with two and three entries at some places. The
definition is the result for the same matrix without duplicates.
"""

import inspect

import pytest
import torch

import trnsparse as ts
from trnsci.core.testing import random_tensor
from trnsci.core.testing.exempt import reason_of

ROWS, COLUMNS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2]), torch.tensor([0, 1, 0, 0, 1, 0, 1, 2, 2])
ENTRIES = torch.tensor([3.0, 1.0, 4.0, 2.0, 3.0, 1.0, 5.0, 2.0, 2.0], dtype=torch.float64)
DENSE = torch.tensor([[9.0, 1.0, 0.0], [1.0, 8.0, 0.0], [0.0, 0.0, 4.0]], dtype=torch.float64)
POINTERS = torch.tensor([0, 4, 7, 9])
SLOTS = torch.tensor([[0, 1, 0, 0], [1, 0, 1, -1], [2, 2, -1, -1]])
USED = (SLOTS.flatten() >= 0).nonzero().squeeze(-1)
X = random_tensor(3, dtype=torch.float64)
C, D = (random_tensor(3, 2, dtype=torch.float64, seed=seed) for seed in (1, 2))
ORDER = torch.tensor([2, 0, 1])


def slotted(x):
    return x.new_zeros(12).index_copy(0, USED, x).view(3, 4)


MAKERS = {
    "csr": lambda x: ts.CSRMatrix(x, COLUMNS, POINTERS, (3, 3), validate=False),
    "csc": lambda x: ts.CSCMatrix(x, COLUMNS, POINTERS, (3, 3), validate=False),  # symmetric
    "coo": lambda x: ts.COOMatrix(x, ROWS, COLUMNS, (3, 3), validate=False),
    "ell": lambda x: ts.ELLMatrix(slotted(x), SLOTS, (3, 3), validate=False),
    "bsr": lambda x: ts.BSRMatrix(
        x.reshape(-1, 1, 1), COLUMNS, POINTERS, (3, 3), 1, validate=False
    ),
}


CALLS = {
    "bandwidth": lambda A: torch.tensor(float(ts.bandwidth(A))),
    "block_jacobi_preconditioner": lambda A: ts.block_jacobi_preconditioner(A, 2)(X),
    "block_ordering": lambda A: ts.block_ordering(A, 2).rows.double(),
    "block_sparse_attention": lambda A: ts.block_sparse_attention(C, D, D, A.to_bsr(1)),
    "cg": lambda A: ts.cg(A, X, tol=1e-12).x,
    "chebyshev": lambda A: ts.chebyshev(A, X, 3.0, 11.0, 40).x,
    "hstack": lambda A: ts.hstack([A, A]).to_dense(),
    "ichol_preconditioner": lambda A: ts.ichol_preconditioner(A)(X),
    "ilu_preconditioner": lambda A: ts.ilu_preconditioner(A)(X),
    "jacobi_preconditioner": lambda A: ts.jacobi_preconditioner(A)(X),
    "kron": lambda A: ts.kron(A, A).to_dense(),
    "minres": lambda A: ts.minres(A, X, tol=1e-12).x,
    "permuted": lambda A: ts.permuted(A, ORDER).to_dense(),
    "power_iteration": lambda A: torch.tensor(ts.power_iteration(A, max_iter=400, tol=1e-9)[0]),
    "rcm": lambda A: ts.rcm(A).double(),
    "richardson": lambda A: ts.richardson(A, X, 0.12, 90).x,
    "sddmm": lambda A: ts.sddmm(A, C, D).to_dense(),
    "spgemm": lambda A: ts.spgemm(A, A).to_dense(),
    "splu": lambda A: ts.splu(A).solve(X),
    "spmm": lambda A: ts.spmm(A, C),
    "spmv": lambda A: ts.spmv(A, X),
    "spmv_symmetric": lambda A: ts.spmv_symmetric(A, X),
    "spsolve": lambda A: ts.spsolve(A, X),
    "sptrsv": lambda A: ts.sptrsv(A, X),
    "ssor_preconditioner": lambda A: ts.ssor_preconditioner(A)(X),
    "vstack": lambda A: ts.vstack([A, A]).to_dense(),
    "A + D": lambda A: A.__add__(C @ D.T),
    "added": lambda A: A.to_csr().added(A.to_csr().transpose(), 2.0).to_dense(),
    "blocks": lambda A: ts.spmm(A.to_bsr(1), C),
    "diagonal": lambda A: A.diagonal(),
    "multiply": lambda A: sum(A.to_csr().multiply(B).to_dense() for B in (A, C @ D.T, 3.0)),
    "power": lambda A: A.power(2.0).to_dense(),
    "transpose": lambda A: A.transpose().to_dense(),
    "A[i, j]": lambda A: torch.stack([A[0, 0], A[1, 1], A[2, 0]]),
    "sum": lambda A: A.sum(0),
    "max": lambda A: A.max(1),
    "min": lambda A: torch.cat([A.min(0), A.min().reshape(1)]),
}
OTHERS = {
    "amg_preconditioner": "needs pyamg, which reads the matrix after it was merged",
    "plot_pattern": "draws a picture",
}
ONE_GRAPH = [
    name
    for name in CALLS
    if not reason_of(f"trnsparse.{name}") and not reason_of(f"trnsparse.{name}", "compile")
]
CONVERTED = {"block_sparse_attention", "blocks"}  # to blocks, whose number depends on values


def wanted(name):
    return CALLS[name](ts.from_dense(DENSE))


def test_every_function_of_sparse_matrices_is_called():
    taking = set()
    for name in ts.__all__:
        value = getattr(ts, name)
        if callable(value) and not inspect.isclass(value):
            kinds = [str(p.annotation) for p in inspect.signature(value).parameters.values()]
            if any("SparseMatrix" in kind or "BSRMatrix" in kind for kind in kinds):
                taking.add(name)
    assert taking - set(CALLS) - set(OTHERS) == set()


@pytest.mark.parametrize("kind", MAKERS)
def test_duplicates_are_summed(kind):
    A = MAKERS[kind](ENTRIES)
    assert torch.equal(A.to_dense(), DENSE)
    for name, call in CALLS.items():
        torch.testing.assert_close(call(A), wanted(name), msg=lambda text, n=name: f"{n}: {text}")
    assert ts.nnz_per_row(A).tolist() == [4, 3, 2]


@pytest.mark.parametrize(
    "kind", ["csr", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("csc", "coo", "ell"))]
)
def test_duplicates_are_summed_in_one_graph(kind):
    names = [name for name in ONE_GRAPH if name not in CONVERTED]
    made = MAKERS[kind](ENTRIES)
    assert made.nnz == 9  # ELL: a graph would not know the number of used slots

    def every(entries):
        A = made.with_entries(slotted(entries) if kind == "ell" else entries)
        return [CALLS[name](A) for name in names]

    torch.compiler.reset()
    leaf = ENTRIES.clone().requires_grad_()
    got = torch.compile(every, fullgraph=True, backend="eager", dynamic=False)(leaf)
    want = {name: wanted(name) for name in names}
    torch.testing.assert_close(dict(zip(names, got, strict=True)), want)
    (found,) = torch.autograd.grad(sum(part.sum() for part in got if part.requires_grad), leaf)
    (by_entries,) = torch.autograd.grad(
        sum(part.sum() for part in every(leaf) if part.requires_grad), leaf
    )
    torch.testing.assert_close(found, by_entries)


def test_a_graph_of_a_matrix_that_is_used_again_outside():
    """What a graph does not know of a pattern is not remembered as its property."""
    A = ts.CSRMatrix(torch.ones(3), torch.tensor([0, 2, 1]), torch.tensor([0, 2, 3]), (2, 3))
    torch.compiler.reset()
    compiled = torch.compile(lambda: A.power(2.0).values, fullgraph=True, backend="eager")
    assert torch.equal(compiled(), torch.ones(3))
    assert A.pattern.canonical
    assert A.sum_duplicates() is A
    infinite = A.with_values(torch.tensor([1.0, torch.inf, 2.0]))
    other = ts.from_dense(torch.tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]]))
    compiled = torch.compile(
        lambda: infinite.multiply(other).to_dense(), fullgraph=True, backend="eager"
    )
    assert torch.equal(compiled(), torch.tensor([[2.0, 0.0, 0.0], [0.0, 6.0, 0.0]]))


IN_PARTS = sorted(set(CALLS) - set(ONE_GRAPH) | CONVERTED)
FEW = {"spgemm", "ssor_preconditioner", "jacobi_preconditioner"}
"""The rest are slow tests: each compiles a graph."""


@pytest.mark.parametrize(
    "name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in IN_PARTS]
)
def test_duplicates_are_summed_in_parts_of_a_graph(name):
    A = MAKERS["csr"](ENTRIES)
    torch.compiler.reset()
    got = torch.compile(CALLS[name], backend="eager", dynamic=False)(A)
    torch.testing.assert_close(got, wanted(name))


@pytest.mark.parametrize(
    "name",
    [
        *("spsolve", "splu", "sptrsv", "rcm", "block_ordering", "jacobi_preconditioner"),
        *("block_jacobi_preconditioner", "ssor_preconditioner", "ichol_preconditioner"),
        "ilu_preconditioner",
    ],
)
def test_what_cannot_be_in_one_graph_names_itself(name):
    A = ts.from_dense(DENSE)
    torch.compiler.reset()
    compiled = torch.compile(CALLS[name], fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=f"{name}: cannot be part of a compiled"):
        compiled(A)


def test_factors_and_preconditioners_name_themselves_too():
    lu, M = ts.splu(ts.from_dense(DENSE)), ts.ssor_preconditioner(ts.from_dense(DENSE))
    for call, name in ((lu.solve, "SparseLU.solve"), (M, "a preconditioner by substitution")):
        torch.compiler.reset()
        with pytest.raises(Exception, match=f"{name}: cannot be part of a compiled"):
            torch.compile(lambda x, call=call: call(x), fullgraph=True, backend="eager")(X)
        torch.compiler.reset()
        in_parts = torch.compile(lambda x, call=call: call(x + 1) + 1, backend="eager")
        assert torch.equal(in_parts(X), call(X + 1) + 1)
