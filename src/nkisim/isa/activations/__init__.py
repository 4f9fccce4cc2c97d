"""The Scalar engine: activation functions with their scale, bias and running sum."""
