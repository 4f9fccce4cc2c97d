"""NKI kernels of trnfft. Importing one imports NKI, so the library imports them at first use."""
