"""Tall matrices and systems whose rows are spread over the ranks of a process group.

Rank r holds consecutive rows, in the order of ranks, as a plain tensor; what is tall comes back as
rows of the same ranks, what is small on every rank. Shares may differ in size and be empty. Only
small matrices travel: a layout for which the large one would have to is refused. ``plan`` tells,
without a process group, which bytes a call hands to the collectives on every rank.
"""

from trnsolver.distributed.plans import Communication, plan
from trnsolver.distributed.positive import SpdSolution, solve_spd
from trnsolver.distributed.tall import lstsq, msign, rsvd, tsqr

__all__ = ["Communication", "SpdSolution", "lstsq", "msign", "plan", "rsvd", "solve_spd", "tsqr"]
