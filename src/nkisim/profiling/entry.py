"""``nkisim.profile``: run a kernel once, schedule its instructions, return the profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from nkisim.api import as_kernel, check_into
from nkisim.diagnostics import Report
from nkisim.options import SimOptions
from nkisim.profiling.advice import advise
from nkisim.profiling.analysis import profile_of
from nkisim.profiling.program import Capture
from nkisim.profiling.result import Profile
from nkisim.profiling.spills import DoesNotFitError

__all__ = ["ProfileError", "profile"]

_MOST_INSTRUCTIONS = 2_000_000


class ProfileError(RuntimeError):
    """A kernel has no device time: the compiler would refuse it, or its run did not end.

    Attributes:
        report: The report of the run, with the findings.
    """

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


class _TooLong(BaseException):
    """The kernel executes too many instructions; its own ``except Exception`` does not catch it."""


def profile(
    kernel: Any,
    target: str = "trn2",
    *,
    values: bool = False,
    advice: bool = True,
    max_instructions: int = _MOST_INSTRUCTIONS,
    **options: Any,
) -> Callable[..., Profile]:
    """Return a callable that predicts the device time of ``kernel`` for its arguments.

    The kernel runs once on the simulator, without values unless asked for; its instructions are
    then scheduled on the engines and queues of the target.

    Args:
        kernel: A function, with or without ``@jit``, ``kernel[lnc]``, or a ``functools.partial``.
        target: ``"trn1"``, ``"trn2"``, ``"trn3"`` or a generation.
        values: Compute values too; where loops depend on values in memory, this or
            ``trip_count`` is needed.
        advice: Search for changes that make the kernel faster.
        max_instructions: Instructions after which the kernel counts as endless.
        **options: Other fields of ``SimOptions``, such as ``trip_count``.

    Raises:
        ValueError: The target or an option is unknown.
        ProfileError: When called: the kernel has findings of error severity, executes too many
            instructions, or needs values.
    """
    if max_instructions < 1:
        raise ValueError(f"max_instructions: got {max_instructions}, accepted: at least 1")
    chosen = SimOptions(
        **{"detect": (), **options, "strictness": "check", "target": target, "values": values}
    )
    wanted = as_kernel(kernel)

    def profiled(*args: Any, **kwargs: Any) -> Profile:
        capture = Capture(chosen.generation())
        count = 0

        def watch(event: Any) -> None:
            nonlocal count
            count += 1
            if count > max_instructions:
                raise _TooLong
            capture(event)

        report = Report()
        watched = dataclasses.replace(chosen, watchers=(*chosen.watchers, watch))
        try:
            check_into(report, wanted, watched, args, kwargs)
        except _TooLong:
            raise ProfileError(
                f"{wanted.__name__} executes more than {max_instructions:,} instructions; "
                "max_instructions sets another limit",
                report,
            ) from None
        except ValueError as error:
            raise ProfileError(f"{wanted.__name__}: {error}", report) from error
        _require_legal(wanted.__name__, report, values=values)
        findings = [f"{finding.headline}: {finding.message}" for finding in report.findings]
        try:
            found = profile_of(capture.program, wanted.__name__, findings, chosen.version())
        except DoesNotFitError as error:
            raise ProfileError(f"{wanted.__name__}: {error}", report) from None
        if advice:
            found.advice = advise(capture.program, found)
        return found

    return profiled


def _require_legal(name: str, report: Report, *, values: bool) -> None:
    """Raise unless the compiler would accept the kernel and its run has ended."""
    if report.errors:
        listed = "\n".join(f"  {finding}" for finding in report.errors[:5])
        raise ProfileError(
            f"{name} has no device time, {report.summary()}: the compiler or the device refuses "
            f"it\n{listed}",
            report,
        )
    if report.stopped:
        hint = "" if values else "; values=True computes what its loops depend on"
        raise ProfileError(f"{name} stopped: {report.stopped}{hint}", report)
