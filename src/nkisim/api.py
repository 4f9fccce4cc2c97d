"""The entry points: ``jit``, ``simulate`` and ``check``.

A kernel runs as the user's own Python code. A run owns its core and its findings; they live in
context variables while it lasts, so that runs in different threads do not meet and an exception
leaves nothing behind.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.checks import check_capacity, check_outputs
from nkisim.diagnostics import (
    RECORDER,
    NkiFindingWarning,
    NkiValidationError,
    Recorder,
    Report,
    declare,
    flag,
)
from nkisim.host import HostBoundary, definition_place
from nkisim.machine import CORE, Core
from nkisim.memory import MemoryRegion
from nkisim.options import SimOptions

__all__ = ["Kernel", "Simulation", "check", "jit", "simulate"]

PLATFORM_TARGET = declare(
    "A019",
    "platform-target",
    "error",
    "nki.jit is called with platform_target.",
    "0.3.0 raises on it; the target comes from the environment",
    meaningless=True,
)


JIT_ARGUMENT = declare(
    "A020",
    "jit-argument",
    "warning",
    "nki.jit is called with mode= or a flag of the compiler.",
    "0.3.0 finds the framework from the arguments and ignores them; 0.4.0 refuses mode",
)


class Kernel:
    """A function made a kernel by ``jit``; calling it runs it on the simulator.

    ``kernel[lnc]`` chooses the number of physical cores. Inside a running kernel a call runs
    inline.
    """

    def __init__(self, function: Callable[..., Any], cores: int | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.cores = cores

    def __getitem__(self, grid: int) -> Kernel:
        if isinstance(grid, bool) or not isinstance(grid, int) or grid not in (1, 2):
            raise ValueError(f"kernel[lnc]: the grid must be 1 or 2, got {grid!r}")
        return Kernel(self.function, grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel: inline inside another kernel, else on a simulated core of its own."""
        if CORE.get() is not None:
            return self.function(*args, **kwargs)
        return Simulation(self, SimOptions())(*args, **kwargs)

    def __repr__(self) -> str:
        grid = "" if self.cores is None else f"[{self.cores}]"
        return f"<nki kernel {self.function.__name__}{grid}>"


def jit(func: Callable[..., Any] | None = None, mode: str = "auto", **kwargs: Any) -> Any:
    """Make a function a kernel; works with and without parentheses.

    ``mode`` and flags of the compiler have no effect and warn; ``platform_target`` raises, as in
    NKI 0.3.0.
    """
    if "platform_target" in kwargs:
        flag(
            PLATFORM_TARGET,
            f"nki.jit(platform_target={kwargs['platform_target']!r}) is not supported in NKI 0.3.0",
            operand="platform_target",
            seen=kwargs["platform_target"],
            fix="set the environment variable NEURON_PLATFORM_TARGET_OVERRIDE",
        )
    ignored = [*(["mode"] if mode != "auto" else []), *kwargs]
    if ignored:
        warnings.warn(
            f"{JIT_ARGUMENT}: nki.jit ignores {', '.join(ignored)} in NKI 0.3.0; remove the "
            f"argument",
            DeprecationWarning,
            stacklevel=2,
        )
    if func is None:
        return Kernel
    return Kernel(func)


class Simulation:
    """A kernel bound to the simulator.

    Attributes:
        report: Findings of the last call.
    """

    def __init__(self, kernel: Kernel, options: SimOptions) -> None:
        functools.update_wrapper(self, kernel.function)
        self.kernel = kernel
        self.options = options
        self.report = Report()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel; arrays in, arrays of the same kind out."""
        self.report, outputs = run(self.kernel, self.options, args, kwargs)
        if not self.report.ok and self.options.strictness == "simulate":
            errors = self.report.errors
            warnings.warn(
                f"{self.kernel.function.__name__}: {self.report.summary()}; the device would "
                f"refuse or corrupt this "
                f"(incorrect results on hardware). First: {errors[0]}",
                NkiFindingWarning,
                stacklevel=2,
            )
        return outputs


def run(
    kernel: Kernel, options: SimOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Report, Any]:
    """Run a kernel once and return its report and its outputs.

    Raises:
        NkiValidationError: The kernel broke a rule at which the strictness stops; in ``check``
            it is recorded instead.
    """
    if kernel.cores == 2:
        raise NotImplementedError("kernel[2]: two cores are not simulated yet")
    generation = options.generation()
    recorder = Recorder(options.strictness)
    core = Core(
        generation,
        recorder,
        precise=options.precise(),
        watchers=options.watchers,
        has_grid=kernel.cores is not None,
    )
    tokens = CORE.set(core), RECORDER.set(recorder)
    outputs = None
    try:
        with np.errstate(all="ignore"):
            host = HostBoundary(kernel.function, core, MemoryRegion.private_hbm)
            positional, named = host.bring_in(args, kwargs)
            result = kernel.function(*positional, **named)
            check_outputs(result, core, definition_place(kernel.function))
            check_capacity(core)
            outputs = host.carry_out(result)
    except NkiValidationError as stop:
        if options.strictness != "check":
            raise
        recorder.add(stop.finding)
    finally:
        CORE.reset(tokens[0])
        RECORDER.reset(tokens[1])
    return Report(recorder.findings, outputs, generation.name), outputs


def _as_kernel(kernel: Any) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, Simulation):
        return kernel.kernel
    if callable(kernel):
        return Kernel(kernel)
    raise TypeError(f"kernel: expected a function, got {type(kernel).__name__}")


def simulate(kernel: Any, **options: Any) -> Simulation:
    """Return a callable that runs ``kernel`` on the CPU.

    Args:
        kernel: A function, with or without ``@jit``, or ``kernel[lnc]``.
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
    return Simulation(_as_kernel(kernel), SimOptions(**options))


def check(kernel: Any, **options: Any) -> Callable[..., Report]:
    """Return a callable that runs ``kernel`` and returns its report; findings never raise.

    Errors of the kernel's own Python code still do.
    """
    chosen = SimOptions(**{**options, "strictness": "check"})
    target = _as_kernel(kernel)

    def checked(*args: Any, **kwargs: Any) -> Report:
        return run(target, chosen, args, kwargs)[0]

    return checked
