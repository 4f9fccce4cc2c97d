"""The NKI kernels of trnrand; they are imported at first use, since they import NKI."""
