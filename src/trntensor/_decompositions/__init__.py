"""Unfoldings and truncated SVDs shared by the tensor decompositions."""
