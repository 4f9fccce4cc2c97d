"""Cost of an instruction on its engine, in the terms of the performance documents.

A cost only names the formula; the constants belong to the generation and are applied when time is
predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Formula = Literal["stream", "startup_stream", "runs", "search", "matmul", "transfer", "fixed"]


@dataclass(frozen=True, slots=True)
class Cost:
    """A named cost formula.

    Attributes:
        formula: Name of the formula.
        over: Operand whose elements per partition are streamed; of a search, the argument with the
            number of elements.
        factor: Cycles per element.
        extra: Cycles added once.
        result: Operand whose elements per partition cost a cycle each, of a search.
    """

    formula: Formula
    over: str = ""
    factor: float = 1.0
    extra: float = 0.0
    result: str = ""

    def __str__(self) -> str:
        if self.formula == "stream":
            text = f"max(64, {self.factor:g} * elements({self.over}))"
        elif self.formula == "startup_stream":
            text = f"150 + {self.factor:g} * elements({self.over})"
        elif self.formula == "runs":
            text = f"runs of e: 150 + (1 + 7 / e) / min(4 / bytes, e) * elements({self.over})"
        elif self.formula == "search":
            text = f"150 + {self.factor:g} * {self.over} + elements({self.result})"
        elif self.formula == "matmul":
            text = "max(moving columns, stationary columns), four passes for float32"
        elif self.formula == "transfer":
            text = f"DMA of elements({self.over})"
        else:
            text = "64"
        return text + (f" + {self.extra:g}" if self.extra else "") + " cycles"


def stream(over: str, factor: float = 1.0, extra: float = 0.0) -> Cost:
    """Cost of streaming an operand through the Vector or Scalar engine."""
    return Cost("stream", over, factor, extra)


def startup_stream(over: str, factor: float = 1.0) -> Cost:
    """Cost of a GpSimd instruction: a start-up and a stream."""
    return Cost("startup_stream", over, factor)


def runs(over: str) -> Cost:
    """Cost of a gather of runs by the GpSimd engine: an element costs less in a longer run."""
    return Cost("runs", over)


def search(over: str, result: str, factor: float) -> Cost:
    """Cost of a search by the GpSimd engine among a number of elements that an argument gives."""
    return Cost("search", over, factor, result=result)


def matmul() -> Cost:
    """Cost of a pass through the systolic array."""
    return Cost("matmul")


def transfer(over: str) -> Cost:
    """Cost of a DMA."""
    return Cost("transfer", over)


def fixed() -> Cost:
    """Cost of an instruction that streams nothing."""
    return Cost("fixed")
