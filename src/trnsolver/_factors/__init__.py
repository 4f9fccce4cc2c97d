"""Factorizations and the systems they solve."""
