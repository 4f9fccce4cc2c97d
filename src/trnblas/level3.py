"""BLAS level 3: matrices, and batches of them in leading dimensions.

Every function returns a new tensor and is differentiable. Only ``out`` is written to. Factors are
numbers or 0-d tensors. An operand with a zero factor is not read, so NaN in it does not propagate.
``C`` broadcasts to the result; without ``C``, ``beta`` must be 0. Only the chosen triangle of a
symmetric, Hermitian or triangular matrix is read.

Options: ``trans`` is ``False`` or ``"N"`` for no transposition, ``True`` or ``"T"`` for
transposition, ``"C"`` for the conjugate transpose; ``uplo`` is ``"upper"`` or ``"lower"``, ``side``
``"left"`` or ``"right"``, ``diag`` ``"nonunit"`` or ``"unit"`` (the diagonal is ones and is not
read). First letters are accepted, in upper or lower case; anything else raises ``FlagError``.
"""

from trnblas.matrix_products import gemm, gemmt
from trnblas.rank_k import her2k, herk, syr2k, syrk
from trnblas.symmetric import hemm, symm
from trnblas.triangular import trmm
from trnblas.triangular_systems import trsm

__all__ = [
    "gemm",
    "gemmt",
    "hemm",
    "her2k",
    "herk",
    "symm",
    "syr2k",
    "syrk",
    "trmm",
    "trsm",
]
