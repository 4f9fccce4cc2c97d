"""Operands of the Lanczos method, and derivatives of a few pairs."""
