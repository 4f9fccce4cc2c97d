"""``nkisim.tune``: try every combination of values of some parameters of a kernel."""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from inspect import Signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nkisim.api import Kernel, as_kernel
from nkisim.diagnostics import Finding, Report
from nkisim.dtypes import as_dtype
from nkisim.filecheck.modules import GaveUp, imported, time_limit
from nkisim.options import SimOptions
from nkisim.profiling import Profile, ProfileError, profile
from nkisim.profiling.charts import memory_changes
from nkisim.runs import Run
from nkisim.trials import Arguments
from nkisim.trials.arguments import given
from nkisim.trials.comparison import Expected
from nkisim.trials.references import Reference, Refused
from nkisim.trials.running import arrays_of, relative_change
from nkisim.tuning.result import (
    Dropped,
    NoneLegalError,
    Tuning,
    Values,
    Variant,
    dropped_lines,
    ranked,
    shown,
)

Progress = Callable[[int, int], object]
"""Called after each variant with the number of variants that are done, and of all."""


class _Problem(NamedTuple):
    """What all variants share.

    Attributes:
        kernel: The kernel, without bound arguments.
        arguments: The arguments of the call that are not in the space.
        target: Generation.
        options: Options of the profile.
        max_seconds: Limit of a variant.
    """

    kernel: Kernel
    arguments: Arguments
    target: str | None
    options: dict[str, Any]
    max_seconds: float

    def call(self, values: Values) -> Arguments:
        """Return the arguments of a variant; arrays are copies, as a kernel may write to them."""
        call = Signature(self.kernel.parameters).bind_partial(
            *self.arguments[0], **self.arguments[1]
        )
        call.arguments.update(values)
        return Arguments(call.args, call.kwargs).changed(lambda _, array: np.array(array))


def tune(
    kernel: Any,
    space: Mapping[str, Iterable[Any]],
    target: str | None = None,
    *,
    reference: Callable[..., Any] | None = None,
    jobs: int = 1,
    file: Path | None = None,
    max_seconds: float = 600.0,
    progress: Progress | None = None,
    **options: Any,
) -> Callable[..., Tuning]:
    """Return a callable that ranks the variants of ``kernel`` for its arguments.

    Each variant runs with values and every rule. Those with an error are dropped with the reason,
    and those whose outputs are not right with the place of the worst element. The rest are ranked
    by predicted time. Right is what the reference computes; without one, what the kernel computes
    with the values of the call and its defaults, or where these are illegal, what the first legal
    variant computes.

    Args:
        kernel: A function, with or without ``@jit``, ``kernel[lnc]``, or a ``functools.partial``.
        space: Values of parameters by name; they replace those of the call.
        target: As for ``profile``.
        reference: A function of NumPy or torch, called with the arguments of the call that are not
            parameters of the space.
        jobs: Number of processes; with more than one, the kernel must be a name of a module.
        file: The file to import in these processes; None where its module can be imported.
        max_seconds: Limit of one variant.
        progress: Called after each variant.
        **options: Other options of ``profile``, such as ``assume`` and ``nki``.

    Raises:
        ValueError: The space is empty or has a name that is no parameter or a value that is no
            constant, or no other process can import the kernel. When called: the reference raises.
        NoneLegalError: When called: every variant is dropped.
    """
    wanted = as_kernel(kernel)
    variants = _variants(wanted, space)
    if jobs < 1:
        raise ValueError(f"jobs: got {jobs}, accepted: at least 1")

    def tuned(*args: Any, **kwargs: Any) -> Tuning:
        call = _without(wanted, space, given(Arguments(*wanted.arguments(args, kwargs))))
        problem = _Problem(
            dataclasses.replace(wanted, bound=((), {})), call, target, options, max_seconds
        )
        right = _right(problem, reference)
        results = []
        for tried in _outcomes(problem, variants, jobs, file):
            if right is None and isinstance(tried.outcome, Variant):
                name = f"the first legal variant, {shown(tried.outcome.values)}"
                right = _Right(name, Expected(tried.outputs, call), tried.outputs)
            results.append(tried if right is None else right.judged(tried))
            if progress is not None:
                progress(len(results), len(variants))
        return _ranked(problem.kernel.__name__, right, results)

    return tuned


