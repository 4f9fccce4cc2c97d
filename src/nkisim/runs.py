"""One run of a kernel: on one core, on two, or on several ranks, from its arguments to its report.

A run owns its cores and its findings. They are stored in context variables for the duration of the
run, so that runs in different threads are independent and an exception leaves no state behind.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from nkisim.checks import (
    Detectors,
    check_arguments,
    check_capacity,
    check_outputs,
    occupancy_of,
    report_unbound,
)
from nkisim.checks.history import bits_of
from nkisim.compiled import arithmetic
from nkisim.diagnostics import (
    RECORDER,
    NkiValidationError,
    Place,
    Recorder,
    Report,
    declare,
    flag,
)
from nkisim.host import HostBoundary, definition_place, kernel_name, tensors_of
from nkisim.machine import CORE, Cluster, Core, Member, Stopped, one_blas_thread
from nkisim.machine.sharing import SharedAccess
from nkisim.memory import MemoryRegion, NkiTensor, SharedHbm
from nkisim.options import SimOptions
from nkisim.parts import rebuilt
from nkisim.removed import report_missing
from nkisim.suggestions import complete, settle
from nkisim.versions import judged_by

__all__ = ["LAUNCH_GRID", "run"]

_LOG = logging.getLogger(__name__)

LAUNCH_GRID = declare(
    "C001",
    "launch-grid",
    "error",
    "A kernel is launched on a grid that the target does not have.",
    "a logical core has one or two physical cores, and one on gen2",
    meaningless=True,
)
SHARED_ONCE = declare(
    "C005",
    "shared-once",
    "warning",
    "A shared_hbm tensor is created on one core only.",
    "the back end warns or crashes",
)


class Runnable(Protocol):
    """The interface of a kernel that a run needs: see ``Kernel``."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def cores(self) -> int | None: ...
    @property
    def parameters(self) -> list[inspect.Parameter]: ...
    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a call's arguments, the bound ones included."""


def run(
    kernel: Runnable,
    options: SimOptions,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    report: Report,
) -> None:
    """Run a kernel once and fill ``report`` with its findings and outputs.

    Raises:
        NkiValidationError: The kernel broke a rule at which the strictness stops; in ``check`` it
            is recorded only.
    """
    report.target = options.generation().name
    report.nki = options.version()
    strictness = options.level()
    recorder = Recorder(strictness, options.errors, options.ignored())
    cores: list[Core] = []
    token = RECORDER.set(recorder)
    try:
        with np.errstate(all="ignore"), one_blas_thread(), judged_by(report.nki):
            tracker = _tracker(options)
            if "arguments" in options.detectors():
                _check_arguments(kernel, args, kwargs)
            if options.ranks == 1 and kernel.cores != 2:
                core = _core(options, recorder, kernel, tracker=tracker)
                cores.append(core)
                host = HostBoundary(
                    kernel.function, kernel.parameters, core, MemoryRegion.private_hbm
                )
                result = _execute(kernel, core, *host.bring_in(*kernel.arguments(args, kwargs)))
                report.outputs = _finish(kernel, [core], host, result)
                _detect(kernel, tracker, [(host, result)])
                _settle(kernel, options, args, kwargs, tracker, host, result)
            else:
                report.outputs = _run_cluster(
                    kernel, options, recorder, args, kwargs, tracker, cores
                )
    except BaseException as error:
        report.stopped = _reason(error)
        earlier = recorder.findings
        if isinstance(error, NkiValidationError):
            recorder.add(error.finding)
        # A check continues after a finding, also after a deadlock, which is already recorded.
        if strictness != "check" or not isinstance(error, (NkiValidationError, Stopped)):
            for finding in earlier:
                error.add_note(f"before: {finding.headline}: {finding.message}, {finding.place}")
            raise
    finally:
        report.findings = recorder.findings
        with judged_by(options.version()):
            complete(report.findings)
            settle(report.findings)
        report.silenced = recorder.silenced
        report.arithmetic = arithmetic()
        report.instructions = sum(core.clock for core in cores)
        if strictness == "check":
            name = kernel_name(kernel.function)
            for core in cores:
                where = "" if core.member is None else core.member.label
                report.memory += [
                    dataclasses.replace(used, kernel=name, target=report.target)
                    for used in occupancy_of(core, where)
                ]
        RECORDER.reset(token)


