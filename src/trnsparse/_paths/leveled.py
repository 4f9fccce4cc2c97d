"""Operations with a kernel in the dtype of their operands, and one at the level doublefloat."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from trnsci.core.backend.decision import Choice
from trnsci.core.backend.operation import Operation
from trnsparse._library import LIBRARY
from trnsparse._paths.operands import KERNEL_DTYPES

_SHARED = ("reference", "by_parts", "linear", "flops")
"""Declarations that hold at both levels."""


class Leveled(Operation):
    """An operation with a second one for doublefloat, of the same formula and derivatives.

    Args:
        name: Name of the operation. That of its kernel at doublefloat has a prefix, and its launch
            is the function ``name`` of ``trnsparse._paths.doublefloat``.
        refused: Returns the reason why that kernel does not accept arguments, or "".
        **declaration: Other arguments of ``Operation``.

    Attributes:
        refined: The operation of doublefloat.
    """

    def __init__(self, name: str, refused: Any = None, **declaration: Any) -> None:
        self.refined = Operation(
            LIBRARY,
            f"doublefloat_{name}",
            launch=f"trnsparse._paths.doublefloat:{name}",
            dtypes=("float32", "float64", "int32", "int64"),
            doublefloat=True,
            unsuited=refused,
            backward=_at_the_level(declaration["backward"]),
            **{key: declaration[key] for key in _SHARED},
        )
        super().__init__(LIBRARY, name, dtypes=KERNEL_DTYPES, **declaration)

    def called(self, choice: Choice, *args: Any) -> Any:
        """Return the result of a call, by the operation of the level."""
        if choice.widening:
            return self.refined.called(choice, *args)
        return super().called(choice, *args)


def _at_the_level(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule whose products are those of doublefloat."""

    @wraps(backward)
    def rule(*args: Any) -> Any:
        with LIBRARY.precision("doublefloat"):
            return backward(*args)

    return rule