def _variants(kernel: Kernel, space: Mapping[str, Iterable[Any]]) -> list[Values]:
    names = [
        p.name for p in kernel.parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if not isinstance(space, Mapping):
        raise ValueError(
            f"space: got {type(space).__name__}, accepted: values by parameter, such as "
            "{'TILE': [1, 2]}"
        )
    if not space:
        raise ValueError("space: it is empty; accepted: values of at least one parameter")
    for name, values in space.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ValueError(f"space: values of {name} must be a list, got {values!r}")
    choices = {name: list(values) for name, values in space.items()}
    for name, values in choices.items():
        if name not in names:
            raise ValueError(
                f"space: {kernel.__name__} has no parameter {name!r}; it has {', '.join(names)}"
            )
        if not values:
            raise ValueError(f"space: {name} has no values")
        for value in values:
            if not _is_constant(value):
                raise ValueError(
                    f"space: {name} has a value of type {type(value).__name__}; accepted: numbers, "
                    "strings, None, dtypes, and tuples of them"
                )
    return [
        dict(zip(choices, chosen, strict=True)) for chosen in itertools.product(*choices.values())
    ]


def _without(kernel: Kernel, space: Iterable[str], arguments: Arguments) -> Arguments:
    """Return arguments without those that are in the space."""
    call = Signature(kernel.parameters).bind_partial(*arguments.args, **arguments.kwargs)
    for name in space:
        call.arguments.pop(name, None)
    return Arguments(call.args, call.kwargs)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    if value is None or isinstance(value, bool | int | float | str | np.number | np.bool_):
        return True
    return not isinstance(value, np.ndarray) and as_dtype(value) is not None


# -- runs ------------------------------------------------------------------------------------------


class _Tried(NamedTuple):
    """A variant that has run.

    Attributes:
        outcome: The variant, or why it is dropped.
        outputs: Its outputs.
        call: Fields of ``Tuning`` that all variants share.
    """

    outcome: Variant | Dropped
    outputs: list[np.ndarray]
    call: dict[str, Any]


def _tried(problem: _Problem, values: Values) -> _Tried:
    """Run one variant."""
    found = _profile_of(problem, values)
    if isinstance(found, Dropped):
        return _Tried(found, [], {})
    given = {name: text for name, text in found.arguments.items() if name not in values}
    return _Tried(
        Variant(
            values=values,
            latency_us=found.latency_us,
            interval_us=found.interval_us,
            assumptions=tuple(found.assumptions),
            bound_by=found.bound_by,
            bound_share=found.bound_share,
            hbm_bytes=found.hbm_bytes,
            spill_bytes=found.spill_bytes,
            used_bytes={region: _used_bytes(found, region) for region in found.capacity},
            capacity=found.capacity,
            instructions=sum(found.instructions.values()),
        ),
        arrays_of(_run(problem, values).outputs),
        {"kernel": found.kernel, "target": found.target, "nki": found.nki, "arguments": given},
    )


def _profile_of(problem: _Problem, values: Values) -> Profile | Dropped:
    """Return the profile of a legal variant."""
    predict = profile(
        problem.kernel,
        problem.target,
        values=True,
        advice=False,
        **{"detect": None, **problem.options},
    )
    try:
        with time_limit(problem.max_seconds):
            call = problem.call(values)
            found = predict(*call.args, **call.kwargs)
    except ProfileError as error:
        refused = error.report.errors
        return Dropped(values, _finding(refused[0]) if refused else str(error).partition("\n")[0])
    except GaveUp as error:
        return Dropped(values, f"exceeds {error}")
    except Exception as error:  # the kernel's own, such as an assert about its parameters
        text = str(error).partition("\n")[0]
        return Dropped(values, f"{type(error).__name__}: {text}" if text else type(error).__name__)
    errors = [finding for finding in found.findings if finding.severity == "error"]
    return Dropped(values, _finding(errors[0])) if errors else found


def _finding(finding: Finding) -> str:
    return f"{finding.rule.id} {finding.rule.slug}: {finding.message}"


def _used_bytes(found: Profile, region: str) -> int:
    """Return the bytes per partition that tiles need at most, on the fullest core."""
    most = 0
    for core in range(len(found.per_core)):
        uses = [use for use in found.memory if (use.core, use.region) == (core, region)]
        changes = (sum(change.values()) for _, change in memory_changes(uses))
        most = max(most, *itertools.accumulate(changes), 0)
    return most


def _outcomes(
    problem: _Problem, variants: list[Values], jobs: int, file: Path | None
) -> Iterator[_Tried]:
    """Yield the result of each variant, in order."""
    if jobs == 1:
        yield from map(partial(_tried, problem), variants)
        return
    try:
        payload = pickle.dumps(problem)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        name = problem.kernel.__name__
        raise ValueError(
            f"jobs: got {jobs}, but another process cannot import {name}: {error}"
        ) from error
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(variants)), spawn, _receive, (file, payload)) as pool:
        yield from pool.map(_tried_here, variants)


