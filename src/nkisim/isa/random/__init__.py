"""Random numbers and the generators of the engines."""
