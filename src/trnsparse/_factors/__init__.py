"""Incomplete factors of sparse matrices."""
