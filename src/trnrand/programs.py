"""Generator programs: a fixed sequence of draws that fills named buffers, call after call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from trnrand._calls.arguments import parsed_size
from trnrand.distributions.continuous import exponential, normal, uniform
from trnrand.errors import DTypeError, ParameterError, ShapeError
from trnrand.generator import _BATCH_SIZE, Generator

__all__ = ["GeneratorProgram", "ProgramBuilder", "Step"]

_LAWS: dict[str, Callable[..., Tensor]] = {
    "normal": normal,
    "uniform": uniform,
    "exponential": exponential,
}


@dataclass(frozen=True)
class Step:
    """One draw of a program.

    Attributes:
        law: Distribution to draw from.
        n: Number of samples.
        parameters: Parameters of the distribution, as its function takes them.
        out: Name of the buffer.
    """

    law: Literal["normal", "uniform", "exponential"]
    n: int
    parameters: Mapping[str, float]
    out: str

    def __post_init__(self) -> None:
        parsed_size(f"{self.law} step {self.out!r}", (self.n,))


class GeneratorProgram:
    """A sequence of draws with its own position.

    A step draws the samples of a ``Generator`` with the same seed, engine, partition and position.

    Args:
        steps: The draws, in order.
        seed: Seed of the stream.
        partition_rank: Rank of this program: the share of every step that it draws.
        partition_size: Number of ranks.
        counter_start: Initial position, in units of 512 samples.
        engine: ``"philox"`` or ``"threefry"``.

    Raises:
        ParameterError: An argument is invalid for a generator.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        seed: int = 0,
        partition_rank: int = 0,
        partition_size: int = 1,
        counter_start: int = 0,
        engine: str = "philox",
    ) -> None:
        self.steps = tuple(steps)
        self._generator = Generator(seed, "cpu", partition_rank, partition_size, engine)
        self._generator.advance_to(counter_start * _BATCH_SIZE)
        self._partition_rank = partition_rank
        self._partition_size = partition_size

    @property
    def _counter(self) -> int:
        return self._generator._counter

    def stream_into(self, buffers: Mapping[str, Tensor]) -> None:
        """Fill the named buffers, step after step; the next call continues the stream.

        Args:
            buffers: Tensors by the names of the steps: of any shape with n elements, of a floating
                dtype, on any device.

        Raises:
            KeyError: A step's buffer is missing.
            ParameterError: A buffer does not have its step's length or a floating dtype. Nothing
                is drawn then.
        """
        for step in self.steps:
            _check_buffer(step, buffers[step.out])
        for step in self.steps:
            draw = _LAWS[step.law]
            draw(out=buffers[step.out], generator=self._generator, **step.parameters)


def _check_buffer(step: Step, buffer: Tensor) -> None:
    if not isinstance(buffer, Tensor) or not buffer.dtype.is_floating_point:
        kind = buffer.dtype if isinstance(buffer, Tensor) else type(buffer).__name__
        raise DTypeError(f"stream_into: buffer {step.out!r} must be a tensor of floats, got {kind}")
    if buffer.numel() != step.n:
        raise ShapeError(
            f"stream_into: buffer {step.out!r} must have {step.n} elements, got "
            f"{tuple(torch.Size(buffer.shape))}"
        )


class ProgramBuilder:
    """Builder of a ``GeneratorProgram``; every step returns the builder.

    Args:
        seed: Seed of the program's stream.
        generator: Generator to copy the partition, engine and position (rounded up to 512 samples)
            from.

    Example:
        >>> program = ProgramBuilder(seed=7).normal(1000).uniform(500, high=2.0).build()
    """

    def __init__(self, seed: int = 0, generator: Generator | None = None) -> None:
        source = Generator(seed) if generator is None else generator
        self._seed = seed
        self._engine = source.engine
        self._partition_rank = source.partition_rank
        self._partition_size = source.partition_size
        self._counter_start = source._counter
        self._steps: list[Step] = []

    def normal(self, n: int, mean: float = 0.0, std: float = 1.0, out: str = "z") -> Self:
        """Add a draw of n normals."""
        self._steps.append(Step("normal", n, {"mean": mean, "std": std}, out))
        return self

    def uniform(self, n: int, low: float = 0.0, high: float = 1.0, out: str = "u") -> Self:
        """Add a draw of n uniforms on [low, high)."""
        self._steps.append(Step("uniform", n, {"low": low, "high": high}, out))
        return self

    def exponential(self, n: int, rate: float = 1.0, out: str = "e") -> Self:
        """Add a draw of n exponentials."""
        self._steps.append(Step("exponential", n, {"rate": rate}, out))
        return self

    def build(self) -> GeneratorProgram:
        """Return the program.

        Raises:
            ParameterError: There are no steps.
        """
        if not self._steps:
            raise ParameterError("build: the program has no distribution steps")
        return GeneratorProgram(
            self._steps,
            self._seed,
            self._partition_rank,
            self._partition_size,
            self._counter_start,
            self._engine,
        )


Generator._program_builder = ProgramBuilder
