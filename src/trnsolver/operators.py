"""Linear operators: everything that iterative methods take for a matrix."""

from trnsci.core.krylov.operators import (
    LinearOperator,
    OperatorLike,
    Preconditioner,
    as_operator,
    as_preconditioner,
)

__all__ = ["LinearOperator", "OperatorLike", "Preconditioner", "as_operator", "as_preconditioner"]
