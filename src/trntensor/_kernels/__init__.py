"""The NKI kernels of trntensor."""
