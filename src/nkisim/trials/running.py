"""Trials: an edited kernel is profiled, run, compared with the original, and checked.

A trial is no proof for other arguments. It uses the given ones, and fresh values in a second shape
where the kernel accepts one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nkisim.api import Kernel
from nkisim.arch import GENERATIONS
from nkisim.dtypes import as_dtype
from nkisim.objects import parts_of
from nkisim.options import SimOptions
from nkisim.runs import Run
from nkisim.runs.host import array_of
from nkisim.runs.process_ledger import unrecorded
from nkisim.trials.arguments import Arguments, fresh, given, other_shapes
from nkisim.trials.editions import KernelFile, kernel_file


def arrays_of(outputs: Any) -> list[np.ndarray]:
    """Return the arrays of a kernel's result, one after the other."""
    parts = parts_of(outputs)
    if outputs is None or parts or isinstance(outputs, list | tuple | dict):
        return [array for _, part in parts for array in arrays_of(part)]
    return [_on_host(outputs)]


def _on_host(value: Any) -> np.ndarray:
    """Return an array, a tensor of torch or a number as a NumPy array."""
    if not hasattr(value, "resolve_conj"):
        return np.asarray(value)
    known = as_dtype(str(value.dtype).removeprefix("torch."))
    if known is not None and known.numpy.isbuiltin != 1:  # NumPy cannot read it
        found = array_of("result", value)
        assert found is not None
        return found[0]
    return np.asarray(value.detach().cpu().resolve_conj().numpy())


