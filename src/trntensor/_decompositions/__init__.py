"""What the tensor decompositions share."""
