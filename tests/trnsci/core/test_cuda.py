"""How kernels are compiled and launched, seen without a device.

A driver notes what it is asked for, and a compiler too.
"""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from trnsci.core import cuda
from trnsci.core.errors import KernelError

STREAM = 7


class Driver:
    """Notes a launch, whose arguments are only there while it lasts."""

    def __init__(self, kinds=()):
        self.kinds, self.code = kinds, 0

    def cuLaunchKernel(self, handle, *rest):
        *shape, shared, stream, pointers, extra = rest
        assert extra is None
        values = [k.from_address(p).value for k, p in zip(self.kinds, pointers, strict=True)]
        self.launched = (handle, tuple(shape), shared, stream.value, values)
        return self.code

    def cuStreamSynchronize(self, stream):
        self.waited = stream.value
        return self.code


@pytest.fixture
def driver(monkeypatch):
    made = Driver((ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p))
    monkeypatch.setattr(cuda, "driver", lambda: made)
    monkeypatch.setattr(cuda, "current_stream", lambda device: STREAM + device)
    return made


class Compiler:
    """Notes what is compiled, and on which device; hands out numbers for kernels."""

    def __init__(self):
        self.error, self.refusal, self.current = None, None, None
        self.compiled, self.configured = [], []

    def compile_kernel(self, source, name):
        if self.error is not None:
            raise self.error
        self.compiled.append((source, name, self.current))
        return SimpleNamespace(func=len(self.compiled), set_shared_memory_config=self.configure)

    def configure(self, shared_bytes):
        if self.refusal is not None:
            raise self.refusal
        self.configured.append((shared_bytes, self.current))

    @contextmanager
    def device(self, number):
        self.current = number
        yield
        self.current = None


@pytest.fixture
def compiler(monkeypatch):
    made = Compiler()
    properties = SimpleNamespace(shared_memory_per_block_optin=1000)
    monkeypatch.setattr(torch.cuda, "_compile_kernel", made.compile_kernel, raising=False)
    monkeypatch.setattr(torch.cuda, "device", made.device)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    cuda.most_shared_bytes.cache_clear()
    yield made
    cuda.most_shared_bytes.cache_clear()


def kernel_of(shared_memory=False):
    return cuda.CudaKernel("trnlib", "shift", lambda kind: f"text for {kind}", shared_memory)


def test_a_kernel_is_compiled_once_for_each_kind_on_the_device_it_is_for(compiler):
    kernel = kernel_of()
    asked = [("a", 0), ("a", 1), ("b", 0), ("a", 0)]
    assert [kernel.handle(kind, device) for kind, device in asked] == [1, 2, 3, 1]
    assert compiler.compiled == [
        ("text for a", "shift", 0),
        ("text for a", "shift", 1),
        ("text for b", "shift", 0),
    ]


@pytest.mark.parametrize("shared_memory", [False, True])
def test_all_shared_memory_is_there_for_kernels_that_want_it(compiler, shared_memory):
    assert kernel_of(shared_memory).handle("a", 2) == 1
    assert compiler.configured == ([(1000, 2)] if shared_memory else [])


def test_what_cannot_be_compiled_is_said_once_for_each_kind_and_device(compiler):
    kernel = kernel_of()
    compiler.error = RuntimeError("nvrtc: no such architecture\nand more")
    for kind, device in (("a", 0), ("b", 0), ("a", 1)):
        with pytest.warns(RuntimeWarning) as said:
            assert kernel.handle(kind, device) is None
        (one,) = said
        assert str(one.message) == (
            f"trnlib: the CUDA kernel shift for {kind} cannot be compiled on cuda:{device}, so "
            "that torch computes instead: nvrtc: no such architecture"
        )
        assert one.filename == __file__
        assert kernel.handle(kind, device) is None  # a second warning would be an error here


def test_the_reason_of_a_compiler_is_found_below_its_title_and_warnings(compiler):
    compiler.error = RuntimeError(
        "Kernel compilation failed:\nshift.cu(2): warning #177-D: a variable was never used\n\n"
        'shift.cu(3): error: identifier "y" is undefined\n\n1 error detected in shift.cu.'
    )
    with pytest.warns(RuntimeWarning, match=r'instead: shift\.cu\(3\): error: .*"y" is undefined$'):
        assert kernel_of().handle("a", 0) is None


def test_an_error_without_words_is_named(compiler):
    compiler.error = KeyError()
    with pytest.warns(RuntimeWarning, match="instead: KeyError"):
        assert kernel_of().handle("a", 0) is None


