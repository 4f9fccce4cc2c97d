"""Unrolled loops, positions in the launch grid, scheduling regions and slices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.machine import CORE, LoopKind, current_core
from nkisim.memory import DynSlice
from nkisim.memory.rules import FRACTIONAL_EXTENT
from nkisim.spec.signatures import Removal, checked_call
from nkisim.versions.rules import is_off

RETIRED_RANGE_KEYWORD = declare(
    "A038",
    "retired-range-keyword",
    "A range is called with a keyword that 0.3.0 does not have.",
    "loops are unrolled; scheduling hints are gone",
    meaningless=True,
)

GRID_AXIS = declare(
    "C002",
    "grid-axis",
    "program_id or num_programs asks for another axis than 0.",
    "the launch grid has one axis",
    meaningless=True,
)

RETIRED = {
    keyword: Removal(RETIRED_RANGE_KEYWORD, f"drop {keyword}=")
    for keyword in ("precise_schedule", "multi_buffer", "reload_scope")
}


def unrolled(function: str, start: Any, stop: Any, step: Any) -> range:
    """Return the unrolled sequence of a loop."""
    bounds = (0, start) if stop is None else (start, stop)
    whole = []
    for bound in (*bounds, step):
        if isinstance(bound, (float, np.floating)):
            flag(
                FRACTIONAL_EXTENT,
                f"nl.{function}: bound {bound} is a float",
                instruction=f"nl.{function}",
                seen=bound,
                allowed="an integer",
                fix="use // or math.ceil",
            )
            bound = int(bound)
        whole.append(bound)
    return range(*whole)


@checked_call("nl.affine_range", RETIRED)
def affine_range(start: Any, stop: Any = None, step: Any = 1) -> Any:
    """Return the iterations of a loop without dependencies between them; unrolled."""
    values = unrolled("affine_range", start, stop, step)
    return values if is_off("R003") else tracked("affine", values, "nl.affine_range")


@checked_call("nl.sequential_range", RETIRED)
def sequential_range(start: Any, stop: Any = None, step: Any = 1) -> range:
    """Return the iterations of a loop that run one after the other; unrolled."""
    return unrolled("sequential_range", start, stop, step)


@checked_call("nl.static_range", RETIRED)
def static_range(start: Any, stop: Any = None, step: Any = 1) -> range:
    """Return the iterations of an unrolled loop."""
    return unrolled("static_range", start, stop, step)


def tracked(kind: LoopKind, values: range, name: str) -> Any:
    """Return the iterations of a loop of the function ``name``, tracked if there is a tracker."""
    core = CORE.get()
    if core is None or core.tracker is None:
        return values
    return core.tracker.iterations(core, kind, values, name)


@checked_call("nl.ds")
def ds(start: Any, size: Any) -> DynSlice:
    """Return the slice of ``size`` elements from ``start``."""
    return DynSlice(start, size)


@contextmanager
def _region() -> Iterator[None]:
    core = current_core("nl.no_reorder")
    core.no_reorder_depth += 1
    try:
        yield
    finally:
        core.no_reorder_depth -= 1


@checked_call("nl.no_reorder")
def no_reorder() -> Any:
    """Return a context that preserves program order; the simulator always does."""
    return _region()


def _check_axis(function: str, axis: Any) -> None:
    if axis != 0:
        flag(
            GRID_AXIS,
            f"nl.{function}: axis {axis} of a grid with one axis",
            instruction=f"nl.{function}",
            seen=axis,
            allowed=0,
            fix="use axis 0",
        )


@checked_call("nl.program_id")
def program_id(axis: int = 0) -> int:
    """Return the index of this core in the launch grid."""
    _check_axis("program_id", axis)
    core = current_core("nl.program_id")
    core.asked.add("program_id")
    return core.program_id


@checked_call("nl.num_programs")
def num_programs(axes: int = 0) -> int:
    """Return the number of cores in the launch grid."""
    _check_axis("num_programs", axes)
    core = current_core("nl.num_programs")
    core.asked.add("num_programs")
    return core.num_programs


@checked_call("nl.program_ndim")
def program_ndim() -> int:
    """Return 1 when the kernel was launched with a grid, else 0."""
    core = CORE.get()
    return 1 if core is not None and core.has_grid else 0
