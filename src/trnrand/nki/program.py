"""Building programs step by step."""

from __future__ import annotations

from trnrand.errors import ParameterError
from trnrand.generator import Generator
from trnrand.programs import GeneratorProgram, Step

__all__ = ["GeneratorProgram", "ProgramBuilder", "Step"]


class ProgramBuilder:
    """Collects the steps of a ``GeneratorProgram``; every step returns the builder.

    Args:
        seed: Of the program's stream.
        generator: Where partition, engine and position (rounded up to 512 samples) are taken
            from, as they are now.

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

    def normal(self, n: int, mean: float = 0.0, std: float = 1.0, out: str = "z") -> ProgramBuilder:
        """Add a draw of n normals."""
        self._steps.append(Step("normal", n, {"mean": mean, "std": std}, out))
        return self

    def uniform(
        self, n: int, low: float = 0.0, high: float = 1.0, out: str = "u"
    ) -> ProgramBuilder:
        """Add a draw of n uniforms on [low, high)."""
        self._steps.append(Step("uniform", n, {"low": low, "high": high}, out))
        return self

    def exponential(self, n: int, rate: float = 1.0, out: str = "e") -> ProgramBuilder:
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