def differences(old: list[np.ndarray], new: list[np.ndarray]) -> str:
    """Return how results differ; empty if all bits are the same."""
    if len(old) != len(new):
        return f"{len(old)} and {len(new)} outputs"
    found = []
    for number, (a, b) in enumerate(zip(old, new, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            found.append(f"output {number} is {a.dtype} {a.shape} and {b.dtype} {b.shape}")
        elif a.tobytes() != b.tobytes():
            found.append(f"output {number}: {_largest(a, b)}")
    return "; ".join(found)


def _largest(a: np.ndarray, b: np.ndarray) -> str:
    """Return the largest difference of two arrays and the number of elements that differ."""
    bits = [np.frombuffer(array.tobytes(), np.uint8).reshape(a.size, -1) for array in (a, b)]
    count = int((bits[0] != bits[1]).any(axis=1).sum())
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    largest = np.nanmax(np.where(np.isnan(apart), 0.0, apart), initial=0.0)
    return f"largest difference {largest:.3g}, {count} of {a.size} elements"


def relative_change(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> float:
    """Return the largest change of an element, relative to the largest of its array.

    0 if all bits are the same, infinity if arrays differ in number, shape or dtype, or if elements
    that are not finite differ.
    """
    if len(old) != len(new):
        return np.inf
    largest = 0.0
    for a, b in zip(old, new, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return np.inf
        if a.dtype.kind == "O" or a.tobytes() == b.tobytes():
            if a.dtype.kind == "O" and not np.array_equal(a, b):
                return np.inf
            continue
        with np.errstate(all="ignore"):
            x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(x)
        if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return np.inf
        scale = np.abs(x[finite]).max(initial=0.0)
        moved = np.abs(x[finite] - y[finite]).max(initial=0.0)
        if not np.isfinite(moved) or not scale:
            return np.inf
        largest = max(largest, float(moved / scale))
    return largest


MOST_TRIALS = 16
"""Trials of a report."""

_MOST_INSTRUCTIONS = 400_000
"""Instructions that the trials of a report execute at most, each counted once."""

_MOST_SHAPES = 6
"""Second shapes that are tested with the original kernel."""

Progress = Callable[[int, int], object]
"""Called before each trial with its number and the limit; no more are made if it returns False."""


class Tried(NamedTuple):
    """The result of a trial.

    Attributes:
        latency_us: The predicted time.
        change: Largest change of an output, relative to the largest element of its array; 0 if all
            bits are the same.
        refused_on: The other generations that accept the original kernel and refuse this one.
    """

    latency_us: float
    change: float
    refused_on: tuple[str, ...] = ()


class _Ran(NamedTuple):
    """A run: its outputs and the arguments that it wrote to, and the ids of its findings."""

    arrays: list[np.ndarray]
    rules: frozenset[str]


class _Case(NamedTuple):
    """Arguments, the detectors that follow their runs, and the run of the original kernel."""

    arguments: Arguments
    detect: tuple[str, ...] | None
    original: _Ran


class Trials:
    """The trials of one call of a kernel.

    Args:
        kernel: The kernel.
        options: The options of its profile.
        arguments: The arguments of the call.
        latency: Returns the predicted time of a kernel for the arguments, in us.
        instructions: Number of instructions of the kernel.
        progress: Called before each trial.

    Attributes:
        file: The kernel with its file; None without source.
        made: Number of trials so far.
    """

    def __init__(
        self,
        kernel: Kernel,
        options: SimOptions,
        arguments: Arguments,
        latency: Callable[[Kernel], float],
        instructions: int,
        progress: Progress | None = None,
    ) -> None:
        self._kernel = kernel
        self._options = options
        self._arguments = arguments
        self._latency = latency
        self._progress = progress
        self.file: KernelFile | None = kernel_file(kernel)
        self.made = 0
        self._most = min(MOST_TRIALS, _MOST_INSTRUCTIONS // max(instructions, 1))
        self._stopped = False

    def may_go_on(self) -> bool:
        """Return whether another trial may be made."""
        if self.made >= self._most or self._stopped:
            return False
        if self._progress is not None:
            self._stopped = self._progress(self.made + 1, self._most) is False
        return not self._stopped

    def tried(self, text: str, below_us: float, most_change: float = 0.0) -> Tried | None:
        """Return the result of a trial of another text of the kernel's file.

        Args:
            text: The text.
            below_us: Time that the prediction must not exceed.
            most_change: Largest change of an output that is accepted.

        Returns:
            The result; None if the text is no Python, the kernel is too slow, a check has findings
            that the original has not, or an output changes too much.
        """
        self.made += 1
        assert self.file is not None
        try:
            edited = self.file.edited(text)
        except (SyntaxError, ValueError) as error:
            _log("an edit is not valid Python: %s", error)
            return None
        try:
            with unrecorded():
                return self._of(edited, below_us, most_change)
        finally:
            self.file.forget(edited)

    def _of(self, edited: Kernel, below_us: float, most_change: float) -> Tried | None:
        latency = np.inf
        with _logged(edited):
            latency = self._latency(edited)
        if latency > below_us or not self._cases:
            return None
        change = 0.0
        for case in self._cases:
            ran = self._run(edited, case.arguments, case.detect)
            if ran is None or not ran.rules <= case.original.rules:
                return None
            change = max(change, relative_change(case.original.arrays, ran.arrays))
            if change > most_change:
                return None
        refused = [name for name, rules in self._elsewhere if self._refused(edited, name) - rules]
        return Tried(latency, change, tuple(refused))

    @cached_property
    def _elsewhere(self) -> list[tuple[str, frozenset[str]]]:
        """The other generations, each with the rules by which it refuses the original kernel."""
        names = [g.name for g in GENERATIONS if g is not self._options.generation()]
        return [(name, self._refused(self._kernel, name)) for name in names]

    def _refused(self, kernel: Kernel, target: str) -> frozenset[str]:
        """Return the rules by which a generation refuses a kernel; an exception counts as one."""
        options = dataclasses.replace(self._options, target=target, values=False, detect=())
        arguments = given(self._arguments)
        run = Run(kernel, dataclasses.replace(options, source=False, watchers=()), *arguments)
        with unrecorded(), _logged(kernel):
            run.check()
        rules = frozenset(f.rule.id for f in run.report.findings if f.refuses)
        return rules or frozenset([run.report.stopped] if run.report.stopped else [])

    @cached_property
    def _cases(self) -> list[_Case]:
        """The arguments of trials: first others than the given ones, whose check takes longest."""
        start = given(self._arguments)
        checked = self._run(self._kernel, start, None)
        if checked is None:
            return []
        return [*self._fresh(start, checked.rules), _Case(start, None, checked)]

    def _fresh(self, start: Arguments, known: frozenset[str]) -> Iterator[_Case]:
        """Yield a case with fresh values, in a second shape if the kernel accepts one."""
        second = None
        for extents in itertools.islice(other_shapes(start), _MOST_SHAPES):
            ran = self._run(self._kernel, fresh(start, 0.5, extents), (), values=False)
            if ran is not None and ran.rules <= known:
                second = extents
                break
        found = None
        for low in (-1.0, 0.5):  # a logarithm accepts positive values only
            drawn = fresh(start, low, second)
            ran = self._run(self._kernel, drawn, ())
            if ran is not None and ran.rules <= known:
                found = found or _Case(drawn, (), ran)
                if _is_finite(ran.arrays):
                    found = _Case(drawn, (), ran)
                    break
        if found is not None:
            yield found

    def _run(
        self,
        kernel: Kernel,
        arguments: Arguments,
        detect: tuple[str, ...] | None,
        *,
        values: bool = True,
    ) -> _Ran | None:
        """Run a kernel; the source is checked where all detectors follow the run."""
        options = dataclasses.replace(
            self._options,
            values=values,
            trip_count=None if values else self._options.trip_count,
            detect=detect,
            source=detect is None,
            watchers=(),
        )
        arrays: list[np.ndarray] = []

        def copied(_: str, array: np.ndarray) -> np.ndarray:
            arrays.append(np.array(array))
            return arrays[-1]

        copy = arguments.changed(copied)
        run = Run(kernel, options, copy.args, copy.kwargs)
        with unrecorded(), _logged(kernel):
            run.check()
        if run.report.stopped:
            return None
        rules = frozenset(f.rule.id for f in run.report.findings if f.severity != "note")
        return _Ran([*arrays_of(run.report.outputs), *arrays], rules)


@contextmanager
def _logged(kernel: Kernel) -> Iterator[None]:
    """Context manager that logs what a kernel raises: it is the user's code, and the edit fails."""
    try:
        yield
    except Exception:
        _log("a run of %s for a trial failed", kernel.__name__, exc_info=True)


def _log(message: str, *values: object, exc_info: bool = False) -> None:
    import logging

    logging.getLogger(__name__).debug(message, *values, exc_info=exc_info)


def _is_finite(arrays: list[np.ndarray]) -> bool:
    floats = (a for a in arrays if a.dtype.kind not in "biuOV")
    return all(bool(np.isfinite(a.astype(np.float32)).all()) for a in floats)
