"""Code that is compiled when it first runs: CUDA kernels by NVRTC, loops by numba.

NVRTC and the CUDA driver are called through ``cuda.bindings``, NVIDIA's Python bindings, which
torch's wheels for CUDA require. They are imported at the first launch, since torch for CPUs comes
without them. If a kernel cannot be compiled or launched, a warning is issued and torch computes
instead.

numba is optional: each loop also has an implementation without it. Compiled loops are cached on
disk, next to the module or in the user's cache folder, if one of them is writeable. Only
module-level functions can be cached: the variables that a nested function captures differ between
processes. Importing this module does not import numba; ``compiled_loop`` does.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.backend.fallback import callers_level
from trnsci.core.errors import KernelError

Extent = tuple[int, int, int]


@cache
def most_shared_bytes(device: int) -> int:
    """Return the maximum shared memory of a block in bytes; 0 on ROCm."""
    if torch.version.hip is not None:
        return 0
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 48 * 1024))


class CudaKernel:
    """A CUDA kernel, compiled at its first launch for each kind of operands and each device."""

    def __init__(
        self, library: str, name: str, source: Callable[[Any], str], shared_memory: bool = False
    ) -> None:
        """Declare a kernel; nothing is compiled yet.

        Args:
            library: The library that the kernel belongs to, for warnings.
            name: Name of the function in the source, which is ``extern "C"``.
            source: Returns the CUDA C++ source for a kind: a dtype, or any key of the variants.
            shared_memory: Whether launches may request all shared memory of a block, of which the
                source then declares none itself; otherwise up to 48 KiB.
        """
        self._library, self._name, self._source = library, name, source
        self._shared_memory = shared_memory
        self._function = cache(self._compiled)

    def launch(
        self,
        kind: Any,
        grid: Extent,
        block: Extent,
        arguments: Sequence[Tensor | int | None],
        device: int,
        shared_bytes: int = 0,
    ) -> bool:
        """Launch the kernel on the current stream of a device; return whether it was launched.

        Args:
            kind: Kind of the operands.
            grid: Number of blocks.
            block: Number of threads of a block.
            arguments: Tensors on the device, ``int`` of C, and None for a null pointer. A tensor
                must not be freed on another stream before the kernel has ended.
            device: Index of the device.
            shared_bytes: Dynamic shared memory of a block.
        """
        function = self._function(kind, device)
        if function is None:
            return False
        # The driver reads the arguments at these addresses before it returns.
        values = [
            np.array([value], dtype=np.int32)
            if isinstance(value, int)
            else np.array([0 if value is None else value.data_ptr()], dtype=np.uint64)
            for value in arguments
        ]
        addresses = np.array([value.ctypes.data for value in values], dtype=np.uint64)
        try:
            with torch.cuda.device(device):
                driver = _driver_of(device)
                stream = driver.CUstream(torch.cuda.current_stream(device).cuda_stream)
                code = driver.cuLaunchKernel(
                    function, *grid, *block, shared_bytes, stream, addresses.ctypes.data, 0
                )
                _checked("cuLaunchKernel", code)
        except KernelError as error:
            self._warn(f"cannot be launched on cuda:{device}", kind, error)
            return False
        return True

    def _compiled(self, kind: Any, device: int) -> Any:
        """Return the driver's handle of the kernel, or None where it cannot be compiled."""
        if torch.version.hip is not None:
            return None
        try:
            with torch.cuda.device(device):
                return self._loaded(_cubin(self._source(kind), self._name, device), device)
        except Exception as error:
            self._warn(f"cannot be compiled on cuda:{device}", kind, error)
            return None

    def _loaded(self, cubin: bytes, device: int) -> Any:
        driver = _driver_of(device)
        image = np.frombuffer(cubin, dtype=np.uint8)
        (module,) = _checked("cuModuleLoadData", driver.cuModuleLoadData(image.ctypes.data))
        found = driver.cuModuleGetFunction(module, self._name.encode())
        (function,) = _checked("cuModuleGetFunction", found)
        if self._shared_memory:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            code = driver.cuFuncSetAttribute(function, attribute, most_shared_bytes(device))
            _checked("cuFuncSetAttribute", code)
        return function

    def _warn(self, what: str, kind: Any, error: Exception) -> None:
        warnings.warn(
            f"{self._library}: the CUDA kernel {self._name} for {kind} {what}, so that torch "
            f"computes instead: {_reason(error)}",
            RuntimeWarning,
            stacklevel=callers_level(),
        )


