"""CUDA kernels compiled by NVRTC, and loops compiled by numba."""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numba
import numpy as np
import pytest
import torch

from fresh_process import printed_by
from trnsci.core.backend import compiled
from trnsci.core.backend import compiled as cuda

STREAM = 7
SHIFT = 'extern "C" __global__ void shift(int* x, int by, int* y) { x[threadIdx.x] += by; }'


class Bindings:
    """Stands for ``cuda.bindings`` and for torch's devices; calls named in ``failing`` fail."""

    def __init__(self):
        self.failing, self.log = set(), b"shift.cu(3): error: no such name\n\x00"
        self.compiled, self.shared, self.launched, self.current = [], [], None, None
        self.driver = SimpleNamespace(
            CUstream=lambda number: ("stream", number),
            CUfunction_attribute=SimpleNamespace(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared"
            ),
            cuInit=lambda flags: self.result("cuInit"),
            cuDeviceGet=lambda index: self.result("cuDeviceGet", index),
            cuDevicePrimaryCtxRetain=lambda device: self.result("cuDevicePrimaryCtxRetain", device),
            cuCtxSetCurrent=self.set_current,
            cuModuleLoadData=self.load,
            cuModuleGetFunction=lambda module, name: self.result(
                "cuModuleGetFunction", (module, name)
            ),
            cuFuncSetAttribute=self.configure,
            cuLaunchKernel=self.launch,
        )
        self.nvrtc = SimpleNamespace(
            nvrtcCreateProgram=lambda source, name, *headers: self.result(
                "nvrtcCreateProgram", (source, name)
            ),
            nvrtcCompileProgram=self.compile,
            nvrtcGetProgramLogSize=lambda program: (0, len(self.log)),
            nvrtcGetProgramLog=lambda program, into: self.filled(into, self.log),
            nvrtcGetCUBINSize=lambda program: (0, 4),
            nvrtcGetCUBIN=lambda program, into: self.filled(into, b"code"),
            nvrtcDestroyProgram=lambda program: (0,),
        )

    def result(self, call, *results):
        return (int(call in self.failing), *results)

    def filled(self, into, content):
        ctypes.memmove(into, content, len(content))
        return (0,)

    def compile(self, program, count, options):
        self.compiled.append((*program, options))
        return self.result("nvrtcCompileProgram")

    def load(self, address):
        return self.result("cuModuleLoadData", ctypes.string_at(address, 4))

    def configure(self, function, attribute, value):
        self.shared.append((attribute, value))
        return self.result("cuFuncSetAttribute")

    def set_current(self, context):
        self.context = context
        return self.result("cuCtxSetCurrent")

    def launch(self, function, *rest):
        *shape, shared, stream, pointers, extra = rest
        addresses = (ctypes.c_uint64 * 3).from_address(pointers)
        kinds = (ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64)
        values = [kind.from_address(at).value for kind, at in zip(kinds, addresses, strict=True)]
        self.launched = (function, tuple(shape), shared, stream, values, extra, self.context)
        return self.result("cuLaunchKernel")

    @contextmanager
    def device(self, number):
        self.current = number
        yield
        self.current = None


@pytest.fixture
def bindings(monkeypatch):
    made = Bindings()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", made.driver)
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", made.nvrtc)
    properties = SimpleNamespace(shared_memory_per_block_optin=1000)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", made.device)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, device))
    stream = SimpleNamespace(cuda_stream=STREAM)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    caches = (cuda.most_shared_bytes, cuda._primary_context)
    for cached in caches:
        cached.cache_clear()
    yield made
    for cached in caches:
        cached.cache_clear()


def kernel_of(shared_memory=False):
    return cuda.CudaKernel("trnlib", "shift", lambda kind: f"text for {kind}", shared_memory)


def launched(kernel, kind="a", device=0, arguments=(None, 0, None)):
    return kernel.launch(kind, (2, 1, 1), (64, 1, 1), arguments, device, 1024)


def test_a_kernel_is_compiled_once_for_each_kind_and_architecture(bindings):
    kernel = kernel_of()
    for kind, device in (("a", 0), ("a", 1), ("b", 0), ("a", 0)):
        assert launched(kernel, kind, device)
    assert bindings.compiled == [
        (b"text for a", b"shift.cu", [b"--gpu-architecture=sm_90"]),
        (b"text for a", b"shift.cu", [b"--gpu-architecture=sm_91"]),
        (b"text for b", b"shift.cu", [b"--gpu-architecture=sm_90"]),
    ]


def test_a_kernel_gets_addresses_and_integers_in_the_context_of_its_device(bindings):
    a = torch.ones(3)
    assert launched(kernel_of(), device=2, arguments=(a, -5, None))
    function, shape, shared, stream, values, extra, context = bindings.launched
    assert function == (b"code", b"shift")
    assert (shape, shared, stream) == ((2, 1, 1, 64, 1, 1), 1024, ("stream", STREAM))
    assert values == [a.data_ptr(), -5, 0]
    assert (extra, context) == (0, 2)


