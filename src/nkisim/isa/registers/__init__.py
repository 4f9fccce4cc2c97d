"""Instructions on the registers of the engine sequencers, which hold 32-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.diagnostics import NkiCallError, declare, flag
from nkisim.dtypes import int32, int64
from nkisim.isa.registers.scalar import NkiScalar
from nkisim.isa.registers.virtual import LOOP_VARIABLE, VirtualRegister
from nkisim.machine import (
    Core,
    NkiInstruction,
    commit,
    current_core,
    handle_of,
    prepare_read,
    resolve_static,
)
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.removed import refuse_argument
from nkisim.spec import rules
from nkisim.spec.signatures import Removal, checked_call
from nkisim.versions import FRONTEND_VARIABLE, is_traced, since
from nkisim.versions.rules import held

REGISTER_ELEMENT = declare(
    "S059",
    "register-element",
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
    fix, wanted = (
        "pass an integer, or load a tile with nisa.register_load",
        "an integer or a register",
    )
    allowed = "an int or a VirtualRegister"
    refuse_argument(name, argument, value, allowed, fix, wanted=wanted, on_device=True)


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
        fix, wanted = "allocate one with nisa.register_alloc", "a register"
        refuse_argument(
            *(name, argument, value, "a VirtualRegister", fix), wanted=wanted, on_device=True
        )
    return value


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
            severity=held("L035").level,
            stops=held("L035").level is None,
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


@checked_call(
    "register_move", {"imm": Removal(rules.REMOVED_IMM, "src=nisa.register_alloc(value)")}
)
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
    _no_pack("register_load", "src", src)
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
    tensor = _one_element("register_store", "dst", dst)
    _no_pack("register_store", "dst", tensor)
    _store(core, "register_store", tensor, _register("register_store", "src", src).read())
    return handle_of(core, "register_store")


def _store(core: Core, name: str, dst: NkiTensor, value: int) -> None:
    """Write an integer to a tensor with one element."""
    target = resolve_static(core, dst, name, "dst")
    core.begin(shared=target.buffer is MemoryRegion.shared_hbm)
    storage = target.origin.storage_dtype(target.dtype)
    bits = np.array([value], np.int64)
    with core.tracked(name, written=target):
        commit(target, bits.astype(storage).reshape(target.shape))
    target.life.written(core.clock)
    if target.life.placed:
        target.life.reach(target)


@checked_call("scalar_load")
def scalar_load(src: Any) -> NkiScalar:
    """Return the one element of an int32 or int64 tensor in SBUF or HBM as a scalar.

    Args:
        src: Tensor with one element.
    """
    if not is_traced():
        _only_traced("scalar_load")
    current_core("nisa.scalar_load")
    tensor = _one_element("scalar_load", "src", src)
    if tensor.dtype not in (int32, int64):
        _refuse_dtype("scalar_load", "src", tensor, "int32 or int64")
    made = NkiScalar(int(_scalar("scalar_load", "src", tensor)), tensor.dtype)
    made.loaded = True
    return made


@checked_call("scalar_store")
def scalar_store(dst: Any, value: Any) -> None:
    """Write a scalar to a tensor with one element, of the scalar's width.

    Args:
        dst: Tensor with one element in SBUF or HBM that is written.
        value: Scalar that is read.
    """
    if not is_traced():
        _only_traced("scalar_store")
    core = current_core("nisa.scalar_store")
    tensor = _one_element("scalar_store", "dst", dst)
    if not isinstance(value, NkiScalar):
        fix, allowed = "write a number with nisa.memset(dst, number)", "an NkiScalar"
        refuse_argument("scalar_store", "value", value, allowed, fix, wanted="a scalar")
    if tensor.dtype != value.dtype:
        _refuse_dtype("scalar_store", "dst", tensor, str(value.dtype))
    _store(core, "scalar_store", tensor, value.read())


def _only_traced(name: str) -> None:
    flag(
        rules.BAD_CALL,
        f"{name} needs tracing, and {FRONTEND_VARIABLE} selects the old front end",
        instruction=name,
        fix=f"unset {FRONTEND_VARIABLE}, or use nisa.register_load",
        error=NkiCallError,
    )


def _no_pack(name: str, argument: str, tensor: Any) -> None:
    """Refuse an x4 pack, which has no value for a register, from NKI 0.7.0 on."""
    if isinstance(tensor, NkiTensor) and tensor.dtype.kind == "packed" and since("0.7.0"):
        _refuse_dtype(name, argument, tensor, "any dtype but the x4 packs")


def _refuse_dtype(name: str, argument: str, tensor: NkiTensor, allowed: str) -> None:
    flag(
        rules.SCALAR_DTYPE,
        f"{name}: {argument} is {tensor.dtype}, accepted: {allowed}",
        instruction=name,
        operand=argument,
        seen=tensor.dtype,
        allowed=allowed,
        fix="allocate the tile with an accepted dtype",
    )
