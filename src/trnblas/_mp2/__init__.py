"""MP2 energies."""
