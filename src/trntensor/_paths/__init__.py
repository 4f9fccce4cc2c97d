"""Argument validation, dispatch, and the torch and kernel path of every operation."""
