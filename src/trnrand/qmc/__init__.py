"""Quasi-random point sets and their discrepancy.

Points are rows. A point set depends on its arguments alone: the same seed gives the same points on
every machine and device, and a draw from a start index is the tail of a longer draw.
"""

from trnrand.qmc._discrepancy import discrepancy
from trnrand.qmc._halton import HaltonEngine, halton
from trnrand.qmc._latin_hypercube import latin_hypercube
from trnrand.qmc._sobol import SobolEngine, sobol

__all__ = [
    "HaltonEngine",
    "SobolEngine",
    "discrepancy",
    "halton",
    "latin_hypercube",
    "sobol",
]
