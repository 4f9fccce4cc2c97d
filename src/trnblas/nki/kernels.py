"""NKI kernels of MP2 energies, for other libraries that launch them.

Each takes arrays and returns a (1, 1) array in float32. Importing this module imports NKI.
"""

from trnblas._kernels.energy import batched_pair_energy, mp2_energy
from trnblas._kernels.energy_panels import most_functions

__all__ = ["batched_pair_energy", "most_functions", "mp2_energy"]
