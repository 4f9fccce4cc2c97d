"""The stream of instructions of a run, which must not depend on the values of its arguments.

On the device a kernel is compiled before it sees a value: two inputs of one shape give the same
instructions, operands and immediates. Only the number of iterations of a loop whose bound is loaded
from memory may differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nkisim.machine import CORE, Event
from nkisim.memory import NkiTensor, is_hbm
from nkisim.memory.tensor.geometry import Indirection

_Path = tuple[Any, ...]


class Entry(NamedTuple):
    """An instruction as it is compared, and its line."""

    digest: bytes
    file: str
    line: int


class Stream:
    """A watcher of a run that keeps its instructions, and the writers of its outputs.

    Attributes:
        parts: The instructions of each core outside of loops, and of each iteration of a loop of
            the device.
        writers: The instructions that wrote to HBM: allocation, region and line.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all instructions."""
        self.parts: dict[_Path, list[Entry]] = {}
        self.writers: list[tuple[Any, Any, str, int]] = []
        self._lives: dict[Any, int] = {}

    def __call__(self, event: Event) -> None:
        """Keep an instruction."""
        core = CORE.get()
        assert core is not None
        path = (event.rank, event.core, *core.scope)
        found = hashlib.blake2b(digest_size=12)
        found.update(f"{event.instruction} {event.engine} {event.ordered}".encode())
        for name, value in event.arguments.items():
            found.update(f"\0{name}=".encode())
            found.update(self._described(value))
        place = event.place
        self.parts.setdefault(path, []).append(Entry(found.digest(), place.file, place.line))
        for _, tensor in event.writes:
            if is_hbm(tensor.buffer):
                self.writers.append((tensor.life, tensor.region, place.file, place.line))

    def _described(self, value: Any) -> bytes:
        """Return what the device is told of an argument: never what memory or registers hold."""
        if isinstance(value, NkiTensor):
            number = self._lives.setdefault(value.life, len(self._lives))
            form, by = value.form, value.indirection
            text = f"{number} {form.start} {form.shape} {form.strides} {form.dtype}".encode()
            return text if by is None else text + self._indirect(by)
        if isinstance(value, (list, tuple)):
            return b"(" + b",".join(map(self._described, value)) + b")"
        if isinstance(value, Mapping):
            return b"".join(self._described(part) for pair in value.items() for part in pair)
        if isinstance(value, np.ndarray):
            return f"{value.dtype} {value.shape}".encode() + value.tobytes()
        if hasattr(value, "read"):  # a register: what it holds is known to the device only
            return type(value).__name__.encode()
        return repr(value).encode()

    def _indirect(self, by: Indirection) -> bytes:
        return f" {by.kind} {by.stride} {by.extent}".encode() + self._described(by.source)

    def difference(self, other: Stream) -> tuple[str, str, int] | None:
        """Return how and where another run of the same shapes differs first; None if nowhere."""
        for path in {**self.parts, **other.parts}:
            mine, theirs = self.parts.get(path), other.parts.get(path)
            if mine is None or theirs is None:
                if not _is_loaded(path):
                    entry = (mine or theirs or [])[0]
                    return "iterations that only one of them has", entry.file, entry.line
                continue
            for one, two in zip(mine, theirs, strict=False):
                if one != two:
                    return "another instruction, operand or immediate", two.file, two.line
            if len(mine) != len(theirs):
                longest = max(mine, theirs, key=len)
                entry = longest[min(len(mine), len(theirs))]
                return "instructions that only one of them has", entry.file, entry.line
        return None

    def writer(self, tensor: NkiTensor, index: tuple[int, ...]) -> tuple[str, int] | None:
        """Return the line that wrote an element of a tensor last."""
        start, _, strides, itemsize = tensor.region
        at = start + sum(i * step for i, step in zip(index, strides, strict=True))
        for life, region, file, line in reversed(self.writers):
            if life is tensor.life and _covers(region, at, itemsize):
                return file, line
        return None


def _is_loaded(path: _Path) -> bool:
    """Return whether an iteration is one of a loop whose bounds are loaded from memory."""
    return any(loop > 0 for loop, _ in path[2:])


def _covers(region: Any, at: int, itemsize: int) -> bool:
    """Return whether a strided region has the element at a byte."""
    start, shape, strides, _ = region
    dims = sorted(zip(strides, shape, strict=True), key=lambda pair: -abs(pair[0]))
    rest = at - start
    for stride, extent in dims:
        if stride > 0:
            steps = min(rest // stride, extent - 1)
            if steps < 0:
                return False
            rest -= steps * stride
    return 0 <= rest < itemsize
