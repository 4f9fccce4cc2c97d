"""Instructions on the registers of the engine sequencers, which hold 32-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.isa.virtual_register import LOOP_VARIABLE, VirtualRegister
from nkisim.machine import (
    NkiInstruction,
    commit,
    current_core,
    handle_of,
    prepare_read,
    resolve_static,
)
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec import rules
from nkisim.spec.signatures import checked_call

__all__ = [
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
]

REGISTER_ELEMENT = declare(
    "S059",
    "register-element",
    "error",
    "register_load or register_store has a tensor with more than one element.",
    "a register holds one scalar",
    meaningless=True,
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
        data={"is_none": value is None},
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
            data={"is_none": value is None},
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
    """Return a new register, holding ``x`` when given: an integer, or a tile with one element.

    Args:
        x: Initial value: an integer, a register or a tile with one element; None leaves the
            register unset.
    """
    current_core("nisa.register_alloc")
    made = VirtualRegister(None if x is None else _number("register_alloc", "x", x))
    made.loaded = _is_loaded(x)
    return made


@checked_call("register_move", {"imm": (rules.REMOVED_IMM, "src=nisa.register_alloc(value)")})
def register_move(dst: Any, src: Any) -> NkiInstruction | None:
    """Write an integer, or the value of another register, to ``dst``.

    Args:
        dst: Register that is written.
        src: Integer, register or tile with one element that is read.
    """
    core = current_core("nisa.register_move")
    target, value = _writable("register_move", dst), _number("register_move", "src", src)
    if not isinstance(src, NkiTensor):
        core.begin(shared=False)
    target.set(value)
    target.loaded = _is_loaded(src)
    return handle_of(core, "register_move")


@checked_call("register_load")
def register_load(dst: Any, src: Any) -> NkiInstruction | None:
    """Load the one element of a tensor in SBUF or HBM into ``dst``.

    Args:
        dst: Register that is written.
        src: Tensor with one element in SBUF or HBM.
    """
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
    """Write the value of a register to a tensor with one element.

    Args:
        dst: Tensor with one element in SBUF or HBM that is written.
        src: Register that is read.
    """
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
