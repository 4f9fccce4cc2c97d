"""Factorizations of many small matrices on a CUDA device, in one launch of a kernel."""
