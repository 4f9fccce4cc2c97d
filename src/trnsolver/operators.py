"""Linear operators, re-exported from the core: the matrix arguments of iterative methods."""

from trnsci.core.krylov.operators import (
    LinearOperator,
    OperatorLike,
    Preconditioner,
    as_operator,
    as_preconditioner,
)

__all__ = ["LinearOperator", "OperatorLike", "Preconditioner", "as_operator", "as_preconditioner"]
