"""Provenance of wrong values: uninitialised memory, and NaN or infinity from finite inputs.

Unwritten elements and values computed from them are garbage; reads of garbage are recorded on the
core. After an instruction has written its results, the elements that can depend on garbage are
marked with its origin. The marks are conservative: false positives are possible, false negatives
are not, except in runs without values, where nothing is marked if an offset in a tile selects the
destination or a predicate selects the source.

NaN in the inputs propagates without a finding, so each is reported once. A mask constant near the
lowest float32 number becomes minus infinity in a narrower type. A NaN that results from it is a
separate finding, with the place where the constant was narrowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import RECORDER, Finding, flag, user_place
from nkisim.machine.calls.operands import Rows
from nkisim.machine.calls.transfer import Partial
from nkisim.machine.core import CORE, Core, Garbage
from nkisim.memory import NkiTensor
from nkisim.spec import rules
from nkisim.spec.instruction import Instruction, Spread

Array = np.ndarray


class Target(NamedTuple):
    """Destination of a result: the view or rows, and the written part of it."""

    tensor: NkiTensor | Rows
    part: Array | None


def propagate_taint(
    core: Core, instruction: Instruction, targets: Sequence[Target], result: Any
) -> None:
    """Mark the results of an instruction with the origins of the garbage that it has read.

    Args:
        core: The core that ran it.
        instruction: The instruction that ran.
        targets: Destinations of its results.
        result: The body's return value; None if the body did not run.
    """
    read = [found for found in core.garbage if found.clock == core.clock]
    core.garbage.clear()
    if not core.values:
        read = [found for found in read if not _is_chosen(instruction, found.operand)]
    if not read:
        return
    results = result if type(result) is tuple else (result,)
    for number, (target, part) in enumerate(targets):
        value = results[number] if number < len(results) else None
        if isinstance(target, Rows):
            shape = (len(target.indices), *target.table.shape[1:])
            _mark_rows(target, _reached(read, instruction.spread, shape), value)
            continue
        if target.indirection is not None:
            continue  # an unknown offset selects the destination
        origins = _reached(read, instruction.spread, target.shape)
        if part is not None:
            origins = np.where(part, origins, 0)
        if type(value) is Partial:
            origins = np.where(value.where.reshape(target.shape), origins, 0)
        _mark(target, origins)
    for registers in core.accumulators_in_use():
        first, count = registers.used[1]
        if registers.origins is None:
            registers.origins = np.zeros(len(registers.values), np.uint8)
        lanes = _reached(read, "lanes", (count, 1))
        registers.origins[first : first + count] = lanes[:, 0]


def _is_chosen(instruction: Instruction, name: str) -> bool:
    operand = instruction.operands.get(name)
    return operand is not None and operand.chosen


def _mark(target: NkiTensor, origins: Array) -> None:
    if origins.any():
        origins = origins.astype(np.uint8, copy=False)
        target._storage.mark_garbage(origins, target.start, target.form.strides, target.itemsize)


def _mark_rows(rows: Rows, origins: Array, value: Any) -> None:
    """Mark the rows of a table that were written by index."""
    keep = rows.inside
    if type(value) is Partial:
        keep = keep & value.where.reshape(len(keep), -1).all(axis=1)
    for i in np.flatnonzero(keep):
        row = int(rows.indices[i])
        _mark(rows.table[row : row + 1], origins[i : i + 1])


def _reached(read: list[Garbage], spread: Spread, shape: tuple[int, ...]) -> Array:
    """Return the origin of the garbage in each element of a result of ``shape``, 0 for none."""
    joined = np.zeros(shape, np.uint8)
    for found in read:
        np.maximum(joined, _one(found, spread, shape), out=joined)
    return joined


def _one(found: Garbage, spread: Spread, shape: tuple[int, ...]) -> Array:
    """Return the origins that the garbage of one operand gives a result."""
    origins, size = found.origins, int(np.prod(shape))
    if found.operand == "dst":  # the accumulator of a sum
        return origins
    if spread == "product":
        columns = origins.reshape(len(origins), -1).max(axis=0)
        if found.operand == "stationary" and columns.size == shape[0]:
            return np.broadcast_to(columns.reshape(-1, *(1,) * (len(shape) - 1)), shape)
        if found.operand == "moving" and columns.size * shape[0] == size:
            return np.broadcast_to(columns.reshape(shape[1:]), shape)
    if spread == "transpose" and origins.swapaxes(0, -1).shape == shape:
        return origins.swapaxes(0, -1)
    if spread == "elements" and origins.size == size:
        return origins.reshape(shape)
    if spread in ("elements", "lanes") and len(origins) == shape[0]:
        lanes = origins.reshape(len(origins), -1).max(axis=1)
        return np.broadcast_to(lanes.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    return np.broadcast_to(origins.max(), shape)


_LOWEST = -3.3961775e38
"""Float32 values at or below this become minus infinity in bfloat16."""

_NUMBERS = (float, np.floating, np.ndarray)

_READS = ("D009", "D021")
"""Rules about operands; where one is broken, a NaN has a known cause and is not flagged."""

_CHAINS = ("R006", "R007", "R008", "R009")
"""Rules about accumulator chains; after one is broken the registers are undefined."""


def check_finite(instruction: str, arguments: Sequence[Any], result: Any) -> None:
    """Flag NaN and infinity computed from finite arguments, and NaN computed from infinity.

    Of several results, the first non-finite one is reported.
    """
    for part in result if type(result) is tuple else (result,):
        if not isinstance(part, np.ndarray) or np.isfinite(part).all():
            continue
        listed = [value for values in arguments if type(values) is list for value in values]
        inputs = [value for value in (*arguments, *listed) if isinstance(value, _NUMBERS)]
        if all(np.isfinite(value).all() for value in inputs):
            _report(instruction, part, ~np.isfinite(part), "finite inputs")
        elif np.isnan(part).any() and not any(np.isnan(value).any() for value in inputs):
            _report(instruction, part, np.isnan(part), "infinities")
        return


def _report(instruction: str, result: np.ndarray, born: np.ndarray, source: str) -> None:
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(born)), born.shape))
    core, recorder, place = CORE.get(), RECORDER.get(), user_place()
    fills = [] if core is None or source == "finite inputs" else core.mask_fills
    if recorder is not None and not fills:
        known = recorder.recorded(_READS, instruction, place)
        known = known or recorder.recorded(_CHAINS, instruction)
        if known is not None:
            known.data = {**known.data, "makes": f"{result[at]} at {at}"}
            return
        infinite = next((f for f in recorder.findings if _made_infinity(f)), None)
        if infinite is not None and source != "finite inputs":
            note = f"then {instruction} makes {result[at]} at {place.file}:{place.line}"
            infinite.notes += () if note in infinite.notes else (note,)
            return
    if recorder is not None:
        for fill in fills:
            recorder.withdraw(rules.FLOAT_OVERFLOW, fill.file, fill.line)
    rows = int(born.reshape(len(born), -1).any(axis=1).sum()) if born.ndim else 1
    fix = "add an epsilon, subtract the maximum, or clamp the input"
    if fills:
        fix = "keep masked scores and their maxima in float32, or fill with -30000"
    flag(
        rules.MASKED_ROW if fills else rules.NAN_CREATED,
        f"{instruction} makes {result[at]} from {source}"
        + (" that the fill of a mask became" if fills else ""),
        instruction=instruction,
        operand="dst",
        seen=f"{result[at]} at {at}" + (f"; {rows} rows have NaN" if fills else ""),
        fix=fix,
        notes=tuple(f"the fill became -inf at {place}" for place in fills),
    )


def _made_infinity(finding: Finding) -> bool:
    return finding.rule in (rules.NAN_CREATED, rules.FLOAT_OVERFLOW) or "makes" in finding.data


def note_mask_fill(core: Core, arguments: Sequence[Any], result: Any, dst: NkiTensor) -> None:
    """Record the first place where a number near the lowest float32 is narrowed to -infinity."""
    if core.mask_fills or dst.dtype not in ("bfloat16", "float16") or not dst.origin.precise:
        return
    lowest = min((a for a in arguments if isinstance(a, float) and np.isfinite(a)), default=0.0)
    if isinstance(result, np.ndarray) and result.dtype == np.float32 and result.size:
        low = result.min()
        if low == -np.inf:
            low = result.min(initial=0.0, where=np.isfinite(result))
        lowest = min(lowest, float(low))
    if lowest <= _LOWEST:
        core.mask_fills.append(user_place())
