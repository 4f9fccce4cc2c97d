"""CUDA kernels on a CPU: every thread of a block is a fiber, and a barrier hands over to the next.

It shows that the text of a kernel computes what it should, with threads in one order. It does not
show races between barriers, nor how fast anything is.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

COMPILER = shutil.which("g++")

_HEAD = r"""
#include <ucontext.h>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>
using std::fabs; using std::fma; using std::frexp; using std::isinf; using std::ldexp;
using std::sqrt;
#define __device__ static
#define __global__
struct Index { int x; };
static Index threadIdx, blockIdx, blockDim, gridDim;
struct Barrier { int total, arrived, passed; };
static std::vector<ucontext_t> fibers;
static std::vector<char> done;
static std::vector<double> exchanged;
static std::vector<Barrier> of_warp;
static Barrier of_block;
static ucontext_t scheduler;
static double* shared_memory;
static void give_turn() { swapcontext(&fibers[threadIdx.x], &scheduler); }
static void wait_at(Barrier& b) {
    int before = b.passed;
    if (++b.arrived == b.total) { b.arrived = 0; ++b.passed; }
    else while (b.passed == before) give_turn();
}
static void __syncthreads() { wait_at(of_block); }
static void __syncwarp() { wait_at(of_warp[threadIdx.x / 32]); }
template <class T> static T of_thread(T x, int other) {
    exchanged[threadIdx.x] = x;
    __syncwarp();
    T found = (T)exchanged[other];
    __syncwarp();
    return found;
}
template <class T> static T __shfl_xor_sync(unsigned, T x, int lanes) {
    return of_thread(x, threadIdx.x ^ lanes);
}
static int __any_sync(unsigned mask, int x) {
    for (int k = 16; k; k /= 2) x |= __shfl_xor_sync(mask, x, k);
    return x;
}
static float __fdividef(float a, float b) { return a / b; }
static float rsqrtf(float x) { return 1 / sqrt(x); }
static double rsqrt(double x) { return 1 / sqrt(x); }
template <class T> static T __shfl_sync(unsigned, T x, int lane) {
    return of_thread(x, threadIdx.x / 32 * 32 + lane);
}
"""

_TAIL = r"""
static void** arguments;
static void fiber() { CALL; done[threadIdx.x] = 1; give_turn(); }
extern "C" void launch(int blocks, int threads, long bytes, void** given) {
    const int stack = 1 << 16;
    arguments = given;
    blockDim.x = threads;
    gridDim.x = blocks;
    shared_memory = (double*)malloc(bytes + 64);
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        memset(shared_memory, 0xff, bytes + 64);
        fibers.assign(threads, ucontext_t());
        done.assign(threads, 0);
        exchanged.assign(threads, 0);
        of_block = {threads, 0, 0};
        of_warp.assign(threads / 32, Barrier{32, 0, 0});
        std::vector<char> stacks((long)threads * stack);
        for (int t = 0; t < threads; ++t) {
            getcontext(&fibers[t]);
            fibers[t].uc_stack.ss_sp = stacks.data() + (long)t * stack;
            fibers[t].uc_stack.ss_size = stack;
            makecontext(&fibers[t], fiber, 0);
        }
        for (int left = threads; left;)
            for (int t = 0; t < threads; ++t)
                if (!done[t]) {
                    threadIdx.x = t;
                    swapcontext(&scheduler, &fibers[t]);
                    left -= done[t];
                }
        // Nobody may write behind what was asked for.
        for (int k = 0; k < 64; ++k)
            if (((unsigned char*)shared_memory)[bytes + k] != 0xff) abort();
    }
    free(shared_memory);
}
"""


def compiled(source: str, call: str, folder: Path) -> Any:
    """Return the library of a kernel that is called with parts of ``arguments``."""
    text = source.replace("extern __shared__ double memory[];", "double* memory = shared_memory;")
    file = folder / "kernel.cpp"
    file.write_text(_HEAD + text + _TAIL.replace("CALL", call))
    assert COMPILER is not None
    library = folder / "kernel.so"
    command = [COMPILER, "-O1", "-w", "-shared", "-fPIC", "-o", str(library), str(file)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def launch(library: Any, blocks: int, threads: int, shared_bytes: int, *given: Any) -> None:
    """Run a kernel on NumPy arrays and integers."""
    assert threads % 32 == 0, "lanes that are not there cannot take part in an exchange"
    pointers = (ctypes.c_void_p * len(given))(
        *(x.ctypes.data if isinstance(x, np.ndarray) else x for x in given)
    )
    library.launch(blocks, threads, ctypes.c_long(shared_bytes), pointers)
