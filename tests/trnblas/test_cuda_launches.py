"""What is launched on a CUDA device, seen without one: a driver that notes what it is asked for.

Tensors on the CPU stand for those on a device. What the kernels compute is for ``test_cuda``.
"""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from trnblas import _cuda
from trnsci.core import cuda

STREAM, F32 = 5, torch.float32

WORDS = {2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "double2"}


class Driver:
    """Notes launches: grid, block, and where the arguments of a kernel are."""

    def __init__(self):
        self.code, self.launches = 0, []

    def cuLaunchKernel(self, kernel, *rest):
        *shape, shared, stream, pointers, extra = rest
        assert (shared, extra, stream.value) == (0, None, STREAM)
        self.launches.append((kernel, tuple(shape[:3]), tuple(shape[3:]), pointers))
        return self.code

    @property
    def last(self):
        return self.launches[-1][:3]

    def argument(self, place, kind):
        return kind.from_address(self.launches[-1][3][place]).value


def nothing_prepared():
    prepare = _cuda._NORMS.launches._prepared
    return cuda.LaunchesOfThread(_cuda._NORM_KERNEL, prepare).launches


@pytest.fixture
def driver(monkeypatch):
    made, zeros = Driver(), torch.zeros
    monkeypatch.setattr(cuda, "driver", lambda: made)
    for module in (_cuda, cuda):
        monkeypatch.setattr(module, "current_stream", lambda device: STREAM)
    for kernel, name in ((_cuda._NORM_KERNEL, "norm"), (_cuda._MIRROR_KERNEL, "mirror")):
        monkeypatch.setattr(kernel, "handle", lambda kind, _, name=name: f"{name} of {kind}")
    monkeypatch.setattr(_cuda._NORMS, "launches", nothing_prepared())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch, "zeros", lambda *a, device, **k: zeros(*a, **k))
    return made


@pytest.mark.parametrize(
    ("count", "blocks"),
    [(1, 1), (4096, 1), (4097, 2), (1024 * 4096, 1024), (1024 * 4096 + 1, 1024)],
)
def test_a_norm_has_a_thread_for_sixteen_elements_and_at_most_1024_blocks(driver, count, blocks):
    x = torch.empty(count)
    out = _cuda.norm(x)
    assert (out.shape, out.dtype) == ((), torch.float32)
    assert driver.last == ("norm of torch.float32", (blocks, 1, 1), (256, 1, 1))
    assert driver.argument(0, ctypes.c_void_p) == x.data_ptr()
    assert driver.argument(1, ctypes.c_longlong) == count
    assert driver.argument(4, ctypes.c_void_p) == out.data_ptr()
    # A counter, and behind it a partial sum for each of the most blocks.
    (launcher,) = _cuda._NORMS.launches.values()
    assert (launcher._room.numel(), launcher._room.dtype) == (1 + 1024, torch.float64)
    assert driver.argument(3, ctypes.c_void_p) == launcher._room.data_ptr()
    assert driver.argument(2, ctypes.c_void_p) == launcher._room.data_ptr() + 8


def test_each_stream_has_room_of_its_own(driver, monkeypatch):
    x = torch.ones(3)
    _cuda.norm(x), _cuda.norm(x)
    assert list(_cuda._NORMS.launches) == [(F32, -1, STREAM)]
    monkeypatch.setattr(_cuda, "current_stream", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: 1 / 0)  # not asked
    monkeypatch.setattr(Driver, "cuLaunchKernel", lambda *_: 0)
    assert _cuda.norm(x) is not None
    assert list(_cuda._NORMS.launches) == [(F32, -1, STREAM), (F32, -1, 0)]


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(3, dtype=torch.float64),
        torch.ones(4)[::2],
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.ones(3, requires_grad=True),
        torch.empty(0),
    ],
    ids=["float64", "strided", "negated", "differentiated", "empty"],
)
def test_norms_that_are_left_to_torch(driver, x):
    assert _cuda.norm(x) is None
    assert not driver.launches


