"""Kernels of trnsolver, in NKI alone."""
