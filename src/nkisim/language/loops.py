"""Loops that run on the device: their bounds are registers, and their body is compiled once.

``nl.dynamic_range`` is the loop of all versions. ``nl.fori_loop`` and ``nl.while_loop`` of NKI
0.6.0 have their body in a function. Bounds and conditions have values here, so the body runs once
per iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from nkisim.diagnostics import NkiCallError, declare, flag
from nkisim.isa.registers.scalar import NkiScalar
from nkisim.isa.registers.virtual import REGISTER_CONDITION, LoopIndex, Progress, VirtualRegister
from nkisim.language.control import RETIRED, tracked, unrolled
from nkisim.machine import CORE, Core, LoopKind, current_core
from nkisim.memory.rules import SCALAR_WIDTH
from nkisim.removed import refuse_argument
from nkisim.spec.signatures import checked_call
from nkisim.versions import at, in_force, is_traced
from nkisim.versions.rules import is_off

DYNAMIC_STEP = declare(
    "L034",
    "dynamic-step",
    "The step of nl.dynamic_range or nl.fori_loop is not a positive compile-time integer.",
    "the loop instruction has the step as an immediate operand",
    meaningless=True,
)
DYNAMIC_IN_REGION = declare(
    "L036",
    "dynamic-in-region",
    "A dynamic loop runs inside nl.no_reorder().",
    "the region must be unrolled, the loop cannot be",
)
LOOP_BODY = declare(
    "L070",
    "loop-body",
    "The body of nl.fori_loop returns a value, or the body of nl.while_loop returns no register.",
    "iterations get their state from memory; only the condition of nl.while_loop is returned",
    meaningless=True,
)

ONE_CORE = declare(
    "C041",
    "loop-on-one-core",
    "A kernel launched on one core has a compiled loop where LNC is 2.",
    "users saw the compiler refuse it: the other core has other basic blocks (NCC_IXGM002)",
    severity="warning",
)

_REGISTER_INDEX: dict[str, Callable[[int], Any]] = {"0.4.0": LoopIndex}
"""Type of the index of ``nl.dynamic_range``, by first version; int in older versions."""

_SCALAR_INDEX: dict[str, Callable[[int], Any]] = {"0.7.0": NkiScalar}
"""Type of the index of ``nl.fori_loop`` if no bound is a register, by first version."""

_ENDLESS = range(1 << 62)


@checked_call("nl.dynamic_range", RETIRED)
def dynamic_range(start: Any, stop: Any = None, step: Any = 1) -> Any:
    """Return the iterations of a loop that runs on the device; bounds may be registers."""
    name = "nl.dynamic_range"
    if is_traced():
        flag(
            REGISTER_CONDITION,
            f"{name} does not run under NKI {in_force()}, which traces Python's own loops",
            instruction=name,
            fix="put the body into a function and call nl.fori_loop; nkisim upgrade rewrites it",
            error=NkiCallError,
            stops=True,
        )
    _check_loop(name, step)
    first, last = (b.read() if isinstance(b, VirtualRegister) else b for b in (start, stop))
    values = tracked(_kind(start, stop), unrolled("dynamic_range", first, last, step), name)
    index: Callable[[int], Any] | None = at(in_force(), None, _REGISTER_INDEX)
    core = CORE.get()
    if core is not None:
        values = _turns(core, name, values, fixed=_kind(start, stop) == "dynamic")
    return values if index is None else map(index, values)


@checked_call("nl.fori_loop")
def fori_loop(lower: Any, upper: Any, body_fun: Any, step: int = 1) -> None:
    """Call ``body_fun`` with each index from ``lower`` to ``upper``, as a loop of the device.

    Args:
        lower: First index: an integer, a register, or from NKI 0.7.0 on a scalar of 32 bits.
        upper: End of the indices, which is excluded.
        body_fun: Function of the index. The index is a register that instructions cannot write;
            from NKI 0.7.0 on it is a scalar unless a bound is a register. The function returns
            nothing, and tensors that it makes must not be used after it.
        step: Distance of the indices, a positive integer.
    """
    name = "nl.fori_loop"
    core = current_core(name)
    _check_loop(name, step)
    _check_callable(name, body_fun)
    bounds = (_bound(name, "lower", lower), _bound(name, "upper", upper))
    registers = any(isinstance(bound, VirtualRegister) for bound in (lower, upper))
    scalar = None if registers else at(in_force(), None, _SCALAR_INDEX)
    for value in _turns(
        *(core, name, tracked(_kind(lower, upper), range(*bounds, step), name)),
        fixed=_kind(lower, upper) == "dynamic",
    ):
        index = scalar(value) if scalar else VirtualRegister(value, frozen=True)
        index.loaded = True
        result = _call(core, body_fun, index)
        if result is not None:
            _refuse_body(name, result, "nothing", "write results into tensors made before the loop")


@checked_call("nl.while_loop")
def while_loop(init: Any, body_fun: Any) -> None:
    """Call ``body_fun`` while a register is not 0, as a loop of the device.

    Args:
        init: Register of the first condition; the body does not run if it holds 0.
        body_fun: Function of a register that holds the condition; the register is a copy, which the
            function may write. It returns the register of the next condition. Tensors that it makes
            must not be used after it.

    In a run without values the first condition is the number of iterations.
    """
    name = "nl.while_loop"
    core = current_core(name)
    _check_loop(name, 1)
    _check_callable(name, body_fun)
    if not isinstance(init, VirtualRegister):
        refuse_argument(name, "init", init, "a register", "use nisa.register_alloc(value)")
    values = _ENDLESS if core.values else range(abs(init.read()))
    progress, condition = Progress(), init
    for _ in _turns(core, name, tracked(_kind(init), values, name)):
        if core.values and not progress.goes_on(condition.read()):
            break
        condition = _call(core, body_fun, condition.copy())
        if not isinstance(condition, VirtualRegister):
            fix = "end the body with: return register"
            _refuse_body(name, condition, "the register of the next condition", fix)


def _turns(core: Core, name: str, values: Any, *, fixed: bool = False) -> Iterator[Any]:
    """Return the iterations of a device loop; flag one on one of the two cores of LNC 2."""
    if core.num_programs == 1 and core.lnc == 2 and not core.scope and not is_off("C041"):
        flag(
            ONE_CORE,
            f"{name} runs in a kernel that is launched on one of the two cores of LNC 2",
            instruction=name,
            seen="grid 1",
            allowed="a launch on both cores, or LNC 1",
            fix="launch with kernel[2], with the same loops on both cores, or compile for LNC 1 "
            "(NEURON_LOGICAL_NC_CONFIG=1, lnc=1)",
        )
    return core.turns(values, fixed=fixed)


def _call(core: Core, body: Callable[..., Any], register: VirtualRegister) -> Any:
    """Return the result of a loop's body for one iteration."""
    if core.tracker is None:
        return body(register)
    made = len(core.memory.log)
    result = body(register)
    core.tracker.left(islice(core.memory.log, made, None))
    return result


