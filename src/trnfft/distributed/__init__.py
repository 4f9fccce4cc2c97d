"""Fourier transforms over the ranks of a ``DeviceMesh``: operands and results are DTensors.

``plan`` returns, without a process group, the bytes that each rank receives, the messages, the
memory and the ratio to a lower bound.
"""

from trnfft.distributed.nd import fftn, ifftn, irfftn, rfftn
from trnfft.distributed.plans import plan
from trnfft.distributed.vectors import fft, ifft

__all__ = ["fft", "fftn", "ifft", "ifftn", "irfftn", "plan", "rfftn"]
