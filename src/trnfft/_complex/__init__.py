"""Implementation of ComplexTensor: arithmetic on real and imaginary parts, and torch protocols."""
