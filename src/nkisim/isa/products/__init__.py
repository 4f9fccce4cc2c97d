"""The Tensor engine: nc_matmul, nc_transpose, MX numbers."""
