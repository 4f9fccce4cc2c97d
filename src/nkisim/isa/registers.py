"""Registers of the engine sequencers: 32-bit integers for dynamic loops and addresses.

A register's value is known here, so dynamic loops run as ordinary loops. Uses that the compiler
rejects, such as a branch on a register, are found by the source checks; from NKI 0.6.0 on, whose
tracer runs the kernel's Python code, they raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.diagnostics import NkiCallError, called_by_user, declare, flag, repeats_while
from nkisim.machine import (
    CORE,
    NkiInstruction,
    commit,
    current_core,
    handle_of,
    prepare_read,
    resolve_static,
)
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.objects import NKIObject
from nkisim.spec import rules
from nkisim.spec.signatures import checked_call
from nkisim.versions import at, in_force

__all__ = [
    "LoopIndex",
    "Progress",
    "VirtualRegister",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
]

_BITS = 32

REGISTER_ELEMENT = declare(
    "S059",
    "register-element",
    "error",
    "register_load or register_store has a tensor with more than one element.",
    "a register holds one scalar",
    meaningless=True,
)
REGISTER_UNSET = declare(
    "R013",
    "register-unset",
    "error",
    "A register is read before anything was put into it.",
    "the sequencer uses whatever was left there",
    meaningless=True,
)
ENDLESS_WHILE = declare(
    "R015",
    "endless-while",
    "error",
    "A while loop on a register comes no nearer to its end.",
    "the device hangs",
    meaningless=True,
)
REGISTER_CONDITION = declare(
    "L031",
    "register-condition",
    "error",
    "A register or the index of a dynamic loop is compared, or decides a branch.",
    "its value is known only on the device; only `while register` and nl.dynamic_range can use it",
)
INDEX_ARITHMETIC = declare(
    "L033",
    "index-arithmetic",
    "error",
    "The index of a dynamic loop is used in arithmetic, in a slice or as scalar_offset.",
    "0.3.0 fails to compile it; the index alone may select a row of a tensor in HBM",
)
LOOP_VARIABLE = declare(
    "L035",
    "loop-variable",
    "error",
    "The index of a dynamic loop is assigned inside the loop.",
    "the counter is in a register of the loop",
)
WHILE_LIMIT = 200_000
"""Number of tests without progress towards 0 after which a loop counts as endless."""

_TRACED = {"0.6.0": True}
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
    """Return the method of an operator, which registers do not have."""

    def refuse(self: VirtualRegister, other: Any) -> Any:
        if _is_traced():
            flag(
                INDEX_ARITHMETIC,
                f"a register is an operand of {symbol} while the kernel is traced, when it has no "
                "value",
                operand="register",
                seen=f"VirtualRegister {symbol} {type(other).__name__}",
                fix="calculate in a tile, and load the result with nisa.register_load",
                error=NkiCallError,
                stops=True,
            )
        return NotImplemented

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
        if called_by_user() and _is_traced():
            _refuse_value("is made an integer", "nl.fori_loop for a loop up to its value")
        return self.read()

    def __bool__(self) -> bool:
        """Return whether the register is not 0, for ``while register:``."""
        if _is_traced() and not repeats_while():
            _refuse_value("decides a branch", "nl.while_loop, or an instruction with a mask")
        return self._progress.goes_on(self.read())

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same register."""
        if _is_traced() and called_by_user():
            _refuse_value("is compared", "nl.while_loop, or an instruction with a mask")
        return self is other

    __hash__ = NKIObject.__hash__

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
    return at(in_force(), False, _TRACED)


def _refuse_value(what: str, use: str) -> None:
    """Raise for a register whose value the kernel's Python code needs."""
    flag(
        REGISTER_CONDITION,
        f"a register {what} while the kernel is traced, when it has no value",
        operand="register",
        seen="a VirtualRegister",
        fix=f"use {use}",
        error=NkiCallError,
        stops=True,
    )


def _number(name: str, argument: str, value: Any) -> int:
    """Return the integer of an integer, a register, or a one-element tile."""
    if isinstance(value, VirtualRegister):
        return value.read()
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, NkiTensor):
        return int(_scalar(name, argument, value))
    flag(
        rules.BAD_CALL,
        f"{name}: {argument} must be an integer or a register, got {type(value).__name__}",
        instruction=name,
        operand=argument,
        seen=repr(value)[:80],
        allowed="an int or a VirtualRegister",
        fix="pass an integer, or load a tile with nisa.register_load",
    )
    raise AssertionError("unreachable: A025 always raises")


