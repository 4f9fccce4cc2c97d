"""Calls that reach every kernel of the libraries at any size, by the public interface.

A call takes two sizes and makes its operands of them; its gradients are computed too where kernels
compute them. Any two options occur together; the tests of the kernels have all combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

import trnblas
import trnblas.nki
import trnfft
import trnfft.nki
import trnrand
import trnsolver
import trnsolver.nki
import trnsparse
import trntensor
from pairwise import pairwise
from trnblas.evidence import SHIFT, probe_inputs
from trnsci.core.backend.precision import precision
from trnsci.core.evidence import launcher
from trnsci.core.numbers.doublefloat import planes
from trnsci.core.testing import random_tensor

__all__ = ["CALLS"]

FLOATS = (torch.float32, torch.bfloat16)


class Sized(NamedTuple):
    """A computation at two sizes, and at which ones beyond the tiny it is worth to look."""

    call: Callable[[int, int], object]
    larger: tuple[tuple[int, int], ...]


def _backward(call: Callable[..., Tensor], *operands: Tensor) -> None:
    """Compute a result and its gradients by all operands."""
    leaves = [x.detach().clone().requires_grad_() for x in operands]
    call(*leaves).sum().backward()


# -- trnblas ---------------------------------------------------------------------------------------


def _well(n: int) -> Tensor:
    """Return a matrix whose triangles are far from singular."""
    return 3 * torch.eye(n) + random_tensor(n, n) / (2 * n)


def _products(m: int, n: int) -> None:
    for dtype in FLOATS:
        a, b = random_tensor(m, n, dtype=dtype), random_tensor(n, m, dtype=dtype, seed=1)
        c = random_tensor(m, m, dtype=dtype, seed=2)
        for kind, turned_a, turned_b in pairwise(FLOATS, (False, True), (False, True)):
            if kind == dtype:
                x, y = a.mT.contiguous() if turned_a else a, b.mT.contiguous() if turned_b else b
                trnblas.gemm(1.5, x, y, transA=turned_a, transB=turned_b)
                trnblas.gemm(1.0, x, y, 0.5, c, transA=turned_a, transB=turned_b)
        trnblas.gemmt(1.0, a, b)
        trnblas.gemmt(2.0, a, b, 0.5, c, uplo="lower")
        many = torch.stack([a, a + 1, a - 1])
        trnblas.batched_gemm(1.0, many, torch.stack([b, b, b]))
        trnblas.batched_gemm(1.0, many, torch.stack([b, b, b]), 0.5, torch.stack([c, c, c]))
        trnblas.gemm(1.0, a, torch.stack([b, b]))
    _backward(lambda x, y: trnblas.gemm(1.0, x, y), a.float(), b.float())


def _symmetric(m: int, n: int) -> None:
    for dtype in FLOATS:
        square, b = random_tensor(m, m, dtype=dtype), random_tensor(m, n, dtype=dtype, seed=1)
        c = random_tensor(m, m, dtype=dtype, seed=2)
        for uplo in ("upper", "lower"):
            trnblas.symm(1.5, square, b, uplo=uplo)
            trnblas.symm(1.5, square, b.mT.contiguous(), side="right", uplo=uplo)
        trnblas.symm(1.0, square, b, 0.5, b)
        for trans in (False, True):
            x = b.mT.contiguous() if trans else b
            trnblas.syrk(1.0, x, trans=trans)
            trnblas.syrk(1.5, x, 0.5, c + c.mT, trans=trans)
            trnblas.syr2k(1.0, x, x + 1, trans=trans)
            trnblas.syr2k(1.0, x, x + 1, 0.5, c + c.mT, trans=trans)
    _backward(lambda x: trnblas.syrk(1.0, x), b.float())
    _backward(lambda x, y: trnblas.symm(1.0, x, y), square.float(), b.float())


def _triangular(m: int, n: int) -> None:
    flags = pairwise(FLOATS, ("upper", "lower"), (False, True), ("left", "right"))
    for dtype in FLOATS:
        a, b = _well(m).to(dtype), random_tensor(m, n, dtype=dtype, seed=1)
        for kind, uplo, trans, side in flags:
            if kind == dtype:
                rhs = b if side == "left" else b.mT.contiguous()
                options = {"uplo": uplo, "trans": trans, "side": side}
                trnblas.trmm(1.0, a, rhs, **options)
                trnblas.trsm(1.5, a, rhs, **options)
        trnblas.trsm(1.0, a, b, diag="unit")
        trnblas.trmm(1.0, a, b, diag="unit")
        trnblas.batched_trsm(1.0, torch.stack([a, a]), torch.stack([b, b]))
    _backward(lambda x, y: trnblas.trsm(1.0, x, y), a.float(), b.float())
    _backward(lambda x, y: trnblas.trmm(1.0, x, y), a.float(), b.float())


def _energies(m: int, n: int) -> None:
    occupied, virtual = -torch.linspace(1.0, 0.2, 3), torch.linspace(0.1, 1.5, m)
    b = random_tensor(3, m, n)
    flat = b.flatten(0, 1)
    low = trnblas.nki
    low.nki_mp2_energy(flat @ flat.mT, occupied, occupied, virtual)
    low.nki_fused_gemm_energy(b[0], b[1], -1.0, -0.5, virtual)
    _backward(lambda x: low.nki_batched_pair_energy(x, occupied, virtual), b)


def _levels(m: int, n: int) -> None:
    a, b = random_tensor(m, n), random_tensor(n, m, seed=1)
    for level in ("bfloat16", "float16x3", "doublefloat"):
        trnblas.gemm(1.0, a, b, precision=level)
        trnblas.gemmt(1.0, a, b, precision=level)
        trnblas.batched_gemm(1.0, torch.stack([a, -a]), torch.stack([b, b]), precision=level)
    trnblas.trsm(1.0, _well(m), a, precision="doublefloat")
    x, y = a.flatten().double() / 3, b.flatten().double() / 3
    trnblas.axpy(1.5, x, y, precision="doublefloat")
    trnblas.dot(x, y, precision="doublefloat")
    trnblas.nrm2(x, precision="doublefloat")
    occupied, virtual = -torch.linspace(1.0, 0.2, 2), torch.linspace(0.1, 1.5, m)
    flat = random_tensor(2 * m, n)
    trnblas.nki.nki_mp2_energy(flat @ flat.mT, occupied, occupied, virtual, precision="doublefloat")


def _pairs(m: int, n: int) -> None:
    from trnblas._kernels import doublefloat_vectors
    from trnblas._kernels.arithmetic_probe import arithmetic_probe
    from trnblas._library import LIBRARY

    launch = launcher(LIBRARY)
    a = planes(random_tensor(m, n).double() / 3)
    b = planes(1 + random_tensor(m, n, seed=1).double().abs() / 3)
    for operation in ("add", "multiply", "divide"):
        launch(doublefloat_vectors.doublefloat_elementwise, *a, *b, operation)
    launch(doublefloat_vectors.doublefloat_sum, *a)
    launch(arithmetic_probe, *probe_inputs(), SHIFT)  # has one size


# -- trnfft ----------------------------------------------------------------------------------------


def _lines(m: int, n: int) -> None:
    for kind in ("fft", "ifft", "irfft", "hfft"):
        transform = getattr(trnfft, kind)
        transform(random_tensor(m, n, dtype=torch.complex64), n)
        if kind.endswith("fft") and kind != "hfft":
            transform(random_tensor(m, n, dtype=torch.complex64), n + 1)
    for kind in ("fft", "rfft", "ihfft"):
        getattr(trnfft, kind)(random_tensor(m, n))
    for kind in ("dct", "dst"):
        getattr(trnfft, kind)(random_tensor(m, n))
    trnfft.fftconvolve(random_tensor(n), random_tensor(m, seed=1))
    trnfft.fft(random_tensor(m, n, dtype=torch.bfloat16))
    _backward(lambda x: torch.view_as_real(trnfft.torch_fft.rfft(x)), random_tensor(m, n))


def _long_lines(m: int, n: int) -> None:
    trnfft.fft(random_tensor(m, n, dtype=torch.complex64))
    trnfft.rfft(random_tensor(m, n))
    trnfft.irfft(random_tensor(m, n // 2 + 1, dtype=torch.complex64), n)


def _lattices(m: int, n: int) -> None:
    for shape in ((m, n), (2, m, n), (m, 2, n), (n, m, 1), (2, m, 3, n), (2, 1, m, 1, n)):
        trnfft.fftn(random_tensor(*shape, dtype=torch.complex64))
        trnfft.rfftn(random_tensor(*shape))
        trnfft.irfftn(random_tensor(*shape, dtype=torch.complex64), (*shape[:-1], n + 1))
    for kind in ("fft2", "ifft2", "irfft2"):
        getattr(trnfft, kind)(random_tensor(3, m, n, dtype=torch.complex64), s=(m, n))
    trnfft.rfft2(random_tensor(3, m, n))


def _wide_lines(m: int, n: int) -> None:
    with trnfft.precision("doublefloat"):
        for length in (n, 256 + n):  # primes among them
            trnfft.ifft(random_tensor(m, n, dtype=torch.complex128), length)
        trnfft.rfft2(random_tensor(2, m, n))
        trnfft.irfft(random_tensor(m, n, dtype=torch.complex64), n)


def _images(m: int, n: int) -> None:
    """Transform images above 257 by 257, the smallest that stacked factors transform."""
    trnfft.fft2(random_tensor(2, 257 + m, 257 + n, dtype=torch.complex64))


def _frames(m: int, n: int) -> None:
    window = torch.ones(n)
    for hop in {1, n}:
        trnfft.stft(
            random_tensor(2, n + m), n, hop, window=window, center=False, return_complex=True
        )


def _complex_products(m: int, n: int) -> None:
    a = random_tensor(m, n, dtype=torch.complex64)
    b = random_tensor(n, m, dtype=torch.complex64, seed=1)
    trnfft.nki.complex_gemm(a, b)
    trnfft.nki.complex_gemm_bf16(a, b)
    trnfft.nki.complex_linear(a, random_tensor(3, n), random_tensor(3, n, seed=1))
    trnfft.nki.complex_mask_apply(a, 2 * a)


def _butterflies(m: int, n: int) -> None:
    from trnfft._kernels.butterfly import butterfly, butterfly_stage_kernel
    from trnfft._library import LIBRARY
    from trnfft._planning.choice import butterfly_constants

    points = 1 << n.bit_length()
    launch = launcher(LIBRARY)
    parts = random_tensor(m, points), random_tensor(m, points, seed=1)
    for inverse in (False, True):
        table = torch.from_numpy(butterfly_constants(points, inverse))
        launch(butterfly, *parts, table, inverse, 0.5)
        launch(butterfly_stage_kernel, *parts, table, 0, inverse)


# -- trnrand ---------------------------------------------------------------------------------------


def _samples(m: int, n: int) -> None:
    for engine in ("philox", "threefry"):
        generator = trnrand.Generator(20, engine=engine)
        for law in ("uniform", "normal", "exponential"):
            getattr(trnrand, law)(m, n, generator=generator)


def _words(m: int, n: int) -> None:
    from trnrand._kernels import operands, samples
    from trnrand._library import LIBRARY

    for engine, key in (("philox", (1, 2)), ("threefry", (1, 2, 3, 4))):
        operand = getattr(operands, f"{engine}_operand")(key, 5, 1, 0)
        kernel = getattr(samples, f"{engine}_words")
        launcher(LIBRARY)(kernel, torch.from_numpy(operand.view("int32")), 4 * m * n)


# -- trnsparse -------------------------------------------------------------------------------------


def _patterns(m: int, n: int) -> Iterator[Tensor]:
    """Return dense matrices: full, a diagonal, one column, and some with empty rows."""
    full = random_tensor(m, n)
    place = torch.arange(m)[:, None] + torch.arange(n)
    yield full
    yield torch.where(place % 3 == 0, full, 0.0)
    yield torch.eye(m, n)
    yield torch.where(torch.arange(n) == 0, full, 0.0)


def _sparse_products(m: int, n: int) -> None:
    for dense in _patterns(m, n):
        for dtype in FLOATS:
            matrix = trnsparse.from_dense(dense.to(dtype))
            b, c = random_tensor(n, 3, dtype=dtype), random_tensor(m, 3, dtype=dtype)
            trnsparse.spmm(matrix, b)
            trnsparse.spmv(matrix, b[:, 0].contiguous())
            trnsparse.sddmm(matrix, c, b)
        csr = trnsparse.CSRMatrix.from_dense(dense)
        csr.values.requires_grad_()
        trnsparse.spmm(csr, b.float().requires_grad_()).sum().backward()


def _tile_products(m: int, n: int) -> None:
    """Multiply by tiles also where a matrix would not hold them."""
    from trnsparse._paths.blocks import TILED_SPMM
    from trnsparse._products.tiles import TileHolder

    for dense in _patterns(m, n):
        for dtype in FLOATS:
            matrix, b = trnsparse.CSRMatrix.from_dense(dense.to(dtype)), random_tensor(n, m)
            data, places = TileHolder().hold(matrix.values, matrix.pattern)
            TILED_SPMM(data, places.pointers, places.indices, b.to(dtype), m)


def _block_products(m: int, n: int) -> None:
    for dense in _patterns(m, n):
        for size in (2, 64):
            if max(m, n) > 40 * size:
                continue
            matrix = trnsparse.BSRMatrix.from_dense(dense, size)
            matrix.blocks.requires_grad_()
            trnsparse.spmm(matrix, random_tensor(n, m).requires_grad_()).sum().backward()
    a = random_tensor(m, m)
    diagonal = torch.linspace(1.0, 0.1, m)
    _backward(lambda x, y: trnsparse.screened_spmm(x, diagonal, y, 0.2), a, random_tensor(m, n))


def _sparse_levels(m: int, n: int) -> None:
    for dense in _patterns(m, n):
        for matrix in (trnsparse.from_dense(dense), trnsparse.BSRMatrix.from_dense(dense, 64)):
            matrix.requires_grad_()
            with precision("doublefloat"):
                for width in (1, 3):
                    b = random_tensor(n, width).requires_grad_()
                    trnsparse.spmm(matrix, b).sum().backward()


def _sparse_systems(m: int, n: int) -> None:
    a = 0.1 * random_tensor(m, m) / m
    matrix = trnsparse.BSRMatrix.from_dense(a + a.mT + torch.eye(m), min(m, 64))
    trnsparse.cg(matrix, random_tensor(m, min(n, 5)), tol=1e-5, on_failure="ignore")
    trnsparse.cg(matrix, random_tensor(m), tol=1e-5)


def _attention(m: int, n: int) -> None:
    for causal in (False, True):
        for size in (2, 64):
            if m > 40 * size:
                continue
            mask = trnsparse.local_window_mask(m, window=size, block_size=size, causal=causal)
            q, k, v = (random_tensor(1, 2, m, min(n, 128), seed=seed) for seed in range(3))
            _backward(lambda q, k, v: trnsparse.block_sparse_attention(q, k, v, mask), q, k, v)  # noqa: B023
            trnsparse.block_sparse_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask)


# -- trntensor -------------------------------------------------------------------------------------


def _contractions(m: int, n: int) -> None:
    for dtype in FLOATS:
        a, b = random_tensor(2, m, n, dtype=dtype), random_tensor(n, m, dtype=dtype, seed=1)
        trntensor.einsum("bij,jk->bik", a, b)
        trntensor.einsum("bij,kj->kib", a, b.mT.contiguous())
        trntensor.einsum("bij,ji->b", a, b)
        trntensor.einsum("ij,kl->ikjl", b, b[:1, :1])
        trntensor.einsum("ij,jk,kl->il", b, a[0], b)
        trntensor.einsum("ij,ji->", a[0], b)
    _backward(lambda x, y: trntensor.einsum("ij,jk->ki", x, y), a[0].float(), b.float())
    occupied, virtual = -torch.linspace(1.0, 0.2, 2), torch.linspace(0.1, 1.5, m)
    _backward(lambda x: trntensor.mp2_energy(x, occupied, virtual), random_tensor(2, m, n))


# -- trnsolver -------------------------------------------------------------------------------------


def _definite(n: int) -> Tensor:
    x = random_tensor(n, n) / n**0.5
    return x @ x.mT + torch.eye(n)


def _factors(m: int, n: int) -> None:
    a = _definite(m)
    trnsolver.cholesky(a)
    trnsolver.cholesky(torch.stack([a, 2 * a]))
    trnsolver.lu(_well(m))
    trnsolver.lu(torch.stack([_well(m), a]))
    trnsolver.lu(torch.complex(_well(m), a))
    trnsolver.lu(random_tensor(2, min(m, 20), min(n, 20), dtype=torch.complex64))
    tall = random_tensor(max(m, n), min(m, n))
    trnsolver.qr(tall)
    trnsolver.qr(torch.stack([tall, 2 * tall]))


def _spectra(m: int, n: int) -> None:
    a, order = random_tensor(m, m), min(m, 20)
    small = (a + a.mT)[:order, :order].contiguous()
    trnsolver.eigh(small)
    trnsolver.eigh(torch.stack([small, 2 * small]))
    trnsolver.svd(random_tensor(max(m, order), min(n, order)))
    trnsolver.svd(random_tensor(2, max(m, order), min(n, order)))


def _groups_of_rows(m: int, n: int) -> None:
    from trnsolver._library import LIBRARY
    from trnsolver.eigen import eigh_in_groups

    order = min(4 + m, 14)
    a = random_tensor(1, order, order)
    eigh_in_groups(launcher(LIBRARY), a + a.mT, 4, 2)


def _iterations(m: int, n: int) -> None:
    a = _definite(m)
    trnsolver.inv_sqrt_spd_ns(a, max_iter=4, tol=1e-3, on_failure="ignore")
    trnsolver.inv_sqrt_spd_ns(torch.stack([a, 2 * a]), max_iter=3, tol=1e-3, on_failure="ignore")
    trnsolver.msign(torch.eye(m, n) + 0.1 * random_tensor(m, n) / m)
    trnsolver.cg(a, random_tensor(m), tol=1e-5, max_iter=4, on_failure="ignore")


def _pieces(m: int, n: int) -> None:
    low = trnsolver.nki
    x, y, c, s = (random_tensor(m, k, seed=i) for i, k in enumerate((n, n, 1, 1)))
    low.nki_rotate_pairs(x, y, c, s)
    low.nki_matvec(x, random_tensor(n, 1))
    low.nki_rank2_update(random_tensor(m, m), c, s)


CALLS = {
    ("trnblas", "products"): Sized(_products, ((2, 129), (129, 2), (1, 513), (513, 1), (127, 128))),
    ("trnblas", "symmetric"): Sized(_symmetric, ((2, 129), (129, 2), (127, 128), (1, 513))),
    ("trnblas", "triangular"): Sized(_triangular, ((2, 129), (129, 2), (127, 3), (1, 513))),
    ("trnblas", "energies"): Sized(_energies, ((1, 129), (129, 1), (127, 2))),
    ("trnblas", "levels"): Sized(_levels, ((2, 129), (129, 2), (1, 513), (127, 128))),
    ("trnblas", "pairs"): Sized(_pairs, ((2, 129), (129, 2), (1, 513), (127, 128))),
    ("trnfft", "lines"): Sized(_lines, ((2, 127), (2, 128), (1, 129), (129, 5), (1, 513))),
    ("trnfft", "long lines"): Sized(_long_lines, ((2, 1024), (1, 1031), (3, 2048), (1, 2053))),
    ("trnfft", "wide lines"): Sized(_wide_lines, ((129, 3), (2, 257))),
    ("trnfft", "lattices"): Sized(_lattices, ((129, 1), (2, 129), (127, 2), (1, 257))),
    ("trnfft", "images"): Sized(_images, ((3, 15), (127, 1))),
    ("trnfft", "frames"): Sized(_frames, ((200, 1), (5, 128), (600, 3), (300, 200))),
    ("trnfft", "products"): Sized(_complex_products, ((1, 513), (513, 1), (129, 2), (2, 129))),
    ("trnfft", "butterflies"): Sized(_butterflies, ((129, 1), (129, 3), (127, 5), (1, 2000))),
    ("trnrand", "samples"): Sized(_samples, ((1, 127), (1, 513), (128, 129))),
    ("trnrand", "words"): Sized(_words, ((1, 127), (1, 513), (128, 129))),
    ("trnsparse", "rows"): Sized(_sparse_products, ((2, 129), (129, 1), (127, 2), (130, 130))),
    ("trnsparse", "tiles"): Sized(_tile_products, ((2, 129), (129, 1), (127, 2), (130, 130))),
    ("trnsparse", "blocks"): Sized(_block_products, ((2, 129), (129, 1), (127, 2), (130, 130))),
    ("trnsparse", "levels"): Sized(_sparse_levels, ((2, 129), (129, 1), (127, 2))),
    ("trnsparse", "systems"): Sized(_sparse_systems, ((64, 1), (65, 2), (129, 3))),
    ("trnsparse", "attention"): Sized(_attention, ((64, 1), (65, 2), (129, 128))),
    ("trntensor", "contractions"): Sized(_contractions, ((1, 129), (129, 1), (127, 2), (2, 513))),
    ("trnsolver", "factors"): Sized(_factors, ((1, 129), (7, 2), (33, 17), (65, 3), (129, 5))),
    ("trnsolver", "spectra"): Sized(_spectra, ((7, 2), (31, 8), (129, 5))),
    ("trnsolver", "groups of rows"): Sized(_groups_of_rows, ((5, 8), (10, 1))),
    ("trnsolver", "iterations"): Sized(_iterations, ((7, 2), (65, 3), (127, 1), (129, 3))),
    ("trnsolver", "pieces"): Sized(_pieces, ((1, 129), (129, 3), (127, 1), (3, 600))),
}
"""By library and by what is computed."""
