"""Distributed solvers for row-sharded matrices over the ranks of a process group.

Rank r holds consecutive rows, in the order of ranks, as a plain tensor. Tall results are sharded in
the same way, small ones are on every rank. Shares may differ in size and be empty. Only small
matrices are communicated; layouts that would need the large one are rejected. ``plan`` returns,
without a process group, the bytes that a call passes to the collectives on every rank.
"""

from trnsolver.distributed.plans import Communication, plan
from trnsolver.distributed.positive import SpdSolution, solve_spd
from trnsolver.distributed.tall import lstsq, msign, rsvd, tsqr

__all__ = ["Communication", "SpdSolution", "lstsq", "msign", "plan", "rsvd", "solve_spd", "tsqr"]
