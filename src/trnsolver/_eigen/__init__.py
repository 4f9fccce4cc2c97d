"""Eigenvalues and singular values: methods and error bounds."""
