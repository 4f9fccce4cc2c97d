"""Attention over the blocks of a mask."""
