"""Tiling: hardware sizes, tilings of matrix products, and building blocks of their kernels."""
