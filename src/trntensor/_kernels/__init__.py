"""The NKI kernels of trntensor, and how they are cut."""
