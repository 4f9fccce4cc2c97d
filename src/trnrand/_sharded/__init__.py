"""Draws of which each rank of a mesh draws its part."""
