"""Triton's language on NumPy: a kernel's programs one after the other, its lanes as arrays.

It shows that the text of a kernel computes what it should, with the wrapping of integers and one
rounding for each operation of float32. It does not show how a device runs it, nor how fast.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import torch

from oracles.random_words import philox_block


class Lanes(np.ndarray):
    """Values of the lanes of a program; one that all share has a single element."""

    def to(self, dtype: Any, bitcast: bool = False) -> Lanes:
        return self.view(dtype) if bitcast else self.astype(dtype)


def lanes(values: Any, dtype: Any) -> Lanes:
    return np.atleast_1d(np.asarray(values, dtype)).view(Lanes)


class Pointer:
    """Addresses of elements in memory that is ``length`` elements long."""

    def __init__(self, memory: np.ndarray, offset: Any = 0) -> None:
        self.memory, self.offset = memory, offset
        self.dtype = SimpleNamespace(element_ty=memory.dtype)

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.offset + offset)


def load(pointer: Pointer, mask: Any, other: Any) -> Lanes:
    found = np.full(pointer.offset.shape, other, pointer.memory.dtype)
    found[mask] = pointer.memory[pointer.offset[mask]]
    return found.view(Lanes)


def store(pointer: Pointer, values: Lanes, mask: Any = True) -> None:
    mask = np.broadcast_to(mask, pointer.offset.shape)
    assert (pointer.offset[mask] >= 0).all(), "before the memory"
    assert values.dtype == pointer.memory.dtype
    pointer.memory[pointer.offset[mask]] = values[mask]


def philox(seed: Lanes, *counter: Lanes) -> list[Lanes]:
    words = philox_block([np.asarray(c, np.uint64) for c in counter], int(seed[0]))
    return [lanes(word, np.uint32) for word in words]


def interleave(a: Lanes, b: Lanes) -> Lanes:
    return np.stack([a, b], -1).reshape(-1).view(Lanes)


class Kernel:
    """A function of ``triton.jit``: called from another one, or launched on a grid."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.parameters = list(inspect.signature(function).parameters.values())
        self.constants = sum(p.annotation == "tl.constexpr" for p in self.parameters)
        self.launches: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __getitem__(self, grid: tuple[int]) -> Any:
        def launch(*arguments: Any, **options: Any) -> None:
            constants = arguments[-self.constants :]
            self.launches.append((grid, options, constants))
            self.run(grid[0], arguments)

        return launch

    def run(self, programs: int, arguments: tuple[Any, ...]) -> None:
        taken = []
        for parameter, value in zip(self.parameters, arguments, strict=True):
            if isinstance(value, torch.Tensor):
                taken.append(Pointer(memory_of(value)))
            elif parameter.annotation == "tl.constexpr":
                taken.append(value)
            else:
                taken.append(lanes(value, np.int32 if -(2**31) <= value < 2**31 else np.int64))
        for program in range(programs):
            LANGUAGE.program_id = lambda axis, at=program: lanes([at][axis], np.int32)
            self.function(*taken)


def memory_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the memory of a dense tensor; NumPy has no bfloat16 of its own."""
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16).reshape(-1)
    return tensor.numpy().reshape(-1)


LANGUAGE = ModuleType("triton.language")
vars(LANGUAGE).update(
    int32=np.int32,
    int64=np.int64,
    uint32=np.uint32,
    uint64=np.uint64,
    float32=np.float32,
    constexpr=lambda value: value,
    arange=lambda first, last: lanes(range(first, last), np.int32),
    static_range=range,
    maximum=np.maximum,
    minimum=np.minimum,
    abs=np.abs,
    sqrt_rn=np.sqrt,
    load=load,
    store=store,
    philox=philox,
    interleave=interleave,
)


def jit(function: Any = None, **options: Any) -> Any:
    return Kernel if function is None else Kernel(function)


def loaded(path: Path, monkeypatch: Any) -> Any:
    """Return a module of kernels, made anew from its source, on NumPy and on the CPU."""
    triton = ModuleType("triton")
    triton.jit, triton.language = jit, LANGUAGE  # type: ignore[attr-defined]
    triton.__spec__ = ModuleSpec("triton", None)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "triton", triton)
        patch.setitem(sys.modules, "triton.language", LANGUAGE)
        spec = importlib.util.spec_from_file_location(f"{path.stem}_on_numpy", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    # Launches name the device of their result, which is the CPU here, with the index -1.
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)
    return module
