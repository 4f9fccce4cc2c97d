"""MP2 energies and their derivatives on torch."""
