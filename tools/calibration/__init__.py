"""Published device times, the kernels that they belong to, and the comparison with predictions."""
