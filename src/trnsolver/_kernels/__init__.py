"""The NKI kernels of trnsolver."""
