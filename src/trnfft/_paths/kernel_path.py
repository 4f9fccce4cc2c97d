"""Kernel launches of the operations.

Each function has the name of its operation, takes a launcher and the operation's arguments, and
launches one kernel once. Importing this module imports NKI.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnblas.nki.launches import complex_product
from trnfft._kernels import bluestein, dft, four_step, mask
from trnfft._kernels import n_d as n_d_kernels
from trnfft._kernels import real_dft as real_kernels
from trnfft._kernels import stacked as stacked_kernels
from trnfft._kernels import stacked_image as image_kernels
from trnfft._kernels import stft as stft_kernels
from trnfft._kernels import two_d as two_d_kernels
from trnfft._kernels.parts_tiling import parts_tiling
from trnfft._kernels.stacked_geometry import ImageGeometry, StackedGeometry, many_rows
from trnfft._paths.interleaved import resized
from trnfft._paths.precision import operand_dtype
from trnfft._planning.choice import LARGEST_RANK
from trnfft._planning.recipe import FFTAlgorithm, Recipe, recipe
from trnfft._planning.tables import constants, frame_matrices
from trnsci.core.backend.launch import Launcher
from trnsci.core.numbers.conversions import dtype_name


def transform(
    launch: Launcher, x: Tensor, is_complex: bool, kind: str, n: int, norm: Any
) -> Tensor:
    chosen = recipe(kind, (n,), norm)
    if chosen.algorithm is FFTAlgorithm.DFT_GEMM:
        return _matrix_transform(launch, resized(x, 1, _points(chosen, n)), is_complex, chosen)
    (table,) = constants(chosen, launch.path)
    if isinstance(chosen.geometry, StackedGeometry):
        re, im = _parts(resized(x, 1, n), is_complex)
        im = torch.zeros_like(re) if im is None else im
        return _joined(launch(stacked_kernels.stacked, re, im, table, chosen.geometry))
    re, im = _parts(x, is_complex)
    if chosen.algorithm is FFTAlgorithm.BLUESTEIN:
        kernel = bluestein.bluestein
        return _joined(launch(kernel, re, im, table, n, chosen.geometry, chosen.form))
    many = chosen.many if many_rows(chosen.many, x.shape[0]) else None
    if many is not None:
        re, im = _parts(resized(x, 1, _points(chosen, n)), is_complex)
        im = torch.zeros_like(re) if im is None and chosen.form == "hermitian" else im
    return _joined(launch(four_step.four_step, re, im, table, chosen.geometry, chosen.form, many))


def _matrix_transform(launch: Launcher, x: Tensor, is_complex: bool, chosen: Recipe) -> Tensor:
    """Transform by one product with the DFT matrix, in bfloat16 if the precision level allows."""
    dtype = operand_dtype()
    name = dtype_name(dtype)
    batch, n, wide = x.shape[0], chosen.n, dtype is torch.bfloat16
    re, im = _parts(x.to(dtype), is_complex)
    first, second = constants(chosen, launch.path, dtype)
    if chosen.form == "hermitian":
        im = torch.zeros_like(re) if im is None else im
        blocks = parts_tiling(batch, n, (n + 1) // 2, name, outs=1, wide=wide).blocks
        return launch(real_kernels.irfft, re, im, first, second, blocks)
    bins = first.shape[1]
    blocks = parts_tiling(batch, bins, n, name, lefts=1 if im is None else 2, wide=wide).blocks
    if chosen.form == "half":
        return _joined(launch(real_kernels.rfft, re, first, second, blocks))
    return _joined(launch(dft.dft, re, im, first, second, blocks))


def transform_nd(
    launch: Launcher, x: Tensor, is_complex: bool, kind: str, sizes: Any, norm: Any
) -> Tensor:
    chosen = recipe(kind, tuple(sizes), norm)
    for dim, size in enumerate(sizes[:-1], start=1):
        x = resized(x, dim, size)
    re, im = _parts(resized(x, len(sizes), _points(chosen, sizes[-1])), is_complex)
    *leading, rows, columns = constants(chosen, launch.path)
    if isinstance(chosen.geometry, ImageGeometry):
        kernel, half = image_kernels.stacked_image, chosen.form == "half"
        return _joined(launch(kernel, re, im, rows, columns, chosen.geometry, half))
    real = chosen.form == "hermitian"
    if not leading:
        return _joined(launch(two_d_kernels.two_d, re, im, rows, columns, real))
    absent = [None] * (LARGEST_RANK - 2 - len(leading))
    return _joined(launch(n_d_kernels.n_d, re, im, *leading, *absent, rows, columns, real))


def short_time(
    launch: Launcher,
    x: Tensor,
    is_complex: bool,
    window: Tensor,
    hop: int,
    onesided: bool,
    normalized: bool,
) -> Tensor:
    n_fft = window.shape[0]
    scale = n_fft**-0.5 if normalized else 1.0
    dtype = operand_dtype()
    first, second = frame_matrices(window, onesided, scale, launch.path, dtype)
    re, im = _parts(x.to(dtype), is_complex)
    frames = stft_kernels.frame_count(x.shape[1], n_fft, hop)
    blocks = parts_tiling(
        x.shape[0] * frames,
        first.shape[1],
        n_fft,
        dtype_name(dtype),
        lefts=1 if im is None else 2,
        wide=dtype is torch.bfloat16,
    ).blocks
    return _joined(launch(stft_kernels.stft, re, im, first, second, hop, blocks))


def complex_gemm(launch: Launcher, a: Tensor, b: Tensor) -> Tensor:
    return complex_product(launch, a, b, None, False, False)


def complex_gemm_bf16(launch: Launcher, a: Tensor, b: Tensor) -> Tensor:
    return complex_product(launch, a.bfloat16(), b.bfloat16(), None, False, True).to(a.dtype)


def complex_linear(launch: Launcher, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return complex_product(launch, x, weight, bias, True, False)


def complex_mask(launch: Launcher, mask_: Tensor, spectrum: Tensor) -> Tensor:
    return _joined(launch(mask.complex_mask, *_parts(mask_, True), *_parts(spectrum, True)))


def _points(chosen: Recipe, n: int) -> int:
    """Return the number of points of the operand that a transform of length n reads."""
    return n // 2 + 1 if chosen.form == "hermitian" else n


def _parts(x: Tensor, is_complex: bool) -> tuple[Tensor, Tensor | None]:
    return (x[..., 0], x[..., 1]) if is_complex else (x, None)


def _joined(parts: Any) -> Tensor:
    """Return two parts in a last dimension of two, a real result unchanged."""
    return torch.stack(parts, dim=-1) if isinstance(parts, tuple) else parts
