"""``nkisim.tune``: try every combination of values of some parameters of a kernel."""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import fields
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
from nkisim.trials.comparison import tolerance_of
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
        arguments: The arguments of the call.
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
    jobs: int = 1,
    file: Path | None = None,
    max_seconds: float = 600.0,
    progress: Progress | None = None,
    **options: Any,
) -> Callable[..., Tuning]:
    """Return a callable that ranks the variants of ``kernel`` for its arguments.

    Each variant runs once with values and every rule; those with an error are dropped with the
    reason. The rest are ranked by predicted time. The outputs of the best one agree with those of
    the first legal one, in the order of the space.

    Args:
        kernel: A function, with or without ``@jit``, ``kernel[lnc]``, or a ``functools.partial``.
        space: Values of parameters by name; they replace those of the call.
        target: As for ``profile``.
        jobs: Number of processes; with more than one, the kernel must be a name of a module.
        file: The file to import in these processes; None where its module can be imported.
        max_seconds: Limit of one variant.
        progress: Called after each variant.
        **options: Other options of ``profile``, such as ``assume`` and ``nki``.

    Raises:
        ValueError: The space is empty or has a name that is no parameter or a value that is no
            constant, or no other process can import the kernel.
        NoneLegalError: When called: every variant is dropped.
    """
    wanted = as_kernel(kernel)
    variants = _variants(wanted, space)
    if jobs < 1:
        raise ValueError(f"jobs: got {jobs}, accepted: at least 1")

    def tuned(*args: Any, **kwargs: Any) -> Tuning:
        call = given(Arguments(*wanted.arguments(args, kwargs)))
        problem = _Problem(
            dataclasses.replace(wanted, bound=((), {})), call, target, options, max_seconds
        )
        results = []
        for outcome in _outcomes(problem, variants, jobs, file):
            results.append(outcome)
            if progress is not None:
                progress(len(results), len(variants))
        return _ranked(problem, results)

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


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    if value is None or isinstance(value, bool | int | float | str | np.number | np.bool_):
        return True
    return not isinstance(value, np.ndarray) and as_dtype(value) is not None


# -- runs ------------------------------------------------------------------------------------------


def _tried(problem: _Problem, values: Values) -> Variant | Dropped:
    """Run one variant."""
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
    if errors:
        return Dropped(values, _finding(errors[0]))
    return Variant(
        values=values,
        latency_us=found.latency_us,
        interval_us=found.interval_us,
        bound_by=found.bound_by,
        bound_share=found.bound_share,
        hbm_bytes=found.hbm_bytes,
        spill_bytes=found.spill_bytes,
        used_bytes={region: _used_bytes(found, region) for region in found.capacity},
        capacity=found.capacity,
        instructions=sum(found.instructions.values()),
    )


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
) -> Iterator[Variant | Dropped]:
    """Yield the outcome of each variant, in order."""
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


def _tried_here(values: Values) -> Variant | Dropped:
    return _tried(_received[0], values)


# -- ranking ---------------------------------------------------------------------------------------


def _ranked(problem: _Problem, results: list[Variant | Dropped]) -> Tuning:
    """Return the result, whose best variant computes what the first legal one computes."""
    legal = [outcome for outcome in results if isinstance(outcome, Variant)]
    dropped = [outcome for outcome in results if isinstance(outcome, Dropped)]
    if not legal:
        reasons = "\n".join(dropped_lines(dropped))
        raise NoneLegalError(f"no variant of {problem.kernel.__name__} is legal:\n{reasons}")
    first = legal[0]
    expected = arrays_of(_run(problem, first).outputs)
    # Each variant may be off by the tolerance.
    most = 2 * tolerance_of(problem.arguments, expected)
    while True:
        groups = ranked(legal)
        best = groups[0][0]
        report = _run(problem, best)
        change = relative_change(expected, arrays_of(report.outputs))
        compared = "all bits are the same"
        if change:
            compared = f"they differ by {change:.1e} of the largest element, accepted {most:.1e}"
        if change <= most:
            break
        legal.remove(best)
        dropped.append(Dropped(best.values, f"computes something else than the first: {compared}"))
    names = set(best.values)
    return Tuning(
        kernel=report.kernel,
        target=report.target,
        nki=report.nki,
        arguments={name: text for name, text in report.arguments.items() if name not in names},
        variants=[variant for group in groups for variant in group],
        ties=len(groups[0]),
        dropped=dropped,
        agreement=f"those of {shown(first.values)}: {compared}",
        equal_bits=not change,
    )


def _run(problem: _Problem, variant: Variant) -> Report:
    """Run a legal variant once more, for its outputs."""
    names = {entry.name for entry in fields(SimOptions)}
    options = {name: value for name, value in problem.options.items() if name in names}
    call = problem.call(variant.values)
    run = Run(
        problem.kernel,
        SimOptions(**{**options, "strictness": "check", "target": problem.target, "detect": ()}),
        call.args,
        call.kwargs,
    )
    run.execute()
    return run.report
