"""Products of sparse matrices."""
