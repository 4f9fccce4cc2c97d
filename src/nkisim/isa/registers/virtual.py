"""Registers as kernels see them: their value, and the uses that a version refuses.

A register's value is known here, so dynamic loops run as ordinary loops. Uses that the compiler
rejects, such as a branch on a register, are found by the source checks; from NKI 0.6.0 on, whose
tracer runs the kernel's Python code, they raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nkisim.diagnostics import NkiCallError, called_by_user, declare, flag, repeats_while
from nkisim.machine import CORE
from nkisim.objects import NKIObject
from nkisim.versions import VERSIONS, in_force, is_traced

_BITS = 32

REGISTER_UNSET = declare(
    "R013",
    "register-unset",
    "A register is read before anything was put into it.",
    "the sequencer uses whatever was left there",
    meaningless=True,
)
ENDLESS_WHILE = declare(
    "R015",
    "endless-while",
    "A while loop on a register comes no nearer to its end.",
    "the device hangs",
    meaningless=True,
)
REGISTER_CONDITION = declare(
    "L031",
    "register-condition",
    "A register, a scalar or the index of a device loop is compared, or decides a branch; from NKI "
    "0.7.0 on also `while register` and nl.dynamic_range.",
    "its value is known only on the device; loops of the device can use it",
)
INDEX_ARITHMETIC = declare(
    "L033",
    "index-arithmetic",
    "The index of a dynamic loop is used in arithmetic, in a slice or as scalar_offset.",
    "0.3.0 fails to compile it; the index alone may select a row of a tensor in HBM",
)
LOOP_VARIABLE = declare(
    "L035",
    "loop-variable",
    "The index of a dynamic loop is assigned inside the loop.",
    "the counter is in a register of the loop",
)
WHILE_LIMIT = 200_000
"""Number of tests without progress towards 0 after which a loop counts as endless."""

_TRACED = frozenset(VERSIONS[VERSIONS.index("0.6.0") :])
"""Versions whose tracer runs a kernel's Python code, where registers have no value."""


class Progress:
    """The tests of the condition of one loop on a register.

    A test is an instruction. If the value is no nearer to 0 than at the last test, the loop may be
    waiting for the other core: yield to it.
    """

    __slots__ = ("_nearest", "_tests")

    def __init__(self) -> None:
        self._nearest = 0
        self._tests = 0

    def goes_on(self, value: int) -> bool:
        """Return whether the condition is not 0; flag a loop that comes no nearer to 0."""
        if self._nearest == 0 or abs(value) < self._nearest:
            self._nearest, self._tests = abs(value), 0
        else:
            self._tests += 1
        core = CORE.get()
        if core is not None:
            core.begin(shared=self._tests > 0)
        if self._tests > WHILE_LIMIT:
            flag(
                ENDLESS_WHILE,
                f"a while loop tested a register {self._tests} times without coming nearer to 0 "
                f"than {self._nearest}; it holds {value}",
                operand="register",
                seen=value,
                allowed="a body that brings the register to 0",
                fix="load the register from a tile that the body changes",
            )
        return value != 0


def _arithmetic(symbol: str) -> Callable[[VirtualRegister, Any], Any]:
    """Return a method that raises for an operator: registers have none."""

    def refuse(self: VirtualRegister, other: Any) -> Any:
        flag(
            INDEX_ARITHMETIC,
            f"a register is an operand of {symbol}, but its value is known only on the device",
            operand="register",
            seen=f"VirtualRegister {symbol} {type(other).__name__}",
            fix="calculate in a tile, and load the result with nisa.register_load",
            error=NkiCallError,
            stops=True,
        )

    return refuse


def _ordering() -> Callable[[VirtualRegister, Any], Any]:
    """Return a method that raises for a comparison by size."""

    def refuse(self: VirtualRegister, other: Any) -> Any:
        use = "nl.while_loop, or an instruction with a mask"
        if not _is_traced():
            use = "the bounds of the loop, or peel the first iteration"
        _refuse_value("is compared", use)

    return refuse


