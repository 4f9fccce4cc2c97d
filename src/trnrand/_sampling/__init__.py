"""Samplers of the distributions, on arrays and on tensors."""
