"""Operands and derivatives of the Lanczos functions."""