def _one_element(name: str, argument: str, tensor: Any) -> NkiTensor:
    if not isinstance(tensor, NkiTensor) or tensor.size != 1:
        seen = tensor.describe() if isinstance(tensor, NkiTensor) else type(tensor).__name__
        flag(
            REGISTER_ELEMENT,
            f"{name} {argument} must be a tensor with one element, got {seen}",
            instruction=name,
            operand=argument,
            seen=seen,
            allowed="shape (1,) or (1, 1)",
            fix="slice one element, t[0:1, 0:1]",
        )
    if tensor.buffer is MemoryRegion.psum:
        flag(
            rules.BUFFER_UNREACHABLE,
            f"{name} {argument} must be in ['sbuf', 'hbm'], got psum",
            instruction=name,
            operand=argument,
            seen=tensor.describe(),
            allowed="sbuf, hbm",
            fix="nisa.tensor_copy it to SBUF first",
        )
    found: NkiTensor = tensor
    return found


def _scalar(name: str, argument: str, tensor: NkiTensor) -> Any:
    core = current_core(name)
    if not core.values:
        if core.trip_count is None:
            raise ValueError(
                f"{name}: the loaded value decides what follows; run with values=True, or state "
                "it as trip_count="
            )
        return core.trip_count
    element = _one_element(name, argument, tensor)
    core.begin(shared=element.buffer is MemoryRegion.shared_hbm)
    source = resolve_static(core, element, name, argument)
    source.life.last_use = core.clock
    if source.life.placed:
        source.life.reach(source)
    with core.tracked(name, read=source):
        return prepare_read(source, name, argument, decides=True).reshape(-1)[0]


def _register(name: str, argument: str, value: Any) -> VirtualRegister:
    if not isinstance(value, VirtualRegister):
        flag(
            rules.BAD_CALL,
            f"{name}: {argument} must be a register, got {type(value).__name__}",
            instruction=name,
            operand=argument,
            seen=repr(value)[:80],
            allowed="a VirtualRegister",
            fix="allocate one with nisa.register_alloc",
        )
    found: VirtualRegister = value
    return found


def _writable(name: str, value: Any) -> VirtualRegister:
    """Return the destination of an instruction, which must not be the index of a loop."""
    register = _register(name, "dst", value)
    if register.frozen:
        flag(
            LOOP_VARIABLE,
            f"{name} writes to the index of a loop",
            instruction=name,
            operand="dst",
            seen=repr(value),
            allowed="a register of nisa.register_alloc",
            fix="use a register of your own",
            stops=True,
        )
    return register


@checked_call("register_alloc")
def register_alloc(x: Any = None) -> VirtualRegister:
    """Return a new register, holding ``x`` when given: an integer, or a tile with one element."""
    current_core("nisa.register_alloc")
    made = VirtualRegister(None if x is None else _number("register_alloc", "x", x))
    made.loaded = _is_loaded(x)
    return made


@checked_call("register_move", {"imm": (rules.REMOVED_IMM, "src=nisa.register_alloc(value)")})
def register_move(dst: Any, src: Any) -> NkiInstruction | None:
    """Write an integer, or the value of another register, to ``dst``."""
    core = current_core("nisa.register_move")
    target, value = _writable("register_move", dst), _number("register_move", "src", src)
    if not isinstance(src, NkiTensor):
        core.begin(shared=False)
    target.set(value)
    target.loaded = _is_loaded(src)
    return handle_of(core, "register_move")


@checked_call("register_load")
def register_load(dst: Any, src: Any) -> NkiInstruction | None:
    """Load the one element of a tensor in SBUF or HBM into ``dst``."""
    core = current_core("nisa.register_load")
    target = _writable("register_load", dst)
    target.set(int(_scalar("register_load", "src", src)))
    target.loaded = True
    return handle_of(core, "register_load")


def _is_loaded(source: Any) -> bool:
    """Return whether a number comes from memory, directly or through another register."""
    return isinstance(source, NkiTensor) or (isinstance(source, VirtualRegister) and source.loaded)


@checked_call("register_store")
def register_store(dst: Any, src: Any) -> NkiInstruction | None:
    """Write the value of a register to a tensor with one element."""
    core = current_core("nisa.register_store")
    target = resolve_static(
        core, _one_element("register_store", "dst", dst), "register_store", "dst"
    )
    value = _register("register_store", "src", src).read()
    core.begin(shared=target.buffer is MemoryRegion.shared_hbm)
    storage = target.origin.storage_dtype(target.dtype)
    bits = np.array([value], np.int64)
    with core.tracked("register_store", written=target):
        commit(target, bits.astype(storage).reshape(target.shape))
    target.life.written(core.clock)
    if target.life.placed:
        target.life.reach(target)
    return handle_of(core, "register_store")
