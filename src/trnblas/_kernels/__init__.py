"""The NKI kernels of trnblas, imported at first use because they import NKI."""
