"""The NKI kernels of trnblas; importing one imports NKI, so the library does it at first use."""
