"""One-dimensional Fourier transforms, with the arguments of ``torch.fft``.

Input may be real, complex or a :class:`~trnfft.ComplexTensor`, of any floating dtype. The transform
is computed in float32 or float64. Float16 and bfloat16 are widened and the result is rounded back;
integers and booleans are converted to the default dtype. A complex result is a native complex
tensor for native complex input, and a ``ComplexTensor`` otherwise. All functions are
differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnfft._complex.arguments import has_complex
from trnfft._library import LIBRARY, kernels_wanted, no_kernel
from trnfft._paths.arguments import HALF_SPECTRUM, NORMS, REAL_INPUT, Norm, along
from trnfft._paths.empty import empty_result, is_empty
from trnfft._paths.interleaved import (
    as_parts,
    as_spectrum,
    joined,
    native,
    resized,
    result_like,
    split,
)
from trnfft._paths.kinds import Spectrum, closed, closed_real, opened, opened_real, stored
from trnfft._paths.precision import operand_dtype
from trnfft._paths.scipy_fft import SHORTEST, scipy_vector
from trnfft._paths.trigonometric import Fourier
from trnfft._planning.doublefloat import doublefloat_plan
from trnfft._planning.recipe import FFTAlgorithm, Recipe, recipe
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.backend.decision import Choice
from trnsci.core.backend.derivatives import Gradients, Needed
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import ShapeError
from trnsci.core.examples import Case, example
from trnsci.core.interop import constant_to_compile
from trnsci.core.numbers.conversions import dtype_name, widest
from trnsci.core.testing import random_tensor

__all__ = ["fft", "hfft", "ifft", "ihfft", "irfft", "rfft"]

Value: TypeAlias = Tensor | ComplexTensor
"""A native tensor, or a ComplexTensor on a device without complex dtypes."""


def fft(
    input: Spectrum,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the sums of ``input[j] exp(-2 pi i j k / n)`` over j.

    Args:
        input: Tensor of at least one dimension.
        n: Length; the input is truncated or zero-padded at its end to this length.
        dim: Dimension to transform.
        norm: ``"backward"`` (the default) does not scale, ``"forward"`` scales by 1/n and
            ``"ortho"`` by 1/sqrt(n).
        out: Output tensor, of the result's type, shape and dtype; it is returned.

    Raises:
        ShapeError: n is below one, there are no points, or out has another shape.
        IndexError: The dimension does not exist.
        FlagError: norm is none of the three.
        DTypeError: input is not a tensor, or out has another dtype.

    Example:
        >>> trnfft.fft(torch.tensor([1.0, 2.0, 3.0, 4.0])).to_torch_complex()
        tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _result("fft", input, n, dim, norm, out)


def ifft(
    input: Spectrum,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the sums of ``input[k] exp(2 pi i j k / n) / n`` over k: the inverse of :func:`fft`.

    Arguments and errors are as in :func:`fft`; it is the inverse for the same norm.
    """
    return _result("ifft", input, n, dim, norm, out)


def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the first ``n // 2 + 1`` bins of :func:`fft` of a real tensor.

    The remaining bins are the conjugates of these.

    Raises:
        DTypeError: The input is complex.
        ShapeError, IndexError, FlagError: As :func:`fft`.
    """
    return _result("rfft", input, n, dim, norm, out)


def irfft(
    input: Spectrum,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real tensor of n points with the bins ``input``: the inverse of :func:`rfft`.

    Bins are truncated or zero-padded to ``n // 2 + 1``. The imaginary parts of the first and, for
    even n, of the last bin are ignored.

    Args:
        input: Bins; real bins have zero imaginary parts.
        n: Number of points of the result, by default ``2 * (bins - 1)``; required for an odd
            number.
        dim: Dimension to transform.
        norm: As :func:`ifft`.
        out: Real output tensor.

    Raises:
        ShapeError: n is below one, or there is only one bin and n is not given.
        IndexError, FlagError: As :func:`fft`.
    """
    return _result("irfft", input, n, dim, norm, out)


