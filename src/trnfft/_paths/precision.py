"""Precision of transforms, on the ladder that all libraries share.

================================== ==================================== ========================
level                              on a kernel                          on torch
================================== ==================================== ========================
``bfloat16`` (``fast``)            bfloat16 operands, float32 sums      as ``float32``
``float16x3``                      as ``float32``                       as ``float32``
``float32`` (``fp32``)             float32 throughout; the default      in the dtype of the input
``doublefloat`` (``double``)       pairs of float32: thirteen digits    in float64, then rounded
================================== ==================================== ========================

Names in parentheses are those of the published library. Transforms have a kernel of
``doublefloat``, and so have those that are made of them; complex products have none. Integers,
float16 and bfloat16 are computed in at least float32 on every level.
"""

from __future__ import annotations

import torch

from trnfft._library import LIBRARY
from trnsci.core.backend.precision import CHOSEN


def get_precision() -> str:
    """Return the current precision, under the name it was set by; ``"fp32"`` by default."""
    name = LIBRARY.get_precision()
    return "fp32" if name == "float32" else name


def operand_dtype() -> torch.dtype:
    """Return the dtype of the operands of kernels."""
    lowered = CHOSEN.used and LIBRARY.level() == "bfloat16"
    return torch.bfloat16 if lowered else torch.float32
