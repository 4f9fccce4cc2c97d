"""Draws that are divided among the ranks of a mesh."""
