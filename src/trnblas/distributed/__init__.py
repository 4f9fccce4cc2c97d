"""BLAS over the ranks of a ``DeviceMesh``: operands and results are DTensors.

``plan`` returns, without a process group, the bytes that each rank receives, the messages, the
memory and the ratio to a lower bound.
"""

from trnblas.distributed.pairs import batched_pair_energy
from trnblas.distributed.plans import plan
from trnblas.distributed.products import gemm
from trnblas.distributed.symmetric import syrk
from trnblas.distributed.triangular import trsm

__all__ = ["batched_pair_energy", "gemm", "plan", "syrk", "trsm"]
