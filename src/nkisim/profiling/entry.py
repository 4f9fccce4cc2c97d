"""``nkisim.profile``: run a kernel once, schedule its instructions, return the profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from nkisim.api import Kernel, as_kernel
from nkisim.diagnostics import Finding, Report
from nkisim.options import SimOptions
from nkisim.profiling.advice import advise
from nkisim.profiling.analysis import Prediction, profile_of
from nkisim.profiling.model.assumptions import assumed
from nkisim.profiling.model.program import Capture
from nkisim.profiling.model.spills import DoesNotFitError
from nkisim.profiling.shown import Profile
from nkisim.runs import Run
from nkisim.runs.host import described, tensors_of
from nkisim.trials import Arguments, Progress, Trials

_MOST_INSTRUCTIONS = 2_000_000

Descriptors = Literal["software", "prebuilt"]
"""Origins of DMA descriptors that can be assumed where a kernel leaves it to the compiler."""


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
    target: str | None = None,
    *,
    values: bool = False,
    advice: bool = True,
    descriptors: Descriptors = "software",
    assume: Mapping[str, Any] | None = None,
    max_instructions: int = _MOST_INSTRUCTIONS,
    progress: Progress | None = None,
    **options: Any,
) -> Callable[..., Profile]:
    """Return a callable that predicts the device time of ``kernel`` for its arguments.

    The kernel runs once on the simulator, without values unless asked for; its instructions are
    then scheduled on the engines and queues of the target.

    Args:
        kernel: A function, with or without ``@jit``, ``kernel[lnc]``, or a ``functools.partial``.
        target: ``"trn1"``, ``"trn2"``, ``"trn3"`` or a generation. None selects the target of the
            environment variables, else trn2, as in ``simulate``.
        values: Compute values too; where loops depend on values in memory, this or
            ``trip_count`` is needed.
        advice: Search for changes that make the kernel faster. Each is tried on the arguments and
            on others: the kernel runs with values a few times for each of at most 16 trials.
        descriptors: Origin of DMA descriptors where the kernel leaves it to the compiler:
            ``"software"``, made by GpSimd as the transfers are triggered, or ``"prebuilt"``, made
            before the run. On Trainium 1 they are always prebuilt.
        assume: Values of assumptions of the model by name, in place of their defaults; the profile
            lists those that matter with their alternatives.
        max_instructions: Instructions after which the kernel counts as endless.
        progress: Called before each trial of a change with its number and the limit; if it returns
            False, there are no more.
        **options: Other fields of ``SimOptions``, such as ``trip_count``.

    Raises:
        ValueError: The target, an option or an assumption is unknown.
        ProfileError: When called: an instruction is refused, or the kernel executes too many
            instructions or needs values. Findings about the source alone or about values are in
            the profile.
    """
    if descriptors not in get_args(Descriptors):
        raise ValueError(f"descriptors: got {descriptors!r}, accepted: 'software', 'prebuilt'")
    if max_instructions < 1:
        raise ValueError(f"max_instructions: got {max_instructions}, accepted: at least 1")
    chosen = SimOptions(
        **{"detect": (), **options, "strictness": "check", "target": target, "values": values}
    )
    assumptions = assumed(assume or {}, chosen.version())
    wanted = as_kernel(kernel)

    def predicted(
        kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Prediction, Run]:
        capture = Capture(
            chosen.generation(),
            descriptors,
            assumptions,
            ranks=chosen.ranks,
            cores=kernel.cores or 1,
        )
        count = 0

        def watch(event: Any) -> None:
            nonlocal count
            count += 1
            if count > max_instructions:
                raise _TooLong
            capture(event)

        watched = dataclasses.replace(chosen, watchers=(*chosen.watchers, watch))
        run = Run(kernel, watched, args, kwargs)
        report = run.report
        try:
            ran = run.check()
        except _TooLong:
            raise ProfileError(
                f"{kernel.__name__} executes more than {max_instructions:,} instructions; "
                "max_instructions sets another limit",
                report,
            ) from None
        except ValueError as error:
            raise ProfileError(f"{kernel.__name__}: {error}", report) from error
        capture.add_edges(run.edges)
        _require_legal(kernel.__name__, report, ran, values=values)
        try:
            return Prediction(capture.program), run
        except DoesNotFitError as error:
            raise ProfileError(f"{kernel.__name__}: {error}", report) from None

    def profiled(*args: Any, **kwargs: Any) -> Profile:
        prediction, run = predicted(wanted, args, kwargs)
        report = run.report
        found = profile_of(prediction, wanted.__name__, list(report.findings), chosen.version())
        found.file, found.arguments = run.place.file, report.arguments
        found.results = [described(tensor) for tensor in tensors_of(run.returned[0])]
        if advice:
            tried, given = wanted, Arguments(args, kwargs)
            if chosen.ranks == 1:  # bound arguments are arguments like others
                tried = dataclasses.replace(wanted, bound=((), {}))
                given = Arguments(*wanted.arguments(args, kwargs))

            made = [prediction]

            def latency(kernel: Kernel) -> float:
                made[:] = [predicted(kernel, *given)[0]]
                return made[0].latency_us

            count = sum(found.instructions.values())
            trials = Trials(tried, chosen, given, latency, count, progress)
            advise(prediction.program, found, trials, lambda: made[0])
        return found

    return profiled


def _require_legal(name: str, report: Report, ran: list[Finding], *, values: bool) -> None:
    """Raise unless the device accepts the instructions that ``ran`` and the run has ended."""
    refused = [finding for finding in ran if finding.refuses]
    if refused:
        listed = "\n".join(f"  {finding}" for finding in refused[:5])
        raise ProfileError(
            f"{name} has no device time, {report.summary()}: the compiler or the device refuses "
            f"it\n{listed}",
            report,
        )
    if report.stopped:
        hint = "" if values else "; values=True computes what its loops depend on"
        raise ProfileError(f"{name} stopped: {report.stopped}{hint}", report)
