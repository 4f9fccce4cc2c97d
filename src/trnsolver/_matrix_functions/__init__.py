"""Roots and polar factors of matrices."""
