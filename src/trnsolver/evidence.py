"""Validation cases of the trnsolver kernels, read from the declarations of the operations.

Orders are ragged. Factors that are not unique are multiplied, and the product is compared.
"""

import trnsolver.nki  # noqa: F401  (declares operations, as the public modules do)
from trnsolver._library import LIBRARY

__all__ = ["CASES"]

CASES = LIBRARY.evidence()
