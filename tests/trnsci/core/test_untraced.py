"""Functions that are no part of a graph say so by their name."""

import pytest
import torch

import trnsolver
import trnsparse
import trntensor

A = torch.eye(4) * 2
SPARSE = trnsparse.from_dense(A)
B = torch.ones(4)
CALLS = {
    "trnsolver.cg": lambda b: trnsolver.cg(A, b).x,
    "trnsolver.minres": lambda b: trnsolver.minres(A, b).x,
    "trnsolver.bicgstab": lambda b: trnsolver.bicgstab(A, b).x,
    "trnsolver.gmres": lambda b: trnsolver.gmres(A, b).x,
    "trnsolver.fgmres": lambda b: trnsolver.fgmres(A, b).x,
    "trnsparse.cg": lambda b: trnsparse.cg(SPARSE, b).x,
    "trnsparse.minres": lambda b: trnsparse.minres(SPARSE, b).x,
    "trnsparse.chebyshev": lambda b: trnsparse.chebyshev(SPARSE, b, 1.0, 3.0, 20).x,
    "trnsparse.richardson": lambda b: trnsparse.richardson(SPARSE, b, 0.5, 20).x,
    "trnsparse.spsolve": lambda b: trnsparse.spsolve(SPARSE, b),
    "trntensor.cp_decompose": lambda b: trntensor.cp_decompose(torch.outer(b, b), 1)[1],
    "trntensor.tt_decompose": lambda b: trntensor.tt_decompose(torch.outer(b, b), eps=0.1)[1],
    "trntensor.tt_round": lambda b: trntensor.tt_round([b.reshape(1, 4, 1)], 1)[0],
    "trntensor.tucker_decompose": lambda b: trntensor.tucker_decompose(torch.outer(b, b), (1, 1))[
        0
    ],
}


FEW = ("trnsolver.cg", "trnsparse.cg", "trntensor.tt_round")


@pytest.mark.parametrize("names", [FEW, pytest.param(tuple(CALLS), marks=pytest.mark.slow)])
def test_a_full_graph_is_refused_by_name(names):
    for name in names:
        torch.compiler.reset()
        function = name.partition(".")[2]
        with pytest.raises(Exception, match=rf"{function}: cannot be part of a compiled graph"):
            torch.compile(CALLS[name], fullgraph=True, backend="eager")(B)


@pytest.mark.parametrize("names", [FEW, pytest.param(tuple(CALLS), marks=pytest.mark.slow)])
def test_a_graph_with_breaks_computes_the_same(names):
    for name in names:
        torch.compiler.reset()
        want = CALLS[name](B)
        got = torch.compile(lambda b, n=name: 2 * CALLS[n](b + 0), backend="eager")(B)
        assert torch.equal(got, 2 * want), name