def _kind(*bounds: Any) -> LoopKind:
    loaded = any(isinstance(b, (VirtualRegister, NkiScalar)) and b.loaded for b in bounds)
    return "counted" if loaded else "dynamic"


def _check_loop(name: str, step: Any) -> None:
    """Flag a step that is no positive integer, and a loop inside ``nl.no_reorder``."""
    no_constant = isinstance(step, (bool, VirtualRegister))
    if no_constant or not isinstance(step, (int, np.integer)) or step < 1:
        flag(
            DYNAMIC_STEP,
            f"{name}: step must be a positive compile-time integer, got {step!r}",
            instruction=name,
            operand="step",
            seen=repr(step),
            allowed="a positive int",
            fix="use a constant step",
        )
    core = CORE.get()
    if core is not None and core.no_reorder_depth:
        flag(
            DYNAMIC_IN_REGION,
            f"{name} runs inside nl.no_reorder()",
            instruction=name,
            seen=f"{core.no_reorder_depth} open regions",
            fix="end the region before the loop, or open it inside the body",
        )


def _bound(name: str, argument: str, value: Any) -> int:
    """Return a bound of a loop: an integer, or the value of a register."""
    if isinstance(value, NkiScalar) and value.dtype != "int32":
        flag(
            SCALAR_WIDTH,
            f"{name}: {argument} is a scalar of {value.dtype}",
            instruction=name,
            operand=argument,
            seen=value.dtype,
            allowed="a scalar of int32",
            fix="load the bound from a tile of nl.int32",
        )
    if isinstance(value, (VirtualRegister, NkiScalar)):
        return value.read()
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        fix = "use //, or a register"
        refuse_argument(name, argument, value, "an int or a VirtualRegister", fix)
    return int(value)


def _check_callable(name: str, body: Any) -> None:
    if not callable(body):
        fix = "use def body(i): ... before the loop"
        refuse_argument(name, "body_fun", body, "a function of one register", fix)


def _refuse_body(name: str, result: Any, allowed: str, fix: str) -> None:
    flag(
        LOOP_BODY,
        f"{name}: body_fun must return {allowed}, got {type(result).__name__}",
        instruction=name,
        operand="body_fun",
        seen=repr(result)[:80],
        allowed=allowed,
        fix=fix,
        error=NkiCallError,
    )