@pytest.mark.parametrize("shared_memory", [False, True])
def test_all_shared_memory_is_allowed_for_kernels_that_ask_for_it(bindings, shared_memory):
    assert launched(kernel_of(shared_memory))
    assert bindings.shared == ([("shared", 1000)] if shared_memory else [])


def test_a_kernel_that_does_not_compile_gives_one_warning_for_each_kind_and_device(bindings):
    kernel = kernel_of()
    bindings.failing.add("nvrtcCompileProgram")
    for kind, device in (("a", 0), ("b", 0), ("a", 1)):
        with pytest.warns(RuntimeWarning) as given:
            assert not launched(kernel, kind, device)
        (one,) = given
        assert str(one.message) == (
            f"trnlib: the CUDA kernel shift for {kind} cannot be compiled on cuda:{device}, so "
            "that torch computes instead: shift.cu(3): error: no such name"
        )
        assert one.filename == __file__
        assert not launched(kernel, kind, device)  # a second warning would be an error here
    assert bindings.launched is None


@pytest.mark.parametrize(
    "call",
    [
        "cuInit",
        "cuDeviceGet",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "nvrtcCreateProgram",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuFuncSetAttribute",
    ],
)
def test_every_error_code_is_checked(bindings, call):
    bindings.failing.add(call)
    with pytest.warns(RuntimeWarning, match=f"cannot be compiled .* instead: {call}: 1"):
        assert not launched(kernel_of(shared_memory=True))


def test_an_error_without_a_log_is_named(bindings):
    bindings.failing.add("nvrtcCompileProgram")
    bindings.log = b"\x00"
    with pytest.warns(RuntimeWarning, match="instead: nvrtcCompileProgram: 1"):
        assert not launched(kernel_of())


def test_the_cause_is_found_below_titles_and_warnings_of_the_compiler(bindings):
    bindings.failing.add("nvrtcCompileProgram")
    bindings.log = (
        b"shift.cu(2): warning #177-D: a variable was never used\n\n"
        b'shift.cu(3): error: identifier "y" is undefined\n\n1 error detected in shift.cu.\x00'
    )
    with pytest.warns(RuntimeWarning, match=r'instead: shift\.cu\(3\): error: .*"y" is undefined$'):
        assert not launched(kernel_of())


def test_a_launch_that_fails_gives_a_warning(bindings):
    bindings.failing.add("cuLaunchKernel")
    with pytest.warns(RuntimeWarning, match="cannot be launched on cuda:0, .*cuLaunchKernel: 1"):
        assert not launched(kernel_of())


def test_missing_bindings_give_a_warning(bindings, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    with pytest.warns(RuntimeWarning, match=r"instead: .*cuda\.bindings\.nvrtc"):
        assert not launched(kernel_of())


def test_rocm_has_no_kernels_and_no_warning(bindings, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert not launched(kernel_of())
    assert cuda.most_shared_bytes(0) == 0
    assert not bindings.compiled


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shared_memory", [False, True])
def test_a_device_runs_what_was_compiled(shared_memory):
    kernel = cuda.CudaKernel("trnlib", "shift", lambda kind: SHIFT, shared_memory)
    x = torch.arange(32, dtype=torch.int32, device="cuda")
    shared = cuda.most_shared_bytes(0) if shared_memory else 0
    assert kernel.launch(x.dtype, (1, 1, 1), (32, 1, 1), (x, 5, None), 0, shared)
    assert x.tolist() == list(range(5, 37))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_compiler_reports_what_it_cannot_read():
    kernel = cuda.CudaKernel("trnlib", "shift", lambda kind: SHIFT.replace("by;", "what;"))
    with pytest.warns(RuntimeWarning, match="kernel shift for ints .*instead: .*error: .*what"):
        assert not kernel.launch("ints", (1, 1, 1), (32, 1, 1), (None, 0, None), 0)


def running_sum(values, out):
    total = 0.0
    for i in range(values.size):
        total += values[i]
        out[i] = total


def test_a_loop_computes_what_the_function_says():
    values, out = np.arange(5.0), np.empty(5)
    compiled.compiled_loop(running_sum)(values, out)
    np.testing.assert_array_equal(out, [0, 1, 3, 6, 10])


def test_a_folder_that_cannot_be_written_to_costs_the_cache_alone(monkeypatch):
    asked = []

    def njit(signature, cache, nogil):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'f': no locator available")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    assert compiled.compiled_loop(running_sum) is running_sum
    assert asked == [True, False]


def test_other_errors_of_numba_are_not_hidden(monkeypatch):
    def njit(signature, cache, nogil):
        raise RuntimeError("no LLVM")

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.raises(RuntimeError, match="no LLVM"):
        compiled.compiled_loop(running_sum)


def test_whether_numba_is_loaded_is_asked_each_time(monkeypatch):
    assert compiled.numba_loaded()
    monkeypatch.delitem(sys.modules, "numba")
    assert not compiled.numba_loaded()


def test_asking_does_not_import_numba():
    code = (
        "import sys; from trnsci.core.backend.compiled import numba_installed, numba_loaded\n"
        "print(json.dumps([numba_installed(), numba_loaded(), 'numba' in sys.modules]))"
    )
    assert printed_by(code) == [True, False, False]
