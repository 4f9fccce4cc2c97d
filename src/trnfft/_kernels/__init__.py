"""The NKI kernels of trnfft; importing one imports NKI, so the library does it at first use."""
