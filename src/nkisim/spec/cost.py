"""Cost of an instruction on its engine, in the terms of the performance documents.

A cost only names the formula; the constants belong to the generation and are applied when time is
predicted.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Formula = Literal["stream", "startup_stream", "runs", "search", "matmul", "transfer", "fixed"]


class Cost(NamedTuple):
    """A named cost formula.

    Attributes:
        formula: Name of the formula.
        over: Operand whose elements per partition are streamed. For a search it is the argument
            that holds the number of elements.
        factor: Cycles per element.
        extra: Cycles added once.
        result: Operand of a search whose elements per partition cost a cycle each.
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
    """Cost of a GpSimd gather of runs; the longer the run, the less an element costs."""
    return Cost("runs", over)


def search(over: str, result: str, factor: float) -> Cost:
    """Cost of a GpSimd search; the argument ``over`` holds the number of searched elements."""
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
