"""``nisa.NkiScalar``: integers that the device computes with, from NKI 0.7.0 on.

A scalar has the width of the tile that it was loaded from. Its arithmetic wraps and is recorded by
the tracer, so Python code of a kernel cannot read the value. Here the value is known; uses that the
tracer refuses raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nkisim.diagnostics import NkiCallError, called_by_user, declare, flag
from nkisim.dtypes import DType, int32
from nkisim.isa.registers.virtual import REGISTER_CONDITION
from nkisim.objects import NKIObject

SCALAR_OPERATION = declare(
    "L071",
    "scalar-operation",
    "An NkiScalar is an operand of another operator than + - *, of one with a float or with a "
    "scalar of another width, or the result of comparing scalars is used.",
    "the tracer records + - * of scalars of one width only; a comparison has no usable result",
    meaningless=True,
)
SCALAR_WRAP = declare(
    "D054",
    "scalar-wrap",
    "Arithmetic on an int32 NkiScalar wraps around.",
    "scalars keep the width of the tile that they were loaded from",
    severity="warning",
    on_values=True,
    silent=True,
)


class NkiScalar(NKIObject):
    """A 32- or 64-bit integer with a value on the device only.

    Made by ``nisa.scalar_load``, by the index of ``nl.fori_loop``, and by + - * of scalars.

    Args:
        state: Its value.
        dtype: ``nl.int32`` or ``nl.int64``; None is ``nl.int32``.
        is_comparison: Whether it is the result of a comparison, which cannot be used.

    Attributes:
        dtype: As given.
        loaded: Whether the value comes from memory.
    """

    def __init__(self, state: int, dtype: DType | None = None, is_comparison: bool = False) -> None:
        self.dtype = int32 if dtype is None else dtype
        self.loaded = False
        self._is_comparison = is_comparison
        half = 1 << (self.dtype.bits - 1)
        self._state = (int(state) + half) % (2 * half) - half

    def read(self) -> int:
        """Return the value, or raise L071 for the result of a comparison."""
        if self._is_comparison:
            _refuse("the result of comparing scalars is used", "a comparison", "an instruction")
        return self._state

    def __index__(self) -> int:
        if called_by_user():
            self._refuse_value("is made an integer")
        return self.read()

    def __bool__(self) -> bool:
        self._refuse_value("decides a branch")
        raise AssertionError("unreachable: a scalar in a condition always raises")

    def _refuse_value(self, what: str) -> None:
        flag(
            REGISTER_CONDITION,
            f"a scalar {what}, but its value is known only on the device",
            operand="scalar",
            seen="an NkiScalar",
            fix="use it as a bound of nl.fori_loop, as scalar_offset, or an instruction with a "
            "mask",
            error=NkiCallError,
            stops=True,
        )

    def __neg__(self) -> NkiScalar:
        return _computed("-", 0, self, lambda a, b: a - b)

    __hash__ = NKIObject.__hash__

    def __repr__(self) -> str:
        return f"NkiScalar({self._state}, {self.dtype})"


def _computed(symbol: str, left: Any, right: Any, exact: Callable[[int, int], int]) -> NkiScalar:
    """Return a scalar of the operands' width; flag a result that wraps in 32 bits."""
    dtype = (left if isinstance(left, NkiScalar) else right).dtype
    values = [_operand(symbol, side, dtype) for side in (left, right)]
    value = exact(*values)
    made = NkiScalar(value, dtype)
    made.loaded = any(getattr(side, "loaded", False) for side in (left, right))
    if made.read() != value and dtype is int32:
        flag(
            SCALAR_WRAP,
            f"{values[0]} {symbol} {values[1]} is {made.read()} in {dtype}",
            operand="scalar",
            seen=f"{value}",
            allowed="-2147483648 to 2147483647",
            fix="load the operands from nl.int64 tiles, or calculate with smaller numbers",
        )
    return made


def _operand(symbol: str, side: Any, dtype: DType) -> int:
    """Return the value of an operand: an integer, or a scalar of the given width."""
    if isinstance(side, NkiScalar) and side.dtype is dtype:
        return side.read()
    if type(side) is not int:
        kind = side.dtype if isinstance(side, NkiScalar) else type(side).__name__
        why = f"an {dtype} scalar is combined with {kind} by {symbol}"
        _refuse(why, f"{symbol} with {kind}", f"an int or a scalar of {dtype}")
    return int(side)


def _refuse(why: str, seen: str, allowed: str) -> None:
    flag(
        SCALAR_OPERATION,
        f"{why}; scalars have + - * with integers and scalars of their width",
        operand="scalar",
        seen=seen,
        allowed=allowed,
        fix="calculate in a tile and load the result with nisa.scalar_load",
        error=NkiCallError,
    )


def _install() -> None:
    """Define the operators: + - * compute, comparisons return a comparison, all others raise."""

    def computing(symbol: str, exact: Callable[[int, int], int], swapped: bool) -> Any:
        def compute(self: NkiScalar, other: Any) -> NkiScalar:
            left, right = (other, self) if swapped else (self, other)
            return _computed(symbol, left, right, exact)

        return compute

    def refused(symbol: str) -> Any:
        def refuse(self: NkiScalar, other: Any) -> Any:
            _refuse(f"a scalar is an operand of {symbol}", symbol, "+, - and *")

        return refuse

    def compared(symbol: str) -> Any:
        def compare(self: NkiScalar, other: Any) -> Any:
            if self.dtype is not int32:
                _refuse(f"{self.dtype} scalars are compared by {symbol}", symbol, "+, - and *")
            _operand(symbol, other, self.dtype)
            return NkiScalar(0, self.dtype, is_comparison=True)

        return compare

    exact: dict[str, tuple[str, Callable[[int, int], int]]] = {
        "add": ("+", lambda a, b: a + b),
        "sub": ("-", lambda a, b: a - b),
        "mul": ("*", lambda a, b: a * b),
    }
    for name, (symbol, function) in exact.items():
        setattr(NkiScalar, f"__{name}__", computing(symbol, function, False))
        setattr(NkiScalar, f"__r{name}__", computing(symbol, function, True))
    others = dict(floordiv="//", truediv="/", mod="%", lshift="<<", rshift=">>", pow="**")
    for name, symbol in (others | {"and": "&", "or": "|", "xor": "^"}).items():
        setattr(NkiScalar, f"__{name}__", refused(symbol))
        setattr(NkiScalar, f"__r{name}__", refused(symbol))
    comparisons = dict(lt="<", le="<=", gt=">", ge=">=", eq="==", ne="!=")
    for name, symbol in comparisons.items():
        setattr(NkiScalar, f"__{name}__", compared(symbol))


_install()
