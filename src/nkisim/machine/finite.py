"""Origin of NaN and infinity: non-finite results of finite inputs.

NaN in the inputs propagates without a finding, so each is reported once. A mask constant that
represents minus infinity is finite in float32 and infinite in a narrower type; a NaN that results
from it is a separate finding, with the place where the constant was narrowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nkisim.diagnostics import RECORDER, Finding, flag, user_place
from nkisim.machine.core import CORE, Core
from nkisim.memory import NkiTensor
from nkisim.spec import rules

_LOWEST = -3.3961775e38
"""Float32 values at or below this become minus infinity in bfloat16."""

_NUMBERS = (float, np.floating, np.ndarray)

_READS = ("D009", "D021")
"""Rules about what an instruction reads; one that is broken is the reason of a NaN there."""

_CHAINS = ("R006", "R007", "R008", "R009")
"""Rules about accumulators, whose contents are undefined after one was broken."""


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
    """Record that the lowest float32 numbers are narrowed to minus infinity."""
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