_received: list[_Problem] = []
"""The problem of a process that tries variants; arrays are sent to it once."""

_imports = ExitStack()
"""Holds what such a process has imported, until it ends."""


def _receive(file: Path | None, payload: bytes) -> None:
    if file is not None:
        _imports.enter_context(imported(file, 60.0))
    _received.append(pickle.loads(payload))


def _tried_here(values: Values) -> _Tried:
    return _tried(_received[0], values)


# -- comparison and ranking ------------------------------------------------------------------------

_EQUAL = "all bits are the same"


class _Right(NamedTuple):
    """What variants must compute.

    Attributes:
        name: Whose results these are.
        expected: The results.
        outputs: The outputs whose bits variants may have; empty with a reference.
    """

    name: str
    expected: Expected
    outputs: list[np.ndarray]

    def judged(self, tried: _Tried) -> _Tried:
        """Return a variant with its agreement, or dropped if it computes something else."""
        variant = tried.outcome
        if isinstance(variant, Dropped):
            return tried
        found = self.expected.compared(tried.outputs)
        if not found.passed:
            reason = f"computes something else than {self.name}: {found}"
            return _Tried(Dropped(variant.values, reason), [], {})
        same = self.outputs and not relative_change(self.outputs, tried.outputs)
        variant = replace(variant, agreement=_EQUAL if same else str(found))
        return _Tried(variant, [], tried.call)


def _right(problem: _Problem, reference: Callable[..., Any] | None) -> _Right | None:
    """Return what variants must compute; None if the kernel is illegal with its defaults."""
    if reference is None:
        usual = _tried(problem, {})
        if isinstance(usual.outcome, Dropped):
            return None
        return _Right("the defaults", Expected(usual.outputs, problem.arguments), usual.outputs)
    try:
        expected = Expected(Reference(reference), problem.arguments)
    except Refused as error:
        raise ValueError(f"reference: {error}") from error
    return _Right("the reference", expected, [])


def _ranked(kernel: str, right: _Right | None, results: list[_Tried]) -> Tuning:
    """Return the result."""
    dropped = [tried.outcome for tried in results if isinstance(tried.outcome, Dropped)]
    legal = [tried.outcome for tried in results if isinstance(tried.outcome, Variant)]
    if right is None or not legal:
        reasons = "\n".join(dropped_lines(dropped))
        raise NoneLegalError(f"no variant of {kernel} is legal and right:\n{reasons}")
    groups = ranked(legal)
    best = groups[0][0]
    return Tuning(
        **next(tried.call for tried in results if tried.call),
        variants=[variant for group in groups for variant in group],
        ties=len(groups[0]),
        dropped=dropped,
        agreement=f"those of {right.name}: {best.agreement}",
        equal_bits=best.agreement == _EQUAL,
    )


def _run(problem: _Problem, values: Values) -> Report:
    """Run a legal variant once more, for its outputs."""
    names = {entry.name for entry in fields(SimOptions)}
    options = {name: value for name, value in problem.options.items() if name in names}
    call = problem.call(values)
    run = Run(
        problem.kernel,
        SimOptions(**{**options, "strictness": "check", "target": problem.target, "detect": ()}),
        call.args,
        call.kwargs,
    )
    run.execute()
    return run.report
