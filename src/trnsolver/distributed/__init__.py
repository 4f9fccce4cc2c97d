"""Distributed solvers for row-sharded matrices over the ranks of a process group.

Operands are DTensors that are Shard(0) on a mesh of one dimension, and results are DTensors; or
plain tensors of the rows of each rank, in the order of ranks, whose numbers may differ and be zero.
Tall results are sharded in the same way, small ones are on every rank. ``plan`` returns, without a
process group, the bytes that each rank receives.

Gradients are those of ``backward`` and ``torch.autograd.grad``, of first order, which all ranks
must compute together; ``eigsh``, ``rsvd`` and ``msign`` have none. A result that every rank has
takes the same gradient on every rank. An error of one rank in an operator, a preconditioner or a
callback ends the call on all ranks.
"""

from trnsci.core.distributed.layout import Layout
from trnsolver.distributed.iterative import cg, minres
from trnsolver.distributed.lanczos import eigsh
from trnsolver.distributed.plans import Communication, plan
from trnsolver.distributed.positive import SpdSolution, cholesky, solve_spd
from trnsolver.distributed.tall import lstsq, msign, rsvd, tsqr

__all__ = [
    "Communication",
    "Layout",
    "SpdSolution",
    "cg",
    "cholesky",
    "eigsh",
    "lstsq",
    "minres",
    "msign",
    "plan",
    "rsvd",
    "solve_spd",
    "tsqr",
]
