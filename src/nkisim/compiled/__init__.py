"""Loops compiled by numba, for processes that have it loaded.

numba is optional: nothing here imports it before a caller has found it among the loaded modules,
and every function has a way without it in the module that calls it.
"""
