"""Krylov methods on linear operators, their preconditioners and derivatives, for all libraries.

The methods are in ``short_recurrences``, ``gmres``, ``fixed_steps`` and ``power_iteration``.
``solved`` validates the operands of a public function and calls ``solve``, which runs a method on
scaled systems and returns a ``Solution`` with the derivatives of the exact one.
"""

from trnsci.core.krylov.front import Operands, solved
from trnsci.core.krylov.implicit import differentiated
from trnsci.core.krylov.operators import (
    LinearOperator,
    OperatorLike,
    Preconditioner,
    as_operator,
    as_preconditioner,
)
from trnsci.core.krylov.runs import Callback, Product, Progress, Run, Watch
from trnsci.core.krylov.solve import (
    Method,
    Stopping,
    System,
    run_system,
    solution,
    solve,
    stopping,
)
from trnsci.core.krylov.vectors import ONE, Vectors

__all__ = [
    "ONE",
    "Callback",
    "LinearOperator",
    "Method",
    "Operands",
    "OperatorLike",
    "Preconditioner",
    "Product",
    "Progress",
    "Run",
    "Stopping",
    "System",
    "Vectors",
    "Watch",
    "as_operator",
    "as_preconditioner",
    "differentiated",
    "run_system",
    "solution",
    "solve",
    "solved",
    "stopping",
]
