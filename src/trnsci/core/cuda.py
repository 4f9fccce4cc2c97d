"""Kernels of ours on a CUDA device: compiled by torch, launched by the driver.

torch compiles them with NVRTC, by a function that is not public. Where it is missing or fails, a
warning says so and torch does the work. torch would launch them too, but opens the driver's library
anew each time, which takes longer than a small factorization.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import KernelError
from trnsci.core.fallback import callers_level

__all__ = [
    "CudaKernel",
    "Extent",
    "LaunchesOfThread",
    "PreparedLaunch",
    "current_stream",
    "driver",
    "most_shared_bytes",
    "wait_for",
]

Extent = tuple[int, int, int]

# torch.cuda.current_stream makes an object, which takes a microsecond; torch for CPUs has neither.
current_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)


@cache
def driver() -> Any:
    """Return the library of the driver."""
    return ctypes.CDLL("libcuda.so.1")


@cache
def most_shared_bytes(device: int) -> int:
    """Return the shared memory that a block of a kernel can be given; none where there are none."""
    if torch.version.hip is not None:
        return 0
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 48 * 1024))


class CudaKernel:
    """A kernel of a library, compiled at its first use for operands of a kind on a device.

    Attributes:
        handle: Returns the kernel for a kind and the number of a device, as the driver knows it, or
            None where it cannot be had. The first answer stands, and costs a look into a table.
    """

    def __init__(
        self, library: str, name: str, source: Callable[[Any], str], shared_memory: bool = False
    ) -> None:
        """Declare a kernel; nothing is compiled yet.

        Args:
            library: Whose kernel it is.
            name: Its name in the text, which is ``extern "C"``.
            source: Returns the text for a kind, which is a dtype or whatever else texts differ in.
            shared_memory: Whether launches may ask for all shared memory of a block, of which the
                text then takes none by itself; else for 48 KiB.
        """
        self._library, self._name, self._source = library, name, source
        self._shared_memory = shared_memory
        self.handle = cache(self._compiled)

    def launch(
        self,
        kind: Any,
        grid: Extent,
        block: Extent,
        arguments: Sequence[Tensor | int | None],
        device: int,
        shared_bytes: int = 0,
    ) -> bool:
        """Launch on the current stream of the current device; return whether that went well.

        Args:
            kind: What the operands are.
            grid: How many blocks.
            block: How many threads of a block.
            arguments: Memory of the device or pinned memory, which has to stay until the kernel
                ends, ``int`` of C, and None for a null pointer.
            device: The number of the current device; on another one the driver refuses.
            shared_bytes: Shared memory of a block that is asked for at the launch.
        """
        handle = self.handle(kind, device)
        if handle is None:
            return False
        values = [
            ctypes.c_int(value)
            if isinstance(value, int)
            else ctypes.c_void_p(None if value is None else value.data_ptr())
            for value in arguments
        ]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        stream = ctypes.c_void_p(current_stream(device))
        code: int = driver().cuLaunchKernel(
            handle, *grid, *block, shared_bytes, stream, pointers, None
        )
        return code == 0

    def _compiled(self, kind: Any, device: int) -> Any:
        if torch.version.hip is not None:
            return None
        try:
            with torch.cuda.device(device):  # whose kernel it is, whichever is current
                kernel = torch.cuda._compile_kernel(self._source(kind), self._name)
                if self._shared_memory:
                    kernel.set_shared_memory_config(most_shared_bytes(device))
        except Exception as error:
            warnings.warn(
                f"{self._library}: the CUDA kernel {self._name} for {kind} cannot be compiled on "
                f"cuda:{device}, so that torch computes instead: {_reason(error)}",
                RuntimeWarning,
                stacklevel=callers_level(self._library),
            )
            return None
        return kernel.func


class PreparedLaunch:
    """Launches of one thread on one stream, with arguments that are set anew for each.

    Making arguments for C takes as long as the launch. A launch copies them before it returns.
    """

    def __init__(self, handle: Any, stream: int, arguments: Sequence[Any]) -> None:
        """Prepare a launch.

        Args:
            handle: The kernel, as the driver knows it.
            stream: The number of the stream.
            arguments: Values of C, which are set by their ``value``.
        """
        self._arguments = arguments
        self._pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._handle, self._stream = handle, ctypes.c_void_p(stream)
        self._launch = driver().cuLaunchKernel

    def launched(self, blocks: int, threads: int) -> bool:
        """Launch so many blocks of so many threads; return whether that went well."""
        code: int = self._launch(
            self._handle, blocks, 1, 1, threads, 1, 1, 0, self._stream, self._pointers, None
        )
        return code == 0


class LaunchesOfThread(threading.local):
    """Launches of a kernel that each thread prepares for itself, at their first use, and keeps.

    Attributes:
        launches: The launches of this thread, by kind, device and stream; for one that is not there
            yet ``launches[kind, device, stream]`` prepares it, and is None where the kernel cannot
            be had.
    """

    def __init__(self, kernel: CudaKernel, prepared: Callable[[Any, Any, int, int], Any]) -> None:
        """Keep launches of a kernel.

        Args:
            kernel: What is launched.
            prepared: Returns a launch for a kernel as the driver knows it, a kind, and the numbers
                of a device and of a stream.
        """
        self.launches: dict[tuple[Any, int, int], Any] = _Prepared(kernel, prepared)


class _Prepared(dict[tuple[Any, int, int], Any]):
    def __init__(self, kernel: CudaKernel, prepared: Callable[[Any, Any, int, int], Any]) -> None:
        super().__init__()
        self._kernel, self._prepared = kernel, prepared

    def __missing__(self, key: tuple[Any, int, int]) -> Any:
        kind, device, stream = key
        handle = self._kernel.handle(kind, device)
        if handle is None:
            return None
        found = self[key] = self._prepared(handle, kind, device, stream)
        return found


def wait_for(device: int) -> None:
    """Wait until all is done that was launched on the current stream of a device."""
    code = driver().cuStreamSynchronize(ctypes.c_void_p(current_stream(device)))
    if code:
        torch.cuda.current_stream(device).synchronize()  # which has the words
        raise KernelError(f"the CUDA driver reports error {code} for kernels launched before")


def _reason(error: Exception) -> str:
    """Return the line that has the cause: a compiler writes a title and warnings above it."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line]
    causes = [line for line in lines if "error" in line]
    return (causes or lines or [type(error).__name__])[0]
