"""Validation, choice of the path, and the two paths of every operation: torch and kernels."""
