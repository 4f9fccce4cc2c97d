"""The NKI kernels of trnsparse; importing one imports NKI, so the library does it at first use."""
