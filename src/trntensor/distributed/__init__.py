"""Contractions over the ranks of a ``DeviceMesh``: operands and results are DTensors.

``plan`` returns, without a process group, the index that each mesh dimension splits, the bytes that
each rank receives, the messages and the memory.
"""

from trntensor.distributed.contraction import einsum
from trntensor.distributed.plans import plan

__all__ = ["einsum", "plan"]
