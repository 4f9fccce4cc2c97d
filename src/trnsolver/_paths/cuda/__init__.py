"""Batched factorizations of small matrices on a CUDA device, one kernel launch per batch."""
