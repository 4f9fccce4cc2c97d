"""The short way through a call: one function for what small instructions do time and again.

Most calls of a kernel compute one function of what they read, on a core that nobody watches, with
operands that were written and do not overlap the result. For such a call everything but the
arithmetic is bookkeeping, so it is written out once per plan, as straight code. What does not fit
goes the general way; results and findings are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

from nkisim.diagnostics import Rule
from nkisim.machine.transfer import make_narrower, make_widener, unconverted
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec.call import Call
from nkisim.spec.instruction import Instruction

__all__ = ["Quick", "make_quick"]

Quick = Callable[[Any, tuple[Any, ...]], bool]
"""Executes a call, or answers False for one that must go the general way."""


def make_quick(
    instruction: Instruction, call: Call, result: tuple[int, str], inexact: Rule
) -> Quick | None:
    """Return the short way through calls that compute one result in float32, or None.

    Args:
        instruction: What is called.
        call: A call of the signature.
        result: Position and name of the operand that is written.
        inexact: The rule for integers that float32 cannot hold.
    """
    function = None if instruction.function is None else instruction.function(call)
    if function is None:
        return None
    to, dst = result[0], call[result[1]]
    scope: dict[str, Any] = {"__name__": __name__, "function": function}
    checks, notes, arguments = [], [], []
    for index, name in enumerate(instruction.parameters):
        operand = instruction.operands.get(name)
        if operand is None or index == to:
            continue
        value = call[name]
        if not isinstance(value, NkiTensor):
            if type(value) not in (float, int, type(None)):
                return None
            if value is not None:
                arguments.append(f"v[{index}]")
            continue
        widen = make_widener(value, name, instruction.name, inexact=inexact)
        scope[f"widen{index}"] = widen
        checks.append(
            f"    t{index} = v[{index}]\n    s{index} = t{index}.storage\n"
            f"    if not s{index}.complete or (\n"
            f"        s{index} is s and t{index} is not t and t{index}.region != t.region\n"
            "    ):\n        return False\n"
        )
        notes.append(f"    t{index}.alloc.life.last_use = clock\n")
        if value.buffer is MemoryRegion.psum:
            notes.append(f"    s{index}.psum.read(t{index}.region)\n")
        array = f"t{index}._array if t{index}._array is not None else t{index}.array"
        if value.ndim != 2:
            array = f"t{index}.array.reshape{(value.shape[0], value.free_size)}"
        arguments.append(f"({array})" if widen is unconverted else f"widen{index}({array})")
    narrow = make_narrower(dst, "dst", instruction.name, inexact=inexact)
    scope["narrow"] = narrow
    given = "".join(f"{argument}, " for argument in arguments)
    if narrow is unconverted and dst.ndim == 2:
        compute = f"    function({given}out=t._array if t._array is not None else t.array)\n"
    else:
        shaped = "" if dst.ndim == 2 else f".reshape({dst.shape})"
        compute = f"    t.array[...] = narrow(function({given}out=None)){shaped}\n"
    psum = dst.buffer is MemoryRegion.psum
    source = (
        f"def quick(core, v):\n    t = v[{to}]\n    s = t.storage\n{''.join(checks)}"
        f"    core.clock = clock = core.clock + 1\n{''.join(notes)}"
        "    alloc = t.alloc\n    life = alloc.life\n    life.last_use = clock\n"
        "    if life.first_use < 0:\n        life.first_use = clock\n"
        f"{compute}"
        "    if not s.complete:\n        s.mark_written(*t.region)\n"
        "    s.version += 1\n    alloc.written = True\n"
        + ("    s.psum.write(alloc, t.region)\n" if psum else "")
        + "    return True\n"
    )
    exec(_compiled(source), scope)
    made: Quick = scope["quick"]
    return made


@lru_cache(maxsize=1024)
def _compiled(source: str) -> CodeType:
    """Return the code of a short way; plans differ in what they compute more than in how."""
    return compile(source, __file__, "exec")
