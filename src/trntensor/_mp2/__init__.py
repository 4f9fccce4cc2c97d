"""MP2 energies on torch."""
