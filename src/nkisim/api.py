"""The entry points: ``jit``, ``simulate``, ``check`` and ``check_source``.

A kernel runs as the user's own Python code; ``runs`` implements one run, from arguments to report.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import linecache
import operator
import os
import warnings
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar

import numpy as np

from nkisim.checks import file_findings
from nkisim.diagnostics import (
    NkiCallError,
    NkiFindingWarning,
    NkiValidationError,
    Report,
    declare,
    flag,
    hide_own_frames,
    note_if_raised_inside,
    own_frames_shown,
    user_stacklevel,
)
from nkisim.machine import CORE, NamedOrder, checked_schedule
from nkisim.options import SimOptions
from nkisim.runs import LAUNCH_GRID, Run, add_source_findings
from nkisim.runs.host import kernel_name, kernel_parameters
from nkisim.runs.process_calls import note_call
from nkisim.suggestions import suggestion
from nkisim.versions import (
    JIT_CONFIGS,
    VERSIONS,
    at,
    dropped,
    found_in,
    in_force,
    judged_by,
    since,
)
from nkisim.versions import chosen as chosen_version

PLATFORM_TARGET = declare(
    "A019",
    "platform-target",
    "nki.jit is called with platform_target.",
    "0.3.0 raises on it; the target comes from the environment",
    meaningless=True,
)


JIT_ARGUMENT = declare(
    "A020",
    "jit-argument",
    "nki.jit is called with mode= or a flag of the compiler.",
    "0.3.0 finds the framework from the arguments and ignores them; 0.4.0 refuses mode",
    severity="warning",
)


_FIRST_SWITCHES = "0.6.0"  # the first version whose kernels have options of the compiler


@dataclasses.dataclass(eq=False, repr=False)
class Kernel:
    """A function made a kernel by ``jit``; calling it runs it on the simulator.

    ``kernel[lnc]`` chooses the number of physical cores. Inside a running kernel a call runs
    inline. ``dataclasses.replace`` and the methods that change a field return a new kernel.

    Attributes:
        func: The wrapped Python function.
        lnc: The number of physical cores, None without a grid.
        bound: Positional and keyword arguments that ``functools.partial`` put before the call's.
        schedule: Names of instructions, each with those that run before it.
        address_rotation, barrier_check: Options of the compiler, without effect here.
    """

    func: Callable[..., Any]
    lnc: int | None = None
    bound: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    schedule: NamedOrder = ()
    address_rotation: bool | None = None
    barrier_check: bool | None = None

    front_end: ClassVar[Callable[[Kernel, tuple[Any, ...], dict[str, Any]], Any] | None] = None
    """Receives the calls of all kernels: that of a framework whose tensors may have no values."""

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.func)
        self.__name__ = kernel_name(self.func)
        whole = self.lnc is None
        self._launches = {n: dataclasses.replace(self, lnc=n) for n in (1, 2)} if whole else {}

    # Explicit, because torch.compile takes an object as a constant only if its class compares.
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    @property
    def function(self) -> Callable[..., Any]:
        """The wrapped Python function."""
        return self.func

    @property
    def cores(self) -> int | None:
        """The number of physical cores, None without a grid."""
        return self.lnc

    def with_schedule(self, schedule: Any) -> Kernel:
        """Return the kernel with edges between instructions, which are known by their ``name=``.

        Args:
            schedule: List of pairs ``(after, before)``: the name of an instruction, and the name or
                the list of names of those that run before it.

        Raises:
            TypeError: An entry is not such a pair.
            ValueError: The pairs make a circle.
        """
        return dataclasses.replace(self, schedule=checked_schedule(schedule))

    def enable_address_rotation(self) -> Kernel:
        """Return the kernel with the compiler's address rotation on; without effect here."""
        return self._with("enable_address_rotation", address_rotation=True)

    def disable_address_rotation(self) -> Kernel:
        """Return the kernel with the compiler's address rotation off; without effect here."""
        return self._with("disable_address_rotation", address_rotation=False)

    def enable_core_barrier_checker(self) -> Kernel:
        """Return the kernel with the compiler's check of barriers on; without effect here."""
        return self._with("enable_core_barrier_checker", barrier_check=True)

    def disable_core_barrier_checker(self) -> Kernel:
        """Return the kernel with the compiler's check of barriers off; without effect here."""
        return self._with("disable_core_barrier_checker", barrier_check=False)

    def _with(self, method: str, **changed: Any) -> Kernel:
        if not since(_FIRST_SWITCHES):
            message = f"kernels have no {method} in NKI {in_force()}; {found_in(_FIRST_SWITCHES)}"
            raise AttributeError(message, name=method, obj=self)
        return dataclasses.replace(self, **changed)

    def __getitem__(self, grid: int) -> Kernel:
        whole = isinstance(grid, (int, np.integer)) and not isinstance(grid, bool)
        if not whole or grid not in (1, 2):
            flag(
                LAUNCH_GRID,
                f"kernel[{grid!r}]: the grid must be the number 1 or 2",
                seen=repr(grid),
                allowed="1 or 2",
                fix="launch with kernel[2] for both cores",
            )
        # Not made here: torch.compile traces these lines, and a new object is no constant for it.
        return self._launches.get(grid) or dataclasses.replace(self, lnc=int(grid))

    def __get__(self, instance: object, owner: type | None = None) -> Kernel:
        """Return the kernel with an instance of its class bound, as functions of a class do."""
        if instance is None:
            return self
        args, kwargs = self.bound
        return dataclasses.replace(self, bound=((instance, *args), kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel: inline inside another kernel, else on a simulated core of its own."""
        if Kernel.front_end is not None:
            return Kernel.front_end(self, args, kwargs)
        if CORE.get() is not None:
            args, kwargs = self.arguments(args, kwargs)
            return self.function(*args, **kwargs)
        with _UsersTraceback():
            return Simulation(self, SimOptions())(*args, **kwargs)

    @functools.cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters of the function."""
        return kernel_parameters(self.function)

    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a call's arguments, the bound ones included."""
        return (*self.bound[0], *args), {**self.bound[1], **kwargs}

    def __reduce__(self) -> Any:
        # By name: pickle would resolve the function's name to the kernel that replaced it.
        name = getattr(self.function, "__qualname__", "<object>")
        if "<" in name or inspect.ismethod(self.function):
            return super().__reduce__()
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)[1:]}
        return _named_kernel, (self.__module__, name, fields)

    def __repr__(self) -> str:
        grid = "" if self.cores is None else f"[{self.cores}]"
        return f"<nki kernel {self.__name__}{grid}>"