def test_a_torch_without_a_compiler_is_said(compiler, monkeypatch):
    monkeypatch.delattr(torch.cuda, "_compile_kernel")
    with pytest.warns(RuntimeWarning, match="instead: .*has no attribute '_compile_kernel'"):
        assert kernel_of().handle("a", 0) is None


def test_memory_that_is_refused_is_said(compiler):
    compiler.refusal = RuntimeError("exceeds device limit")
    with pytest.warns(RuntimeWarning, match="instead: exceeds device limit"):
        assert kernel_of(shared_memory=True).handle("a", 0) is None


def test_a_warning_that_is_an_error_is_one_each_time(compiler):
    kernel = kernel_of()
    compiler.error = RuntimeError("no")
    for _ in range(2):
        with pytest.raises(RuntimeWarning, match="instead: no"):
            kernel.handle("a", 0)


def test_rocm_has_no_kernels_and_nothing_to_say(compiler, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert kernel_of().handle("a", 0) is None
    assert cuda.most_shared_bytes(0) == 0
    assert not compiler.compiled


def test_a_kernel_gets_pointers_and_numbers(driver, compiler):
    a = torch.ones(3)
    assert kernel_of().launch("a", (2, 1, 1), (64, 1, 1), (a, -5, None), 0, 1024)
    values = [a.data_ptr(), -5, None]
    assert driver.launched == (1, (2, 1, 1, 64, 1, 1), 1024, STREAM, values)


def test_a_launch_that_fails_is_said(driver, compiler):
    driver.code = 1
    assert not kernel_of().launch("a", (1, 1, 1), (1, 1, 1), (None, 0, None), 0)


def test_what_cannot_be_compiled_is_not_launched(driver, compiler):
    kernel = kernel_of()
    compiler.error = RuntimeError("no")
    with pytest.warns(RuntimeWarning, match="cannot be compiled"):
        assert not kernel.launch("a", (1, 1, 1), (1, 1, 1), (None, 0, None), 0)
    assert not hasattr(driver, "launched")


def test_a_thread_prepares_a_launch_once_for_each_kind_device_and_stream(compiler):
    kernel = cuda.CudaKernel("trnsome", "some", lambda kind: f"text of {kind}")
    prepared = []

    def prepare(*of):
        prepared.append(of)
        return SimpleNamespace(of=of)

    kept = cuda.LaunchesOfThread(kernel, prepare)
    keys = [("a", 0, 5), ("b", 0, 5), ("a", 1, 5), ("a", 0, 6)]
    found = [kept.launches[key] for key in keys]
    assert [launch.of for launch in found] == [
        (1, *keys[0]),
        (2, *keys[1]),
        (3, *keys[2]),
        (1, *keys[3]),
    ]
    assert all(kept.launches[key] is launch for key, launch in zip(keys, found, strict=True))
    assert len(prepared) == 4
    with ThreadPoolExecutor(1) as other:
        apart = other.submit(lambda: kept.launches["a", 0, 5]).result()
    assert (apart.of, apart is found[0], len(prepared)) == ((1, "a", 0, 5), False, 5)


def test_nothing_is_prepared_for_a_kernel_that_cannot_be_had(compiler, monkeypatch):
    kernel = cuda.CudaKernel("trnsome", "some", str)
    kept = cuda.LaunchesOfThread(kernel, lambda *of: 1 / 0)
    monkeypatch.setattr(kernel, "handle", lambda kind, device: None)
    assert kept.launches["a", 0, 5] is None
    assert not kept.launches


def test_waiting_is_for_the_current_stream_and_fails_aloud(driver, monkeypatch):
    cuda.wait_for(1)
    assert driver.waited == STREAM + 1
    driver.code = 700
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: torch.Stream())
    with pytest.raises(KernelError, match="error 700"):
        cuda.wait_for(0)


SHIFT = 'extern "C" __global__ void shift(int* x, int by) { x[threadIdx.x] += by; }'


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shared_memory", [False, True])
def test_a_device_runs_what_was_compiled(shared_memory):
    kernel = cuda.CudaKernel("trnlib", "shift", lambda kind: SHIFT, shared_memory)
    x = torch.arange(32, dtype=torch.int32, device="cuda")
    asked = cuda.most_shared_bytes(0) if shared_memory else 0
    assert kernel.launch(x.dtype, (1, 1, 1), (32, 1, 1), (x, 5), 0, asked)
    cuda.wait_for(0)
    assert x.tolist() == list(range(5, 37))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_compiler_says_what_it_cannot_read():
    kernel = cuda.CudaKernel("trnlib", "shift", lambda kind: SHIFT.replace("by;", "what;"))
    with pytest.warns(RuntimeWarning, match="kernel shift for ints .*instead: .*error: .*what"):
        assert kernel.handle("ints", 0) is None