class VirtualRegister(NKIObject):
    """A 32-bit integer that dynamic loops and dynamic addresses can use.

    Created by ``nisa.register_alloc``. ``while register:`` runs until it holds 0.

    Args:
        state: Its value; None for a register that holds nothing yet.
        frozen: Whether instructions cannot write it, as the index of a loop.

    Attributes:
        state, frozen: As given.
        loaded: Whether the value comes from memory, so that it is unknown at compile time.
    """

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self.loaded = False
        self.frozen = frozen
        self.state: int | None = None
        self._progress = Progress()
        core = CORE.get()
        now = 0 if core is None else core.clock
        self._span = [now, now]
        if core is not None:
            core.register_spans.append(self._span)
        if state is not None:
            self.set(state)

    def set(self, value: int) -> None:
        """Set the value of the register; it wraps to 32 bits, signed."""
        half = 1 << (_BITS - 1)
        self.state = (int(value) + half) % (1 << _BITS) - half

    def read(self) -> int:
        """Return the value, or raise R013 when there is none."""
        if self.state is None:
            flag(
                REGISTER_UNSET,
                "a register is read that holds nothing",
                operand="register",
                seen="an uninitialised register",
                fix="nisa.register_alloc(0), or nisa.register_load before the first use",
            )
        assert self.state is not None
        core = CORE.get()
        if core is not None:
            self._span[1] = core.clock
        return self.state

    def copy(self) -> VirtualRegister:
        """Return a new register with the same value."""
        made = VirtualRegister(self.read())
        made.loaded = self.loaded
        return made

    def __index__(self) -> int:
        if called_by_user():
            self.refuse_index()
        return self.read()

    def refuse_index(self) -> None:
        """Raise where the kernel's Python code cannot use the register as an integer."""
        if _is_traced():
            _refuse_value("is made an integer", "nl.fori_loop for a loop up to its value")

    def __bool__(self) -> bool:
        """Return whether the register is not 0, for ``while register:``."""
        if is_traced() or (_is_traced() and not repeats_while()):
            _refuse_value("decides a branch", "nl.while_loop, or an instruction with a mask")
        return self._progress.goes_on(self.read())

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same register."""
        if _is_traced() and called_by_user():
            _refuse_value("is compared", "nl.while_loop, or an instruction with a mask")
        return self is other

    __hash__ = NKIObject.__hash__

    __lt__ = __le__ = __gt__ = __ge__ = _ordering()
    __add__ = __radd__ = _arithmetic("+")
    __sub__ = __rsub__ = _arithmetic("-")
    __mul__ = __rmul__ = _arithmetic("*")
    __floordiv__ = __rfloordiv__ = _arithmetic("//")
    __truediv__ = __rtruediv__ = _arithmetic("/")
    __mod__ = __rmod__ = _arithmetic("%")
    __lshift__ = __rlshift__ = _arithmetic("<<")
    __rshift__ = __rrshift__ = _arithmetic(">>")
    __and__ = __rand__ = _arithmetic("&")
    __or__ = __ror__ = _arithmetic("|")

    def __repr__(self) -> str:
        return f"VirtualRegister({'unset' if self.state is None else self.state})"


class LoopIndex(int, VirtualRegister):
    """The index of ``nl.dynamic_range`` from NKI 0.4.0 on: a frozen register.

    It can be used in arithmetic and in slices, as an integer.
    """

    def __new__(cls, value: int) -> LoopIndex:
        """Return the index with a value."""
        return super().__new__(cls, value)

    def __init__(self, value: int) -> None:
        VirtualRegister.__init__(self, value, frozen=True)

    __repr__ = int.__repr__
    __hash__ = int.__hash__


def _is_traced() -> bool:
    return in_force() in _TRACED


def _refuse_value(what: str, use: str) -> None:
    """Raise for a register whose value the kernel's Python code needs."""
    flag(
        REGISTER_CONDITION,
        f"a register {what}, but its value is known only on the device",
        operand="register",
        seen="a VirtualRegister",
        fix=f"use {use}",
        error=NkiCallError,
        stops=True,
    )