def test_a_norm_inside_of_a_graph_is_left_to_torch(driver, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert _cuda.norm(torch.ones(3)) is None


def test_what_fails_is_left_to_torch(driver, monkeypatch):
    driver.code = 700
    assert _cuda.norm(torch.ones(3)) is None
    assert _cuda.mirror_in_place(torch.ones(3, 3)) is False
    monkeypatch.setattr(_cuda._NORMS, "launches", nothing_prepared())
    for kernel in (_cuda._NORM_KERNEL, _cuda._MIRROR_KERNEL):
        monkeypatch.setattr(kernel, "handle", lambda kind, device: None)
    assert _cuda.norm(torch.ones(3)) is None
    assert _cuda.mirror_in_place(torch.ones(3, 3)) is False
    assert len(driver.launches) == 2


@pytest.mark.parametrize(
    ("dtype", "side"),
    [(torch.bfloat16, 64), (torch.float32, 64), (torch.float64, 64), (torch.complex128, 32)],
    ids=str,
)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_a_mirrored_matrix_is_cut_into_tiles_that_fit(driver, dtype, side, batch):
    for order, tiles in ((side - 1, 1), (side, 1), (side + 1, 2)):
        matrices = torch.zeros(*batch, order, order, dtype=dtype, device="cpu")
        assert _cuda.mirror_in_place(matrices) is True
        count = 6 if batch else 1
        assert driver.last == (
            f"mirror of {WORDS[dtype.itemsize]}",
            (tiles, tiles, count),
            (side, 256 // side, 1),
        )


def test_the_arguments_of_a_mirror_are_there_while_it_is_launched(driver, monkeypatch):
    matrices, seen = torch.ones(2, 7, 7), []

    def look(self, *rest):
        pointers = rest[-2]
        kinds = ctypes.c_void_p, ctypes.c_int
        seen.extend(k.from_address(p).value for k, p in zip(kinds, pointers, strict=True))
        return 0

    monkeypatch.setattr(Driver, "cuLaunchKernel", look)
    assert _cuda.mirror_in_place(matrices)
    assert seen == [matrices.data_ptr(), 7]


@pytest.mark.parametrize(
    ("shape", "done"),
    [((0, 0), False), ((0, 3, 3), False), ((65535, 1, 1), True), ((65536, 1, 1), False)],
)
def test_how_many_matrices_a_launch_takes(driver, shape, done):
    assert _cuda.mirror_in_place(torch.ones(shape)) is done


def test_mirrors_that_are_left_to_torch(driver):
    assert not _cuda.mirror_in_place(torch.ones(3, 3, dtype=torch.int8))
    assert not _cuda.mirror_in_place(torch.ones(3, 4).mT[:3])
    assert not driver.launches


@pytest.fixture
def compiling(monkeypatch):
    """Kernels as none was compiled yet, by a function that is to be set."""
    monkeypatch.setattr(torch.cuda, "device", lambda number: nullcontext())
    for kernel in (_cuda._NORM_KERNEL, _cuda._MIRROR_KERNEL):
        monkeypatch.setattr(kernel, "handle", cache(kernel._compiled))
    monkeypatch.setattr(_cuda._NORMS, "launches", nothing_prepared())
    return lambda function: monkeypatch.setattr(
        torch.cuda, "_compile_kernel", function, raising=False
    )


def test_kernels_are_compiled_for_the_words_of_their_elements(compiling):
    compiled = []

    def compile_kernel(source, name):
        compiled.append((name, source))
        return SimpleNamespace(func=len(compiled))

    compiling(compile_kernel)
    for number, (size, word) in enumerate(WORDS.items(), 1):
        assert _cuda._MIRROR_KERNEL.handle(_cuda._WORDS[size], 0) == number
        name, source = compiled[-1]
        assert (name, "WORD" in source, "SIDE" in source) == ("mirror", False, False)
        side = 32 if size == 16 else 64
        assert f"{word} tile[{side}][{side} + 1]" in source
        assert (side + 1) * side * size <= 48 * 1024  # of shared memory
    assert _cuda._NORM_KERNEL.handle(torch.float32, 0) == 5
    assert compiled[-1][0] == "norm_float32"


CALLS = {
    "norm_float32 for torch.float32": lambda: _cuda.norm(torch.ones(3)),
    "mirror for unsigned int": lambda: _cuda.mirror_in_place(torch.ones(3, 3)) or None,
    "mirror for double2": lambda: _cuda.mirror_in_place(torch.ones(3, 3).cdouble()) or None,
}


@pytest.mark.parametrize("kernel", CALLS)
def test_a_kernel_that_does_not_compile_is_said_once(driver, compiling, kernel):
    def compile_kernel(source, name):
        raise RuntimeError("nvrtc: error: no such architecture\nand more")

    compiling(compile_kernel)
    words = f"trnblas: the CUDA kernel {kernel} cannot be compiled .*: nvrtc: .*no such arch"
    with pytest.warns(RuntimeWarning, match=words) as said:
        assert CALLS[kernel]() is None
    assert [one.filename for one in said] == [__file__]
    assert CALLS[kernel]() is None  # a second warning would be an error here
    assert not driver.launches
