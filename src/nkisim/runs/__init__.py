"""One run of a kernel: on one core, on two, or on several ranks, from its arguments to its report.

A run owns its cores and its findings. They are stored in context variables for the duration of the
run, so that runs in different threads are independent and an exception leaves no state behind.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from math import prod
from typing import Any, Protocol

import numpy as np

from nkisim.checks import (
    Detectors,
    check_arguments,
    check_capacity,
    check_loops,
    check_outputs,
    kernel_findings,
    lead_with_origins,
    nonfinite_outputs,
    occupancy_of,
    report_fraction,
    report_recursion,
    report_unbound,
)
from nkisim.checks.history import bits_of
from nkisim.collectives.groups import check_exchanged
from nkisim.collectives.varying import check_triggered
from nkisim.compiled import arithmetic, run_with
from nkisim.diagnostics import (
    RECORDER,
    Finding,
    NkiValidationError,
    Place,
    Recorder,
    Report,
    declare,
    flag,
)
from nkisim.machine import (
    CORE,
    Cluster,
    Core,
    Member,
    NamedOrder,
    Stopped,
    apply_schedule,
    one_blas_thread,
)
from nkisim.machine.sharing import SharedAccess
from nkisim.memory import MemoryRegion, NkiTensor, SharedHbm
from nkisim.memory.tensor.refused import KERNEL_CODE, report_missing
from nkisim.objects import rebuilt
from nkisim.options import SimOptions
from nkisim.runs.host import (
    HostBoundary,
    argument_names,
    definition_place,
    described,
    kernel_name,
    tensors_of,
)
from nkisim.runs.process_ledger import enter
from nkisim.runs.progress import shown_progress
from nkisim.suggestions import complete, explained, settle
from nkisim.versions import judged_by

LAUNCH_GRID = declare(
    "C001",
    "launch-grid",
    "A kernel is launched on a grid that the target does not have.",
    "a logical core has one or two physical cores, and one on gen2",
    meaningless=True,
)
SHARED_ONCE = declare(
    "C005",
    "shared-once",
    "A shared_hbm tensor is created on one core only.",
    "the back end warns or crashes",
    severity="warning",
)


class _Runnable(Protocol):
    """The attributes of ``Kernel`` that a run uses."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def cores(self) -> int | None: ...
    @property
    def schedule(self) -> NamedOrder: ...
    @property
    def parameters(self) -> list[inspect.Parameter]: ...
    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call, including those that the kernel has bound."""


class Run:
    """One call of a kernel: simulated, checked or profiled.

    Attributes:
        kernel: The kernel.
        options: The settings.
        args, kwargs: The arguments of the call, without those that the kernel has bound.
        report: Its findings and outputs; findings before an exception are included.
        place: Line of the kernel's definition.
        returned: What the kernel returned on each rank, with tensors in place of arrays.
    """

    def __init__(
        self, kernel: _Runnable, options: SimOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.kernel = kernel
        self.options = options
        self.args = args
        self.kwargs = kwargs
        self.report = Report()
        self.place = definition_place(kernel.function)
        self.returned: list[Any] = []
        self._recorder = Recorder("check")
        self._tracker: Detectors | None = None
        self._cores: list[Core] = []

    def execute(self) -> None:
        """Run the kernel once, and fill the report with its findings and outputs.

        Raises:
            NkiValidationError: The kernel broke a rule at which the strictness stops; in ``check``
                it is recorded only.
        """
        report, options = self.report, self.options
        report.kernel = kernel_name(self.kernel.function)
        report.target, report.nki = options.generation().name, options.version()
        strictness = options.level()
        self._recorder = recorder = Recorder(strictness, options.errors, options.ignored())
        token = RECORDER.set(recorder)
        try:
            with (
                np.errstate(all="ignore"),
                one_blas_thread(),
                judged_by(report.nki),
                run_with(_elements((self.args, self.kwargs))),
            ):
                report.arguments = self._described()
                with shown_progress(report.kernel, self._cores):
                    report.outputs = self._outputs()
        except BaseException as error:
            report.stopped = _reason(error)
            earlier = recorder.findings
            if isinstance(error, NkiValidationError):
                recorder.add(error.finding)
            # A check continues after a finding, also after a deadlock, which is already recorded.
            if strictness != "check" or not isinstance(error, (NkiValidationError, Stopped)):
                for finding in earlier:
                    error.add_note(f"before: {finding.summary}, {finding.place}")
                raise
        finally:
            self._fill_report()
            RECORDER.reset(token)

    def check(self) -> list[Finding]:
        """Run the kernel once, and add the findings of its source and of what it calls.

        Returns:
            The findings of the run, without findings of the source.
        """
        report, options = self.report, self.options
        stopped: BaseException | None = None
        try:
            self.execute()
            return list(report.findings)
        except BaseException as error:
            stopped = error
            raise
        finally:
            if options.reads_source():
                ran = len(report.findings)
                with judged_by(options.version()):
                    found = kernel_findings(self.kernel.function)
                    add_source_findings(report, found, options.errors, options.ignored())
                if stopped is not None:
                    for finding in report.findings[ran:]:
                        stopped.add_note(f"in the source: {finding.summary}, {finding.place}")
            self.enter()

    @property
    def edges(self) -> list[dict[int, set[int]]]:
        """For each core, by number of an instruction, those that it waits for by edges."""
        return [core.edges for core in self._cores]

    def enter(self) -> None:
        """Add the run to the ledger of the process, if one is open."""
        enter(kernel_name(self.kernel.function), self.place, self.report)

    # -- one core ----------------------------------------------------------------------------------

    def _outputs(self) -> Any:
        """Run the kernel on one core, on two, or on several ranks, and return its outputs."""
        names = self.options.detectors()
        self._tracker = Detectors(names, self.options.most_instructions) if names else None
        if "arguments" in names:
            self._check_arguments()
        if self.options.ranks > 1 or self.kernel.cores == 2:
            return self._cluster_outputs()
        core = self._core(self._tracker)
        host, result = self._result(core)
        outputs = self._finished([core], host, result)
        self._detect([(host, result)])
        self._decide(host, result)
        return outputs

    def _core(self, tracker: Detectors | None, **place: Any) -> Core:
        options = self.options
        core = Core(
            options.generation(),
            self._recorder,
            precise=options.precise(),
            watchers=options.watchers,
            values=options.values,
            trip_count=options.trip_count,
            version=options.version(),
            has_grid=self.kernel.cores is not None,
            tracker=tracker,
            lnc=options.logical_cores(),
            scheduled=bool(self.kernel.schedule),
            **place,
        )
        self._cores.append(core)
        return core

    def _result(self, core: Core) -> tuple[HostBoundary, Any]:
        """Run the kernel on one core, and return its result."""
        host = self._host(core, MemoryRegion.private_hbm)
        return host, self._called(
            core, *host.bring_in(*self.kernel.arguments(self.args, self.kwargs))
        )

    def _host(self, core: Core, region: MemoryRegion) -> HostBoundary:
        return HostBoundary(self.kernel.function, self.kernel.parameters, core, region)

    def _called(self, core: Core, positional: list[Any], named: dict[str, Any]) -> Any:
        """Run the kernel's code on a core and return its result."""
        token, code = CORE.set(core), KERNEL_CODE.set(True)
        try:
            with judged_by(core.version):
                return self.kernel.function(*positional, **named)
        except UnboundLocalError as error:
            report_unbound(error)
            raise
        except AttributeError as error:
            report_missing(error)
            raise
        except RecursionError as error:
            report_recursion(error)
            raise
        except TypeError as error:
            report_fraction(error)
            raise
        finally:
            KERNEL_CODE.reset(code)
            CORE.reset(token)

    # -- several cores -----------------------------------------------------------------------------

    def _cluster_outputs(self) -> Any:
        """Run the kernel on two cores, on several ranks, or both, with one thread per core."""
        options, cores = self.options, self.kernel.cores or 1
        if cores > options.generation().lnc_max:
            flag(
                LAUNCH_GRID,
                f"kernel[{cores}] on {options.generation()}, whose logical core has one core",
                seen=cores,
                allowed=1,
                fix="launch with kernel[1], or choose gen3 or newer",
                place=self.place,
            )
        cluster = Cluster(options.ranks, cores, options.schedule_seed)
        bodies: list[tuple[str, Callable[[], Any]]] = []
        by_rank: list[tuple[SharedHbm | None, list[Core], HostBoundary]] = []
        for rank, (args, kwargs) in enumerate(self._arguments_by_rank()):
            shared = SharedHbm(SharedAccess) if cores > 1 else None
            members = [Member(cluster, rank, number) for number in range(cores)]
            made = [self._core(self._tracker, member=m, shared=shared) for m in members]
            host = self._host(made[0], MemoryRegion.shared_hbm)
            brought = host.bring_in(*self.kernel.arguments(args, kwargs))
            for member, core in zip(members, made, strict=True):
                # Changes of arguments are private to a core; only tensors are shared.
                own = rebuilt(brought, lambda _, part: part)
                bodies.append((member.label, functools.partial(self._called, core, *own)))
            by_rank.append((shared, made, host))
        results = cluster.schedule.run(bodies)
        outputs, ended = [], []
        for rank, (shared, made, host) in enumerate(by_rank):
            if shared is not None:
                _check_shared(shared, made)
                check_loops(*made)
            returned = results[rank * cores : (rank + 1) * cores]
            result = next((r for r in returned if r is not None), None)
            outputs.append(self._finished(made, host, result))
            ended.append((host, result))
        self._detect(ended)
        return outputs if options.ranks > 1 else outputs[0]

    def _arguments_by_rank(self) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Return the arguments of each rank; for one rank, the arguments unchanged."""
        args, ranks = self.args, self.options.ranks
        if ranks == 1:
            return [(args, self.kwargs)]
        if len(args) != 1 or self.kwargs or not isinstance(args[0], (list, tuple)):
            raise TypeError(f"with ranks={ranks} a call takes one list: the arguments of each rank")
        if len(args[0]) != ranks:
            raise ValueError(f"inputs_per_rank: got {len(args[0])} entries for {ranks} ranks")
        return [
            (tuple(entry) if isinstance(entry, (list, tuple)) else (entry,), {})
            for entry in args[0]
        ]

    def _described(self) -> dict[str, str]:
        """Return the arguments of the call, or of its first rank, as text."""
        args, kwargs = self.args, self.kwargs
        if self.options.ranks > 1:
            args, kwargs = self._arguments_by_rank()[0]
        args, kwargs = self.kernel.arguments(args, kwargs)
        names = argument_names(self.kernel.parameters, len(args))
        given = dict(zip(names, args, strict=True)) | kwargs
        return {name: described(value) for name, value in given.items()}

    # -- checks ------------------------------------------------------------------------------------

    def _check_arguments(self) -> None:
        """Check the arguments before arrays become tensors."""
        args, kwargs = self.kernel.arguments(self.args, self.kwargs)
        names = [p.name for p in self.kernel.parameters]
        names += [f"argument {i}" for i in range(len(names), len(args))]
        check_arguments(dict(zip(names, args, strict=False)) | kwargs, self.place)

    def _finished(self, cores: list[Core], host: HostBoundary, result: Any) -> Any:
        """Check a finished rank, and return its results as the caller's kind of array."""
        self.returned.append(result)
        check_outputs(result, cores[0], self.place)
        for core in cores:
            check_capacity(core, self.place)
            apply_schedule(core, self.kernel.schedule, self.place)
            check_triggered(core)
            check_exchanged(core, tensors_of(result))
        if self._recorder.watches_values and self.options.values:
            outputs = nonfinite_outputs(result)
            if outputs and host.inputs_are_finite():
                lead_with_origins(self._recorder, outputs)
        return host.carry_out(result)

    def _detect(self, ended: list[tuple[HostBoundary, Any]]) -> None:
        """Run the detectors on a finished run of all ranks."""
        if self._tracker is not None:
            returned = [tensor for _, result in ended for tensor in tensors_of(result)]
            arguments = [argument for host, _ in ended for argument in host.arguments]
            self._tracker.finish(returned, arguments, self.kernel.function, self.place)

    def _decide(self, host: HostBoundary, result: Any) -> None:
        """Confirm suspected findings by a second run with other stale elements or idle loops."""
        tracker = self._tracker
        if tracker is None or any(tensor.life.first_use >= 0 for _, tensor in host.arguments):
            return  # the first run has modified the arguments
        returned = tensors_of(result)
        if tracker.tails is not None and tracker.tails.suspected:
            pairs = zip(returned, self._again("lostwork", unsettled=True), strict=False)
            if any((bits_of(first) != bits_of(second)).any() for first, second in pairs):
                tracker.tails.report()
        if tracker.counts is not None and tracker.counts.suspected:
            tracker.counts.report(returned, self._again("races", idle=True))

    def _again(self, detector: str, **changed: bool) -> list[NkiTensor]:
        """Return the tensors of a second run with one detector only; none if it fails."""
        again = Run(
            self.kernel, dataclasses.replace(self.options, watchers=()), self.args, self.kwargs
        )
        token = RECORDER.set(again._recorder)
        try:
            tracker = Detectors((detector,), self.options.most_instructions, **changed)
            _, result = again._result(again._core(tracker))
            return tensors_of(result)
        except Exception:
            # The kernel cannot be run twice: the findings of the first run remain.
            import logging  # which 4 ms of the start of every command would go to

            name = kernel_name(self.kernel.function)
            logging.getLogger(__name__).debug("a second run of %s failed", name, exc_info=True)
            return []
        finally:
            RECORDER.reset(token)

    def _fill_report(self) -> None:
        report = self.report
        report.findings = self._recorder.findings
        with judged_by(report.nki):
            complete(report.findings)
            settle(report.findings)
        report.silenced = self._recorder.silenced
        report.arithmetic = arithmetic()
        report.instructions = sum(core.clock for core in self._cores)
        if self.options.level() == "check":
            name = kernel_name(self.kernel.function)
            for core in self._cores:
                where = "" if core.member is None else core.member.label
                report.memory += [
                    used._replace(kernel=name, target=report.target)
                    for used in occupancy_of(core, where)
                ]


def add_source_findings(
    report: Report,
    findings: list[Finding],
    errors: tuple[str, ...] = (),
    ignored: tuple[str, ...] = (),
) -> None:
    """Add the source findings, except faults that the run has found on the same line."""
    ran = list(report.findings)
    silent = Recorder("check", errors, ignored)
    for finding in findings:
        if silent.silences(finding):
            continue
        if not explained(finding, ran):
            if finding.rule.id in errors:
                finding.level = "error"
            complete([finding])
            report.findings.append(finding)
    settle(report.findings)
    report.silenced |= silent.silenced


def _reason(error: BaseException) -> str:
    """Return in one line the reason why a run ended early."""
    if isinstance(error, NkiValidationError):
        return f"{error.finding.rule.id} {error.finding.rule.slug}"
    return "deadlock" if isinstance(error, Stopped) else f"{type(error).__name__}: {error}"


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


def _elements(argument: Any) -> int:
    """Return the number of elements of an array, or of the arrays in a container."""
    if isinstance(argument, dict):
        argument = tuple(argument.values())
    if isinstance(argument, (list, tuple)):
        return sum(map(_elements, argument))
    shape = getattr(argument, "shape", None)
    return prod(shape) if isinstance(shape, tuple) else 0
