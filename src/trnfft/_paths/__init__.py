"""Argument checks, dispatch, and the two paths of every operation: torch and kernels."""