def hfft(
    input: Spectrum,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real :func:`fft` of a Hermitian-symmetric signal of n points.

    ``input`` has the first ``n // 2 + 1`` points of the signal. They are truncated or zero-padded,
    and n has the same default, as in :func:`irfft`.

    Raises:
        ShapeError, IndexError, FlagError: As :func:`irfft`.
    """
    return _result("hfft", input, n, dim, norm, out)


def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the first ``n // 2 + 1`` points of :func:`ifft` of a real tensor.

    It is the inverse of :func:`hfft`.

    Raises:
        DTypeError: The input is complex.
        ShapeError, IndexError, FlagError: As :func:`fft`.
    """
    return _result("ihfft", input, n, dim, norm, out)


def _result(kind: str, input: Any, n: int | None, dim: int, norm: Norm, out: Any) -> Any:
    """Validate the arguments and return a transform, in the tensor type of the input."""
    held = opened_real(kind, input) if kind in REAL_INPUT else opened(kind, input)
    x = held.x
    size, dim = along(kind, x, n, dim, norm, bins=kind in HALF_SPECTRUM)
    found: Any = empty_result(kind, x, [size], [dim]) if is_empty(x) else None
    if found is None:
        found = transform(kind, x, size, dim, norm)
    found = closed_real(found, held) if kind in HALF_SPECTRUM else closed(found, held)
    return found if out is None else stored(kind, found, out)


# -- by torch or by a kernel -----------------------------------------------------------------------


def transform(kind: str, x: Any, n: int | None, dim: int, norm: Norm) -> Any:
    """Return the transform ``kind`` ("fft", "irfft"...) of n points, by torch or by a kernel."""
    choice = kernels_wanted()
    if choice is not None and fits(kind, x, n, dim, norm):
        if n is None:
            n = 2 * (x.shape[dim] - 1) if kind in HALF_SPECTRUM else x.shape[dim]
        operation = DOUBLEFLOAT if choice.widening else TRANSFORM
        return operation.along(choice, kind, x, [n], [dim], norm)
    if has_complex(x.device):
        return _on_torch(kind, x, n, dim, norm)
    return on_host(_on_torch, kind, x, n, dim, norm)


def fourier_of_kernels(function: str) -> Fourier | None:
    """Return the transforms along the last dimension on kernels of ``doublefloat``.

    At other levels the result is None, and it is reported that the function has no kernel: what a
    caller makes of transforms is faster by torch than a launch and its own products by torch.
    """
    choice = kernels_wanted()
    if choice is not None and choice.widening and choice.path != "pytorch":
        return lambda kind, x, n, norm: transform(kind, x, n, -1, norm)
    no_kernel(function)
    return None


def _on_torch(kind: str, x: Tensor, n: int | None, dim: int, norm: Norm) -> Tensor:
    """Return the transform of a native tensor by torch, or of a long vector on a CPU by SciPy."""
    if x.ndim == 1 and type(n) is int and n >= SHORTEST:  # n is symbolic during tracing
        found = scipy_vector(kind, x, n, norm)
        if found is not None:
            return found
    function: Callable[..., Tensor] = getattr(torch.fft, kind)
    return function(x, n, dim, norm)


def on_host(compute: Callable[..., Tensor], kind: str, x: Value, *arguments: Any) -> Value:
    """Return the transform computed by torch on the host, for a device without complex dtypes."""
    host = x.cpu()
    if isinstance(host, ComplexTensor):
        host = host.to_torch_complex()
    result = compute(kind, host, *arguments)
    if result.is_complex():
        return ComplexTensor(result).to(x.device)
    return result.to(x.device)


def fits(kind: str, x: Value, n: int | None, dim: int, norm: Norm) -> bool:
    """Return whether torch accepts the arguments and the operand is not empty."""
    return (
        (x.is_floating_point() or (x.is_complex() and kind not in REAL_INPUT))
        and type(dim) is int
        and -x.ndim <= dim < x.ndim
        and x.shape[dim] > (1 if n is None and kind in HALF_SPECTRUM else 0)
        and (n is None or (type(n) is int and n > 0))
        and norm in NORMS
    )


# -- the operation ---------------------------------------------------------------------------------

_ADJOINT = {
    "fft": "ifft",
    "ifft": "fft",
    "rfft": "ifft",
    "ihfft": "fft",
    "irfft": "rfft",
    "hfft": "ihfft",
}
"""The adjoint has the opposite sign of the exponent; a half spectrum is extended by zeros."""
_NORM = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""A forward transform of one norm has the factor of an inverse transform of the other norm."""


class Transform(Operation):
    """Transforms of a batch along its last dimensions, given by their sizes.

    Operands and results are real tensors: a complex one has its parts in a last dimension of two,
    which shares the memory of a native complex tensor. Gradients are with respect to the parts; G
    is the gradient of the result.
    """

    def __init__(self, name: str, launch: Callable[..., Tensor], **declaration: Any) -> None:
        super().__init__(
            LIBRARY,
            name,
            reference=_reference,
            launch=launch,
            backward=self._gradients,
            linear=(0,),
            batched=lambda info, dims, x, *flags: in_one(self, dims[0], x, flags),
            flops=_flops,
            **declaration,
        )

    def along(
        self,
        choice: Choice,
        kind: str,
        x: Value,
        sizes: Sequence[int],
        dims: Sequence[int],
        norm: Norm,
    ) -> Value:
        """Return the transform along these dimensions; the others are batch dimensions."""
        last = tuple(range(-len(dims), 0))
        moved = x.movedim(tuple(dims), last)
        batch = moved.shape[: -len(dims)]
        flat = as_parts(moved.reshape(math.prod(batch), *moved.shape[-len(dims) :]))
        parts = self.called(choice, flat, x.is_complex(), kind, list(sizes), norm or "backward")
        result = parts if kind in HALF_SPECTRUM else as_spectrum(parts)
        return result.reshape(*batch, *result.shape[1:]).movedim(last, tuple(dims))

    def _gradients(
        self,
        grad: Tensor,
        needed: Needed,
        x: Tensor,
        is_complex: bool,
        kind: str,
        sizes: Sequence[int],
        norm: str,
    ) -> Gradients:
        """Return the transform of G with the other sign, in the shape and type of the operand."""
        half, single = kind in HALF_SPECTRUM, kind.removesuffix("n")
        adjoint = kind.replace(single, _ADJOINT[single])
        found = self(grad, not half, adjoint, sizes, _NORM[norm])
        if half:
            # A bin also represents its mirror image, except for the first and the middle bin.
            bins = found.shape[-2]
            weights = found.new_full((bins, 1), 2.0)
            weights[0] = 1.0
            if sizes[-1] % 2 == 0:
                weights[-1] = 1.0
            found = found * weights
        for place in range(1, 1 + len(sizes)):
            found = resized(found, place, x.shape[place])
        return found if is_complex else found[..., 0], None, None, None, None


def in_one(operation: Any, dim: int, x: Tensor, flags: tuple[Any, ...]) -> tuple[Tensor, int]:
    """Return the transform of all signals or images of a batch in one launch."""
    front = x.movedim(dim, 0)
    result: Tensor = operation(front.flatten(0, 1), *flags)
    return result.reshape(*front.shape[:2], *result.shape[1:]), 0


def _reference(x: Tensor, is_complex: bool, kind: str, sizes: Sequence[int], norm: str) -> Tensor:
    function, operand = getattr(torch.fft, kind), native(x, is_complex)
    if not kind.endswith("n"):
        return result_like(function(operand, sizes[0], -1, norm), x)
    return result_like(function(operand, sizes, tuple(range(-len(sizes), 0)), norm), x)


def _flops(x: Tensor, is_complex: bool, kind: str, sizes: Sequence[int], norm: str) -> float:
    batch, points = x.shape[: x.ndim - len(sizes) - is_complex], math.prod(sizes)
    return 5.0 * math.prod(batch) * points * max(math.log2(points), 1.0)


@constant_to_compile
def _refusal(kind: str, n: int) -> str:
    """Return the reason why a transform has no plan, or the empty string if it has one."""
    try:
        recipe(kind, (n,), None)
    except ShapeError as error:
        return str(error)
    return ""


def _transform_launch(
    launch: Launcher, x: Tensor, is_complex: bool, kind: str, sizes: Sequence[int], norm: Any
) -> Tensor:
    from trnfft._kernels.bluestein import bluestein  # here, because they import NKI
    from trnfft._kernels.four_step import four_step
    from trnfft._kernels.stacked import stacked
    from trnfft._kernels.stacked_geometry import StackedGeometry, many_rows
    from trnfft._planning.tables import constants

    (n,) = sizes
    chosen = recipe(kind, (n,), norm)
    if chosen.algorithm is FFTAlgorithm.DFT_GEMM:
        return _matrix_transform(launch, resized(x, 1, points(chosen, n)), is_complex, chosen)
    (table,) = constants(chosen, launch.path)
    if isinstance(chosen.geometry, StackedGeometry):
        re, im = split(resized(x, 1, n), is_complex)
        im = torch.zeros_like(re) if im is None else im
        return joined(launch(stacked, re, im, table, chosen.geometry))
    re, im = split(x, is_complex)
    if chosen.algorithm is FFTAlgorithm.BLUESTEIN:
        kernel = bluestein
        return joined(launch(kernel, re, im, table, n, chosen.geometry, chosen.form))
    many = chosen.many if many_rows(chosen.many, x.shape[0]) else None
    if many is not None:
        re, im = split(resized(x, 1, points(chosen, n)), is_complex)
        im = torch.zeros_like(re) if im is None and chosen.form == "hermitian" else im
    return joined(launch(four_step, re, im, table, chosen.geometry, chosen.form, many))


def _matrix_transform(launch: Launcher, x: Tensor, is_complex: bool, chosen: Recipe) -> Tensor:
    """Transform by one product with the DFT matrix, in bfloat16 if the precision level allows."""
    from trnfft._kernels.dft import dft
    from trnfft._kernels.parts_tiling import parts_tiling
    from trnfft._kernels.real_dft import irfft as irfft_kernel
    from trnfft._kernels.real_dft import rfft as rfft_kernel
    from trnfft._planning.tables import constants

    dtype = operand_dtype()
    name = dtype_name(dtype)
    batch, n, wide = x.shape[0], chosen.n, dtype is torch.bfloat16
    re, im = split(x.to(dtype), is_complex)
    first, second = constants(chosen, launch.path, dtype)
    if chosen.form == "hermitian":
        im = torch.zeros_like(re) if im is None else im
        blocks = parts_tiling(batch, n, (n + 1) // 2, name, outs=1, wide=wide).blocks
        return launch(irfft_kernel, re, im, first, second, blocks)
    bins = first.shape[1]
    blocks = parts_tiling(batch, bins, n, name, lefts=1 if im is None else 2, wide=wide).blocks
    if chosen.form == "half":
        return joined(launch(rfft_kernel, re, first, second, blocks))
    return joined(launch(dft, re, im, first, second, blocks))


def points(chosen: Recipe, n: int) -> int:
    """Return the number of points of the operand that a transform of length n reads."""
    return n // 2 + 1 if chosen.form == "hermitian" else n


PROMISED = 2e-6
"""Bound of the relative L2 error of every float32 transform."""


def transform_case(
    kernel: str, title: str, function: Callable[..., Any], *shape: int, real: bool = False
) -> Case:
    """Return the case of a function that also exists in torch.fft."""
    dtype = torch.float32 if real else torch.complex64

    def ours(x: Tensor) -> Tensor:
        found = function(x)
        return found.to_torch_complex() if isinstance(found, ComplexTensor) else found

    return Case(
        kernel,
        title,
        lambda: (random_tensor(*shape, dtype=dtype),),
        ours,
        lambda x: getattr(torch.fft, function.__name__)(widest(x)),
        "torch in float64",
        lambda x: PROMISED,
    )


TRANSFORM = Transform(
    "transform",
    _transform_launch,
    unsuited=lambda x, is_complex, kind, sizes, norm: _refusal(kind, sizes[0]),
    examples={
        **{name: lambda: example(random_tensor(64)) for name in ("fft", "rfft", "ihfft")},
        **{
            name: lambda: example(random_tensor(64, dtype=torch.complex64))
            for name in ("ifft", "irfft", "hfft")
        },
        "fft, long": lambda: example(random_tensor(2048)),
        "fft, prime length": lambda: example(random_tensor(521)),
    },
    evidence=(
        transform_case("dft", "FFT by one product", fft, 5, 200),
        transform_case("stacked", "FFT by stacked factors", fft, 2, 2048),
        transform_case("four_step", "four-step FFT", rfft, 2, 2048, real=True),
        transform_case("bluestein", "FFT of a prime length", fft, 2, 1031),
        transform_case("rfft", "real FFT", rfft, 5, 200, real=True),
        transform_case("irfft", "inverse real FFT", irfft, 5, 101),
    ),
)


@constant_to_compile
def doublefloat_refusal(kind: str, sizes: tuple[int, ...]) -> str:
    """Return the reason why a transform has no kernel of doublefloat, or the empty string."""
    try:
        doublefloat_plan(kind, sizes, None)
    except ShapeError as error:
        return str(error)
    return ""


def _doublefloat_launch(launch: Launcher, *args: Any) -> Tensor:
    from trnfft._paths.doublefloat import doublefloat_launch  # here, because it imports NKI

    return doublefloat_launch(_reference, launch, *args)


DOUBLEFLOAT_PROMISED = 2e-13
"""Bound of the relative L2 error of every transform on kernels of doublefloat."""


def _doublefloat_fft(x: Tensor) -> Spectrum:
    with LIBRARY.precision("doublefloat"):
        return fft(x)


DOUBLEFLOAT = Transform(
    "doublefloat_transform",
    _doublefloat_launch,
    doublefloat=True,
    dtypes=("float64", "float32"),
    unsuited=lambda x, is_complex, kind, sizes, norm: doublefloat_refusal(kind, tuple(sizes)),
    evidence=(
        Case(
            "doublefloat_transform",
            "FFT in pairs of float32",
            lambda: (random_tensor(3, 600, dtype=torch.complex128),),
            _doublefloat_fft,
            torch.fft.fft,
            "torch in float64",
            lambda x: DOUBLEFLOAT_PROMISED,
        ),
    ),
)
