"""Contraction planning: parsing, path search, slicing and lowering to matrix products."""
