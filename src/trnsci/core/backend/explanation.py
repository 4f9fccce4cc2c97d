"""``explain``: the path of a call, the reason, and the predicted time of its kernels.

The function runs on fake tensors, which have a shape and a dtype but no values. Each operation it
reaches records its path and returns a fake result of the right shape. Neither a kernel nor the
mathematics computes values; the times of kernels are predicted when the
explanation is printed or ``predict`` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from threading import Lock
from typing import Any


@dataclass(frozen=True)
class Prediction:
    """The predicted device time of an operation.

    Attributes:
        us: Microseconds, summed over the launches; 0 without a launch.
        interval_us: The lower ends of the launches' ranges, summed, and the upper ends, summed.
        generation: Generation of the NeuronCore; empty without a launch.
        open_end: Why ``us`` lacks the time of a launch, or why no kernel runs; else empty.
    """

    us: float
    interval_us: tuple[float, float]
    generation: str
    open_end: str

    def __str__(self) -> str:
        if not self.us:
            return f"no predicted time: {self.open_end}"
        low, high = self.interval_us
        time = f"{self.us:,.1f} us on {self.generation} ({low:,.0f} to {high:,.0f})"
        if self.open_end:
            return f"predicted at least {time}: {self.open_end}"
        return f"predicted {time}"


def total(predictions: Iterable[Prediction], open_end: str = "") -> Prediction:
    """Return the sum of predictions, with the first reason why a time is missing in it."""
    us = low = high = 0.0
    generation, end = "", ""
    for found in predictions:
        us, low, high = us + found.us, low + found.interval_us[0], high + found.interval_us[1]
        generation = generation or found.generation
        end = end or found.open_end
    end = end or open_end or ("" if us else "no kernel runs")
    return Prediction(us, (low, high), generation, end)


@dataclass(frozen=True)
class Step:
    """The path of one operation.

    Attributes:
        operation: Qualified name, such as ``"trnblas.gemm"``.
        path: ``"pytorch"``, ``"nki"`` or ``"simulator"``.
        reason: Why this path is taken.
        predict: Function of a generation that returns the predicted device time; with None it
            predicts for the target of the environment. None on the torch path.
    """

    operation: str
    path: str
    reason: str
    predict: Callable[[str | None], Prediction] | None = field(
        default=None, repr=False, compare=False
    )

    def __str__(self) -> str:
        path = f"{self.operation} -> {self.path}: {self.reason}"
        return path if self.predict is None else f"{path}\n    {self.predict(None)}"


@dataclass
class Explanation:
    """The paths of all operations of a call.

    Attributes:
        function: Name of the function.
        steps: One for each operation that the call reaches, in order.
        open_end: Why the explanation ends before the call does; empty if complete.
    """

    function: str
    steps: list[Step] = field(default_factory=list)
    open_end: str = ""

    @property
    def path(self) -> str:
        """The path of the call: that of its operations, ``"torch only"`` if it reaches none.

        ``"not known"`` if the explanation ends before it reaches one.
        """
        paths = sorted({step.path for step in self.steps})
        if paths:
            return " and ".join(paths)
        return "not known" if self.open_end else "torch only"

    def predict(self, generation: str | None = None) -> Prediction:
        """Return the predicted device time of all kernels of the call.

        Args:
            generation: ``"gen2"``, ``"gen3"``, ``"gen4"`` or an instance name; None for the target
                of the environment, else gen3.

        Raises:
            FlagError: The generation is not known.
        """
        found = (step.predict(generation) for step in self.steps if step.predict is not None)
        return total(found, self.open_end)

    def __str__(self) -> str:
        lines = [f"{self.function}: {self.path}", *(f"  {step}" for step in self.steps)]
        if self.open_end:
            lines.append(f"  not followed further: {self.open_end}")
        return "\n".join(lines)


_RECORDER: ContextVar[Explanation | None] = ContextVar("trnsci.explanation", default=None)


class _Running:
    """The number of explanations in progress in the process.

    Calls check it first: it is cheaper than a context variable, and torch.compile can guard on it.
    """

    def __init__(self) -> None:
        self.number = 0
        self._lock = Lock()

    def add(self, change: int) -> None:
        with self._lock:
            self.number += change


RUNNING = _Running()


class _OutsideTorch(Exception):
    """A tensor is converted to an array, for NumPy, SciPy or compiled loops."""


def recording() -> bool:
    """Return whether an explanation is recorded in the current context."""
    return RUNNING.number > 0 and _RECORDER.get() is not None


def note(step: Step) -> None:
    """Add a step to the explanation of the current context."""
    explanation = _RECORDER.get()
    assert explanation is not None
    explanation.steps.append(step)


def _apart(operand: Any) -> Any:
    """Return a copy of an operand, or the operand itself if it cannot be copied.

    An object such as a sparse matrix keeps what was derived from it; during an explanation these
    are tensors without values.
    """
    try:
        return deepcopy(operand)
    except Exception:
        return operand


def explain(function: Callable[..., object], *args: Any, **kwargs: Any) -> Explanation:
    """Return the path of ``function(*args, **kwargs)`` and the reason, without computing it.

    Where the call depends on values, the explanation ends and gives the reason.

    Raises:
        TypeError: ``function`` is not a function, such as the result of a call.
        Exception: Any error of the call itself about the shapes and dtypes of its operands.
    """
    import torch

    from trnsci.core.errors import DTypeError
    from trnsci.core.interop import fake_tensor_mode, pytree

    if not callable(function):
        raise DTypeError(
            f"explain: the first argument must be a function, got a {type(function).__name__}; "
            f"pass the function and its arguments apart, as in explain(trnblas.gemm, 1.0, A, B)"
        )
    mode = fake_tensor_mode(allow_non_fake_inputs=True)
    explanation = Explanation(getattr(function, "__name__", repr(function)))
    token = _RECORDER.set(explanation)
    RUNNING.add(1)
    try:
        given = pytree().tree_map(
            lambda x: mode.from_tensor(x) if isinstance(x, torch.Tensor) else _apart(x),
            (args, kwargs),
        )
        args, kwargs = given
        with mode, only_torch(), torch.no_grad():
            function(*args, **kwargs)
    except Exception as stop:
        explanation.open_end = ending(stop)
        if not explanation.open_end:
            raise
    finally:
        RUNNING.add(-1)
        _RECORDER.reset(token)
    return explanation


def ending(stop: Exception) -> str:
    """Return why an explanation ends at an exception; empty for an error of the call itself."""
    from trnsci.core.errors import DerivativeError, LinAlgError
    from trnsci.core.interop import fake_tensor_module

    fake_tensor = fake_tensor_module()
    values = (
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedFakeTensorException,
        fake_tensor.UnsupportedOperatorException,
        DerivativeError,  # a function that refuses to be traced
        LinAlgError,
    )
    if isinstance(stop, values):
        return f"the rest depends on values ({type(stop).__name__})"
    if isinstance(stop, _OutsideTorch):
        return "the rest is computed by NumPy or SciPy"
    # torch raises this where a routine without a fake version reads a fake tensor's memory.
    reads = isinstance(stop, RuntimeError) and "data is not allocated" in str(stop)
    return "the rest depends on values" if reads else ""


def only_torch() -> Any:
    """Return a torch function mode that ends an explanation where a tensor becomes a NumPy array.

    A fake tensor has no memory that an array could use. Inside a fake tensor mode, a real
    tensor, such as the index of a sparse matrix, is also converted as if it were fake.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    from trnsci.core.interop import dispatch_modes

    conversions: set[Any] = {torch.Tensor.numpy, torch.Tensor.__array__}

    class OnlyTorch(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in conversions and dispatch_modes():
                raise _OutsideTorch
            return func(*args, **(kwargs or {}))

    return OnlyTorch()
