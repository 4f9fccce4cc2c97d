"""Every measured time of the tree beside its prediction, by source."""

from __future__ import annotations

import math
from collections.abc import Iterable
from multiprocessing import get_context
from typing import NamedTuple

import ml_dtypes
import numpy as np

import nkisim
from calibration import kernels
from calibration.measurements import GRID, KERNELS, GridRow, KernelTime
from calibration.operators import OPERATORS, TUNED, Operator, programs
from nkisim.arch import resolve_target
from nkisim.profiling.analysis import Prediction
from nkisim.profiling.model.assumptions import defaults
from nkisim.profiling.model.program import Capture, Program
from nkisim.profiling.model.ranges import Difference, difference, spanned

_ORDER = 2048

Case = GridRow | KernelTime | Operator


class Row(NamedTuple):
    """A measured time and its prediction, in us.

    Attributes:
        source: Where the time comes from; of an operator, its name.
        case: Type, size and settings.
        measured: The published time.
        predicted: The predicted one.
        alternatives: The predicted time by assumption and alternative.
        tuned: Whether it is the tuned one of two settings.
    """

    source: str
    case: str
    measured: float
    predicted: float
    alternatives: dict[tuple[str, object], float]
    tuned: bool = False

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    def range(self, error: float) -> tuple[float, float]:
        """Return the predicted range for an error of the model."""
        return spanned(self.predicted, self.alternatives.values(), error)

    def inside(self, error: float) -> bool:
        """Return whether the range contains the measured time."""
        low, high = self.range(error)
        return low <= self.measured <= high

    def less(self, base: Row) -> Difference:
        """Return the range of the difference from another prediction."""
        times = self.predicted, self.alternatives, base.predicted, base.alternatives
        return difference(*times)

    def width(self, error: float) -> float:
        """Return half of the range over the prediction."""
        low, high = self.range(error)
        return (high - low) / 2 / self.predicted


def captured(kernel: object, target: str, *arguments: object, nki: str = "0.3.0") -> Program:
    """Return the program of a kernel."""
    capture = Capture(resolve_target(target), assumptions=defaults(nki))
    options = {"target": target, "nki": nki, "values": False, "watchers": (capture,)}
    nkisim.simulate(kernel, **options)(*arguments)
    return capture.program


def grid_program(row: GridRow) -> Program:
    """Return the program of a row of the grid."""
    operand = np.broadcast_to(np.float32(0), (_ORDER, _ORDER))
    return captured(kernels.blocked_product, "trn2", operand, operand, *row.tiles)


def kernel_program(entry: KernelTime) -> Program:
    """Return the program of a whole kernel."""
    m, n, k = entry.order
    zero = np.zeros((), ml_dtypes.bfloat16)
    a, b = np.broadcast_to(zero, (k, m)), np.broadcast_to(zero, (k, n))
    kernel = nkisim.jit(getattr(kernels, entry.kernel))
    if entry.kernel.endswith("two_cores"):
        kernel = kernel[2]
    return captured(kernel, entry.target, a, b, *entry.blocks, nki=entry.nki)


def row_of(case: Case) -> Row:
    """Return the row of a published time."""
    if isinstance(case, GridRow):
        return _row("grid", ", ".join(map(str, case.tiles)), case.us, [grid_program(case)])
    if isinstance(case, KernelTime):
        name = f"{case.name} {case.order[2]} {case.source}"
        return _row("whole kernels", name, case.us, [kernel_program(case)])
    found = _row(case.name, name_of(case), case.us, programs(case))
    found = found._replace(tuned=bool(case.settings))
    if not case.less:
        return found
    less = row_of(case._replace(size=case.less, less="")).predicted
    share = 1 - less / found.predicted
    others = {key: us * share for key, us in found.alternatives.items()}
    return found._replace(predicted=found.predicted * share, alternatives=others)


def name_of(operator: Operator) -> str:
    """Return the type, size and settings of an operator."""
    settings = (f"{name}={value}" for name, value in operator.settings)
    return " ".join((operator.dtype, operator.size, *settings))


def _row(source: str, case: str, measured: float, parts: list[Program]) -> Row:
    predicted, changes = 0.0, dict[tuple[str, object], float]()
    for part in map(Prediction, parts):
        predicted += part.latency_us
        for doubt in part.doubts:
            for value, us in doubt.alternatives.items():
                key = doubt.name, value
                changes[key] = changes.get(key, 0.0) + us - part.latency_us
    return Row(source, case, measured, predicted, {k: predicted + v for k, v in changes.items()})


def every_case(*, large: bool) -> list[Case]:
    """Return the published times, the longest predictions first; without those of large kernels."""
    cases: list[Case] = [*OPERATORS, *(pair.after for pair in TUNED), *GRID]
    cases += [entry for entry in KERNELS if large or not entry.large]
    return sorted(cases, key=lambda case: -case.us)


def rows_of(cases: Iterable[Case], processes: int = 2) -> list[Row]:
    """Return the rows of published times."""
    with get_context("fork").Pool(processes) as pool:
        return pool.map(row_of, cases, chunksize=1)


def fitted_error(rows: Iterable[Row], share: float) -> float:
    """Return the smallest error of the model, in steps of 0.5 %, for which ranges hold.

    Args:
        rows: Measured times.
        share: Share of the rows that their ranges contain.
    """
    rows = list(rows)
    steps = (step / 200 for step in range(1, 201))
    least = share * len(rows)
    return next((e for e in steps if sum(row.inside(e) for row in rows) >= least), 1.0)


class Left(NamedTuple):
    """A source, and the error of the model that the other sources give.

    Attributes:
        source: The source that is left out.
        error: Error that an unseen source needs: for ``SHARE`` of the other sources it is enough
            for ``SHARE`` of their rows.
        inside: Share of the rows of the source that are then in their range.
    """

    source: str
    error: float
    inside: float


SHARE = 0.85
"""Share of the measured times that their ranges contain."""


def by_source(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each source."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.source, row.case)):
        found.setdefault(row.source, []).append(row)
    return found


def unseen_error(sources: Iterable[list[Row]]) -> float:
    """Return the error of the model that is enough for most of the sources."""
    needed = sorted(fitted_error(rows, SHARE) for rows in sources)
    return needed[math.ceil(SHARE * len(needed)) - 1]


def leave_one_out(rows: Iterable[Row]) -> list[Left]:
    """Return, for each source, what the others say about the error of the model."""
    sources = by_source(rows)
    found = []
    for name, mine in sources.items():
        error = unseen_error(rows for other, rows in sources.items() if other != name)
        found.append(Left(name, error, sum(row.inside(error) for row in mine) / len(mine)))
    return found
