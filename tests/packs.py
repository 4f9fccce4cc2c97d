"""Packed words of kernels' inputs: four narrow floats in one element."""

import ml_dtypes
import numpy as np

import nkisim.language as nl

ELEMENTS = {
    "float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn,
    "float8_e5m2_x4": ml_dtypes.float8_e5m2,
    "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn,
}


def pack(values, name):
    """Return an array of words of four elements each, the first one in the lowest bits."""
    bits = np.ascontiguousarray(values.astype(ELEMENTS[name]).view(np.uint8))
    if name.startswith("float4"):
        bits = bits[..., ::2] | bits[..., 1::2] << 4
    return bits.view(np.dtype(getattr(nl, name)))
