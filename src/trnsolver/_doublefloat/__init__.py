"""Factorizations and solutions at the level doublefloat, by kernels of float32 and corrections.

A result of a float32 kernel is corrected by its residual, a product at doublefloat, until the
residual is at most ``REACHED`` of its terms. Corrections are products and triangular solutions of
float32. A correction that does not at least halve the residual ends the call with a
``KernelError``: torch computes it, with a warning, or it raises where kernels are required.
"""
