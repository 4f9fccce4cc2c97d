"""BLAS over the ranks of a ``DeviceMesh``: operands and results are DTensors.

``plan`` returns, without a process group, the bytes that each rank receives, the messages, the
memory and the ratio to a lower bound.
"""

from trnblas.distributed.plans import plan
from trnblas.distributed.products import gemm

__all__ = ["gemm", "plan"]
