"""Batched factorizations of small matrices on a CUDA device, one kernel launch per batch.

The design note ``docs/design/batched-cuda-factorizations.md`` has the reason for this second path.
"""
