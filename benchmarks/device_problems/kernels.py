"""Calls of kernels that the other modules do not have, at a size of use.

Operands have values that every kernel accepts: ones and identity matrices. Not here are kernels
that run in the backward pass only or depend on values, and those that are parts of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import trnblas
import trnfft
import trnrand
import trnsolver
import trnsparse
import trntensor
from device_problems.problem import Problem

_N = 1024
_M = 1 << 20


def _eye(*shape: int) -> Tensor:
    return torch.eye(*shape[-2:]).expand(shape)


def _ones(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype)


def _problem(
    name: str, library: Any, prepare: Callable[[], Callable[[], Any]], elements: int, flops: int = 0
) -> Problem:
    """Return a call that moves 4-byte elements at least once, with its flops of products."""
    return Problem(name, library.__name__, prepare, 4 * elements, flops)


def _product(name: str, *numbers: float, count: int = 2, flops: int, level: str = "") -> Problem:
    """Return a product of square matrices of trnblas."""

    def prepare() -> Callable[[], Any]:
        options = {"precision": level} if level else {}
        operands = [_eye(_N, _N)] * count
        return partial(getattr(trnblas, name), *numbers, *operands, **options)

    return _problem(
        f"{name} {_N}{' at ' * bool(level)}{level}", trnblas, prepare, (count + 1) * _M, flops
    )


def _vectors(name: str, *numbers: float, elements: int) -> Problem:
    """Return a function of two vectors of trnblas at doublefloat."""

    def prepare() -> Callable[[], Any]:
        operands = (_ones(_M), _ones(_M))
        return partial(getattr(trnblas, name), *numbers, *operands, precision="doublefloat")

    return _problem(f"{name} {_M:,} at doublefloat", trnblas, prepare, elements)


def _energy(name: str, level: str = "") -> Problem:
    """Return an MP2 energy of trnblas, for integrals or for factors of them."""
    o, v, q = 20, 100, 300

    def prepare() -> Callable[[], Any]:
        occupied, virtual = -torch.arange(1.0, o + 1), torch.arange(1.0, v + 1)
        operands: tuple[Any, ...] = (_ones(o, v, q), occupied, virtual)
        if name == "nki_mp2_energy":
            operands = (_ones(o * v, o * v), occupied, occupied, virtual)
        if name == "nki_fused_gemm_energy":
            operands = (_ones(v, q), _ones(v, q), -1.0, -2.0, virtual)
        options = {"precision": level} if level else {}
        return partial(getattr(trnblas.mp2, name), *operands, **options)

    elements, flops = {
        "nki_mp2_energy": (o * o * v * v, 0),
        "nki_fused_gemm_energy": (2 * v * q, 2 * v * v * q),
        "nki_batched_pair_energy": (o * v * q, o * (o + 1) * v * v * q),
    }[name]
    sizes = f"{o} x {v} x {q}" if elements == o * v * q else f"{v} x {q}" if flops else f"{o} x {v}"
    return _problem(
        f"{name.removeprefix('nki_')} {sizes}{' at ' * bool(level)}{level}",
        trnblas,
        prepare,
        elements,
        flops,
    )


def _transform(name: str, *shape: int, real: bool = False) -> Problem:
    """Return a transform of trnfft; ``real`` for a real operand."""
    dtype = torch.float32 if real else torch.complex64
    elements = math.prod(shape) * (2 if real else 4)
    return _problem(
        f"{name} {' x '.join(map(str, shape))}",
        trnfft,
        lambda: partial(getattr(trnfft, name), torch.zeros(shape, dtype=dtype)),
        elements,
    )


def _short_time() -> Problem:
    batch, samples, points, hop = 8, 65536, 512, 128

    def prepare() -> Callable[[], Any]:
        window = torch.hann_window(points)
        x = torch.zeros(batch, samples)
        return lambda: trnfft.stft(x, points, hop, window=window, return_complex=True)

    bins = (samples // hop + 1) * (points // 2 + 1)
    return _problem(
        f"stft {batch} x {samples}, {points}", trnfft, prepare, batch * (samples + 2 * bins)
    )


def _draw(law: str, engine: str) -> Problem:
    def prepare() -> Callable[[], Any]:
        return partial(getattr(trnrand, law), _M, generator=trnrand.Generator(0, engine=engine))

    return _problem(f"{law}({_M:,}), {engine}", trnrand, prepare, _M)


def _solver(name: str, *shape: int, flops: int = 0, sides: int = 0) -> Problem:
    """Return a function of identity matrices of trnsolver, with right-hand sides for a system."""

    def prepare() -> Callable[[], Any]:
        right = (_ones(shape[-1], sides),) if sides else ()
        return partial(getattr(trnsolver, name), _eye(*shape), *right)

    sizes = " x ".join(map(str, shape))
    return _problem(f"{name} {sizes}", trnsolver, prepare, 2 * math.prod(shape), flops)


def _sparse(name: str) -> Problem:
    """Return a sparse matrix of order 1024 times 64 columns, or a product at its entries."""
    size = 128 if name == "BSR" else 32

    def prepare() -> Callable[[], Any]:
        matrix = trnsparse.from_dense(torch.block_diag(*[_ones(size, size)] * (_N // size)))
        if name == "BSR":
            return partial(trnsparse.spmm, matrix.to_bsr(size), _ones(_N, 64))
        return partial(trnsparse.sddmm, matrix, _ones(_N, 64), _ones(_N, 64))

    title = f"{name} {_N}, {size} entries in a row, 64 columns"
    return _problem(title, trnsparse, prepare, (128 + size) * _N, 2 * 64 * size * _N)


def _einsum(subscripts: str, *shapes: tuple[int, ...], elements: int, flops: int) -> Problem:
    return _problem(
        subscripts,
        trntensor,
        lambda: partial(trntensor.einsum, subscripts, *(_ones(*shape) for shape in shapes)),
        elements,
        flops,
    )


KERNELS = (
    _product("symm", 1.0, flops=2 * _N**3),
    _product("syrk", 1.0, count=1, flops=_N**3),
    _product("syr2k", 1.0, flops=2 * _N**3),
    _product("gemmt", 1.0, flops=_N**3),
    _product("trmm", 1.0, flops=_N**3),
    _product("gemm", 1.0, flops=_N**3 // 2, level="bfloat16"),
    _product("gemm", 1.0, flops=3 * _N**3 // 2, level="float16x3"),
    _product("gemm", 1.0, flops=2 * _N**3, level="doublefloat"),
    _problem(
        "batched_trsm 64 x 128 x 128",
        trnblas,
        lambda: partial(trnblas.batched_trsm, 1.0, _eye(64, 128, 128), _ones(64, 128, 128)),
        5 * _M // 2,
        64 * 128**3,
    ),
    _vectors("axpy", 2.0, elements=3 * _M),
    _vectors("dot", elements=2 * _M),
    _energy("nki_mp2_energy"),
    _energy("nki_mp2_energy", "doublefloat"),
    _energy("nki_fused_gemm_energy"),
    _energy("nki_batched_pair_energy"),
    _transform("fft", 128, 1009),
    _transform("fft", 4, 100_003),
    _transform("fftn", 64, 64, 64),
    _transform("fft2", 8, 256, 256),
    _transform("rfft", 128, 1024, real=True),
    _transform("irfft", 128, 513),
    _transform("rfft", 128, 256, real=True),
    _transform("irfft", 128, 129),
    _short_time(),
    _draw("exponential", "philox"),
    _draw("exponential", "threefry"),
    _draw("uniform", "threefry"),
    _solver("lu", 256, 256, flops=2 * 256**3 // 3),
    _solver("qr", 256, 256, flops=4 * 256**3 // 3),
    _solver("qr", 2048, 64, flops=4 * 2048 * 64**2),
    _solver("svd", 128, 48),
    _solver("eigh", 160, 160),
    _solver("msign", 256, 256),
    _solver("inv_sqrt_spd_ns", 256, 256),
    _sparse("BSR"),
    _sparse("sddmm"),
    _einsum(
        "bij,bkj->bik",
        (16, 256, 128),
        (16, 512, 128),
        elements=16 * (256 * 128 + 512 * 128 + 256 * 512),
        flops=2 * 16 * 256 * 512 * 128,
    ),
    _einsum(
        "ij,jk,kl->il",
        (_N, 256),
        (256, 256),
        (256, _N),
        elements=512 * _N + 256 * 256 + _M,
        flops=2 * 256 * 256 * _N + 2 * 256 * _M,
    ),
)
