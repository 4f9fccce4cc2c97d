"""Tiling: hardware sizes, cuts of matrix products, and pieces of their kernels."""