def _reason(error: BaseException) -> str:
    """Return in one line the reason why a run ended early."""
    if isinstance(error, NkiValidationError):
        return f"{error.finding.rule.id} {error.finding.rule.slug}"
    return "deadlock" if isinstance(error, Stopped) else f"{type(error).__name__}: {error}"


def _check_arguments(kernel: Runnable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check the arguments of a kernel before arrays become tensors."""
    args, kwargs = kernel.arguments(args, kwargs)
    names = [p.name for p in kernel.parameters]
    names += [f"argument {i}" for i in range(len(names), len(args))]
    given = dict(zip(names, args, strict=False)) | kwargs
    check_arguments(given, definition_place(kernel.function))


def _tracker(options: SimOptions) -> Detectors | None:
    """Return the detectors of a run, or None."""
    names = options.detectors()
    return Detectors(names, options.most_instructions) if names else None


def _core(options: SimOptions, recorder: Recorder, kernel: Runnable, **place: Any) -> Core:
    return Core(
        options.generation(),
        recorder,
        precise=options.precise(),
        watchers=options.watchers,
        values=options.values,
        trip_count=options.trip_count,
        version=options.version(),
        has_grid=kernel.cores is not None,
        **place,
    )


def _execute(kernel: Runnable, core: Core, positional: list[Any], named: dict[str, Any]) -> Any:
    """Run a kernel's code on a core and return its result."""
    token = CORE.set(core)
    try:
        with judged_by(core.version):
            return kernel.function(*positional, **named)
    except UnboundLocalError as error:
        report_unbound(error)
        raise
    except AttributeError as error:
        report_missing(error)
        raise
    finally:
        CORE.reset(token)


def _finish(kernel: Runnable, cores: list[Core], host: HostBoundary, result: Any) -> Any:
    """Check a finished run of a rank, and return its results as the caller's kind of array."""
    place = definition_place(kernel.function)
    check_outputs(result, cores[0], place)
    for core in cores:
        check_capacity(core, place)
    return host.carry_out(result)


def _detect(
    kernel: Runnable, tracker: Detectors | None, ended: list[tuple[HostBoundary, Any]]
) -> None:
    """Run the detectors on a finished run of all ranks."""
    if tracker is not None:
        returned = [tensor for _, result in ended for tensor in tensors_of(result)]
        arguments = [argument for host, _ in ended for argument in host.arguments]
        tracker.finish(returned, arguments, kernel.function, definition_place(kernel.function))


def _settle(
    kernel: Runnable,
    options: SimOptions,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tracker: Detectors | None,
    host: HostBoundary,
    result: Any,
) -> None:
    """Decide findings that need another run: with other old elements, or without switches."""
    if tracker is None or any(tensor.life.first_use >= 0 for _, tensor in host.arguments):
        return  # another run would start from the arguments as modified by the first
    again = functools.partial(_run_again, kernel, options, args, kwargs)
    returned = tensors_of(result)
    if tracker.tails is not None and tracker.tails.suspected:
        pairs = zip(returned, again("lostwork", unsettled=True), strict=False)
        if any((bits_of(first) != bits_of(second)).any() for first, second in pairs):
            tracker.tails.report()
    if tracker.counts is not None and tracker.counts.suspected:
        tracker.counts.report(returned, again("races", idle=True))


def _run_again(
    kernel: Runnable,
    options: SimOptions,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    detector: str,
    **changed: bool,
) -> list[NkiTensor]:
    """Return the tensors of another run without observers; none if it fails."""
    recorder = Recorder("check")
    token = RECORDER.set(recorder)
    try:
        tracker = Detectors((detector,), options.most_instructions, **changed)
        unwatched = dataclasses.replace(options, watchers=())
        core = _core(unwatched, recorder, kernel, tracker=tracker)
        host = HostBoundary(kernel.function, kernel.parameters, core, MemoryRegion.private_hbm)
        brought = host.bring_in(*kernel.arguments(args, kwargs))
        return tensors_of(_execute(kernel, core, *brought))
    except Exception:
        # The kernel cannot be run twice: the findings of the first run remain.
        _LOG.debug("a second run of %s failed", kernel.function.__name__, exc_info=True)
        return []
    finally:
        RECORDER.reset(token)


def _run_cluster(
    kernel: Runnable,
    options: SimOptions,
    recorder: Recorder,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tracker: Detectors | None,
    running: list[Core],
) -> Any:
    """Run a kernel on two cores, on several ranks, or both, with one thread per core."""
    cores = kernel.cores or 1
    if cores > options.generation().lnc_max:
        flag(
            LAUNCH_GRID,
            f"kernel[{cores}] on {options.generation()}, whose logical core has one core",
            seen=cores,
            allowed=1,
            fix="launch with kernel[1], or choose gen3 or newer",
            place=definition_place(kernel.function),
        )
    cluster = Cluster(options.ranks, cores, options.schedule_seed)
    bodies: list[tuple[str, Callable[[], Any]]] = []
    by_rank: list[tuple[SharedHbm | None, list[Core], HostBoundary]] = []
    for rank, (rank_args, rank_kwargs) in enumerate(_arguments_by_rank(options, args, kwargs)):
        shared = SharedHbm(SharedAccess) if cores > 1 else None
        members = [Member(cluster, rank, number) for number in range(cores)]
        made = [
            _core(options, recorder, kernel, member=m, shared=shared, tracker=tracker)
            for m in members
        ]
        running.extend(made)
        host = HostBoundary(kernel.function, kernel.parameters, made[0], MemoryRegion.shared_hbm)
        positional, named = host.bring_in(*kernel.arguments(rank_args, rank_kwargs))
        for member, core in zip(members, made, strict=True):
            # Changes of arguments are private to a core; only tensors are shared.
            own = rebuilt((positional, named), lambda _, part: part)
            body = functools.partial(_execute, kernel, core, *own)
            bodies.append((member.label, body))
        by_rank.append((shared, made, host))
    results = cluster.schedule.run(bodies)
    outputs, ended = [], []
    for rank, (shared, made, host) in enumerate(by_rank):
        if shared is not None:
            _check_shared(shared, made)
        returned = results[rank * cores : (rank + 1) * cores]
        result = next((r for r in returned if r is not None), None)
        outputs.append(_finish(kernel, made, host, result))
        ended.append((host, result))
    _detect(kernel, tracker, ended)
    return outputs if options.ranks > 1 else outputs[0]


def _arguments_by_rank(
    options: SimOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the arguments of each rank; for one rank, the arguments unchanged."""
    if options.ranks == 1:
        return [(args, kwargs)]
    if len(args) != 1 or kwargs or not isinstance(args[0], (list, tuple)):
        raise TypeError(
            f"with ranks={options.ranks} a call takes one list: the arguments of each rank"
        )
    if len(args[0]) != options.ranks:
        raise ValueError(f"inputs_per_rank: got {len(args[0])} entries for {options.ranks} ranks")
    return [
        (tuple(entry) if isinstance(entry, (list, tuple)) else (entry,), {}) for entry in args[0]
    ]


def _check_shared(shared: SharedHbm, cores: list[Core]) -> None:
    """Flag shared tensors that only one core created."""
    for tensor in shared.unmatched([core.memory.shared_count for core in cores]):
        flag(
            SHARED_ONCE,
            f"shared_hbm tensor `{tensor.life.label}` is made by one core only",
            operand=tensor.life.label,
            seen=f"{tensor.dtype} {tensor.shape}",
            fix="create it on both cores, unconditionally",
            place=Place(*tensor.life.line),
        )