def _driver_of(device: int) -> Any:
    """Return the driver's bindings, with torch's context of a device current in this thread."""
    driver: Any = import_module("cuda.bindings.driver")
    _checked("cuCtxSetCurrent", driver.cuCtxSetCurrent(_primary_context(device)))
    return driver


@cache
def _primary_context(device: int) -> Any:
    """Return the context that torch uses on a device."""
    torch.cuda.init()  # type: ignore[no-untyped-call]
    driver: Any = import_module("cuda.bindings.driver")
    _checked("cuInit", driver.cuInit(0))
    (handle,) = _checked("cuDeviceGet", driver.cuDeviceGet(device))
    found = driver.cuDevicePrimaryCtxRetain(handle)
    (context,) = _checked("cuDevicePrimaryCtxRetain", found)
    return context


def _cubin(source: str, name: str, device: int) -> bytes:
    """Return machine code for the architecture of a device."""
    nvrtc: Any = import_module("cuda.bindings.nvrtc")
    major, minor = torch.cuda.get_device_capability(device)
    created = nvrtc.nvrtcCreateProgram(source.encode(), f"{name}.cu".encode(), 0, [], [])
    (program,) = _checked("nvrtcCreateProgram", created)
    try:
        options = [f"--gpu-architecture=sm_{major}{minor}".encode()]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(code):
            raise KernelError(_log(nvrtc, program) or f"nvrtcCompileProgram: {code!r}")
        (size,) = _checked("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program))
        cubin = bytes(size)  # the bindings write into it
        _checked("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, cubin))
        return cubin
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _log(nvrtc: Any, program: Any) -> str:
    """Return the compiler's log."""
    (size,) = _checked("nvrtcGetProgramLogSize", nvrtc.nvrtcGetProgramLogSize(program))
    if size <= 1:  # the terminating zero
        return ""
    log = bytes(size)
    _checked("nvrtcGetProgramLog", nvrtc.nvrtcGetProgramLog(program, log))
    return log.rstrip(b"\0").decode(errors="replace")


def _checked(call: str, returned: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the results of a call of the bindings, whose first result is an error code."""
    code, *results = returned
    if int(code):
        raise KernelError(f"{call}: {code!r}")
    return tuple(results)


def _reason(error: Exception) -> str:
    """Return the first line of an error that contains "error", else its first line."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line]
    causes = [line for line in lines if "error" in line]
    return (causes or lines or [type(error).__name__])[0]


def numba_loaded() -> bool:
    """Return whether numba has been imported in this process."""
    return sys.modules.get("numba") is not None


@cache
def numba_installed() -> bool:
    """Return whether numba can be imported; importing it takes about half a second."""
    try:
        return find_spec("numba") is not None
    except (ImportError, ValueError):  # sys.modules["numba"] is None
        return False


def compiled_loop(function: Callable[..., Any], signature: Any = None, **options: Any) -> Any:
    """Return a module-level function, compiled for one signature or for each one it is called with.

    Args:
        function: The function to compile. It runs without the interpreter lock.
        signature: A numba signature; None compiles at the first call with arguments of new types.
        **options: Further options of ``numba.njit``.
    """
    import numba

    def compiled(cached: bool) -> Any:
        return numba.njit(signature, cache=cached, nogil=True, **options)(function)

    try:
        return compiled(True)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):  # no writeable folder
            raise
        return compiled(False)