def _named_kernel(module: str, name: str, fields: dict[str, Any]) -> Kernel:
    """Return the kernel with this name in a module, with other fields."""
    found = operator.attrgetter(name)(importlib.import_module(module))
    return dataclasses.replace(as_kernel(found), **fields)


def jit(func: Callable[..., Any] | None = None, mode: str = "auto", **kwargs: Any) -> Any:
    """Decorator that makes a function a kernel; works with and without parentheses.

    ``mode`` and flags of the compiler have no effect and warn; from NKI 0.4.0 on ``mode`` raises.
    ``platform_target`` raises in all versions.
    """
    given = kwargs if mode == "auto" else {"mode": mode, **kwargs}
    return _made_kernel(func, given)


def _later_jit(fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    return _made_kernel(fn, kwargs)


functools.update_wrapper(_later_jit, jit, assigned=("__module__", "__name__", "__doc__"))
del _later_jit.__wrapped__  # type: ignore[attr-defined]
_FIRST_FN = "0.4.0"  # the first version with the parameter fn
jit.in_version = {  # type: ignore[attr-defined]
    version: at(version, jit, {_FIRST_FN: _later_jit}) for version in VERSIONS
}


def _made_kernel(function: Callable[..., Any] | None, given: dict[str, Any]) -> Any:
    """Return a kernel, or a decorator, after checking the other arguments of ``nki.jit``."""
    version = in_force()
    if "platform_target" in given:
        flag(
            PLATFORM_TARGET,
            f"nki.jit(platform_target={given['platform_target']!r}) is not supported in NKI "
            f"{version}",
            operand="platform_target",
            seen=given["platform_target"],
            fix="set the environment variable NEURON_PLATFORM_TARGET_OVERRIDE",
        )
    for name in sorted(dropped(version, "nki", "jit").intersection(given)):
        flag(
            JIT_ARGUMENT,
            f"nki.jit has no argument {name}= in NKI {version}",
            operand=name,
            seen=repr(given[name])[:80],
            allowed="fn",
            fix=f"remove {name}=",
            severity="error",
            error=NkiCallError,
            stops=True,
        )
    ignored = [name for name in given if name not in at(version, (), JIT_CONFIGS)]
    if ignored:
        warnings.warn(
            f"{JIT_ARGUMENT}: nki.jit ignores {', '.join(ignored)} in NKI {version}; remove the "
            f"argument",
            DeprecationWarning,
            stacklevel=3,
        )
    return as_kernel if function is None else as_kernel(function)


class Simulation:
    """A kernel bound to the simulator.

    Attributes:
        report: Findings of the last call, also of one that raised.
    """

    def __init__(self, kernel: Kernel, options: SimOptions) -> None:
        functools.update_wrapper(self, kernel, updated=())
        self.kernel = kernel
        self.options = options
        self.report = Report()

    def __repr__(self) -> str:
        return f"<simulation of {self.kernel!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel; arrays in, arrays of the same kind out."""
        run = Run(self.kernel, self.options, args, kwargs)
        self.report = report = run.report  # the last call is thread-local
        with _UsersTraceback():
            try:
                run.execute()
            finally:
                run.enter()
            note_call(self.kernel, self.options, args, kwargs)
            if not report.ok and self.options.level() == "simulate":
                warnings.warn(
                    f"{self.kernel.__name__}: {report.summary()}; the device would refuse or "
                    "corrupt this (incorrect results on hardware). nkisim.check shows all, the "
                    f"first is {report.errors[0]}",
                    NkiFindingWarning,
                    stacklevel=user_stacklevel(),
                )
        return report.outputs


class _UsersTraceback:
    """Context manager that removes nkisim's own frames from tracebacks of exceptions.

    The traceback goes from the user's call to the user's kernel, also for a finding.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, NkiValidationError):
            error.rewritten(error.finding.rewrite or suggestion(error.finding))
            hide_own_frames(error)
        elif error is not None and not own_frames_shown():
            note_if_raised_inside(error)
            hide_own_frames(error)


def as_kernel(kernel: Any) -> Kernel:
    """Return a function, a partial or a simulation as a kernel."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, Simulation):
        return kernel.kernel
    if isinstance(kernel, functools.partial):
        inner = as_kernel(kernel.func)
        return dataclasses.replace(inner, bound=inner.arguments(kernel.args, kernel.keywords))
    if callable(kernel):
        return Kernel(kernel)
    raise TypeError(f"kernel: expected a function, got {type(kernel).__name__}")


def simulate(kernel: Any, **options: Any) -> Simulation:
    """Return a callable that runs ``kernel`` on the CPU.

    Args:
        kernel: A function, with or without ``@jit``, ``kernel[lnc]``, or a ``functools.partial``
            of one.
        **options: Fields of ``SimOptions``.

    Example:
        >>> import numpy as np, nkisim, nkisim.language as nl
        >>> def double(x):
        ...     out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ...     nl.store(out, nl.multiply(nl.load(x), 2.0))
        ...     return out
        >>> float(nkisim.simulate(double)(np.ones((4, 4), np.float32)).sum())
        32.0
    """
    return Simulation(as_kernel(kernel), _options("simulate", options))


def check(kernel: Any, **options: Any) -> Callable[..., Report]:
    """Return a callable that runs ``kernel`` and returns its report; findings never raise.

    The report includes the source findings of the kernel and of all functions that it calls.
    Errors of the kernel's own Python code still raise.
    """
    chosen = _options("check", options)
    if chosen.strictness not in (None, "check"):
        raise ValueError(f"check: strictness is {chosen.strictness!r}, accepted: 'check'")
    chosen = dataclasses.replace(chosen, strictness="check")
    target = as_kernel(kernel)

    def checked(*args: Any, **kwargs: Any) -> Report:
        run = Run(target, chosen, args, kwargs)
        with _UsersTraceback():
            run.check()
        return run.report

    return checked


def check_source(
    path: str | os.PathLike[str] | None = None,
    kernel: str | None = None,
    nki: str | None = None,
    *,
    source: str | None = None,
) -> Report:
    """Check the source of a file's kernels, without importing or running it.

    Checks every function that ``nki.jit`` decorates and all functions and classes that they use, in
    this file and in files of the same folder. A name that cannot be resolved statically is not
    checked: there may be false negatives, but no false positives.

    Args:
        path: A Python file.
        kernel: Check this function only, decorated or not; one of a class as ``Class.kernel``.
        nki: NKI version to check by, as in ``SimOptions``.
        source: The text of a Python file, in place of ``path``.

    Raises:
        TypeError: Neither or both of ``path`` and ``source`` are given.
        SyntaxError: The file is not valid Python.
        ValueError: The file has no function ``kernel``.

    Returns:
        A report without outputs, for no target; one without any kernel is ``stopped``.
    """
    if (path is None) == (source is None):
        raise TypeError("check_source: give one of path and source")
    version = chosen_version(nki)
    report = Report(nki=version)
    file = os.fspath(path) if path is not None else _with_text(report, source or "")
    with judged_by(version):
        kernels, findings = file_findings(file, kernel)
        report.stopped = "" if kernels else "having no function with @nki.jit to check"
        add_source_findings(report, findings)
    return report


def _with_text(report: Report, text: str) -> str:
    """Return the name of a text that can be read like a file as long as the report exists."""
    name = f"<source {id(report):x}>"
    ast.parse(text, name)
    lines = [line + "\n" for line in text.splitlines()] or ["\n"]
    linecache.cache[name] = (len(text), None, lines, name)
    weakref.finalize(report, linecache.cache.pop, name, None)
    return name


def _options(function: str, given: dict[str, Any]) -> SimOptions:
    """Return the options that a caller passed."""
    known = [field.name for field in dataclasses.fields(SimOptions)]
    for name in given:
        if name not in known:
            raise TypeError(f"{function}: no option {name!r}; accepted: {', '.join(known)}")
    return SimOptions(**given)
