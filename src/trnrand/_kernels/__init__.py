"""The NKI kernels of trnrand; importing one imports NKI, so the library does it at first use."""
