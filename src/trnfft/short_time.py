"""Short-time Fourier transforms, with the arguments of ``torch.stft`` and ``torch.istft``.

Three behaviours differ from torch's: the default window is a periodic Hann window, the inverse does
not raise if no window covers a sample, and by default it is complex for the bins of a complex
signal. Any number of leading batch dimensions is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from trnfft._complex.arguments import NATIVE
from trnfft._library import LIBRARY, kernels_wanted
from trnfft._paths.arguments import Norm
from trnfft._paths.empty import empty_like, is_empty
from trnfft._paths.interleaved import as_parts, as_spectrum, joined, native, result_like, split
from trnfft._paths.kinds import Opened, Spectrum, closed, closed_real, opened, rounded_native
from trnfft._paths.overlap_add import overlap_added
from trnfft._paths.precision import operand_dtype
from trnfft._planning.tables import frame_matrices, hann_window
from trnfft.complex_tensor import ComplexTensor
from trnfft.transforms import PROMISED, TRANSFORM, in_one, transform
from trnsci.core.arguments import whole
from trnsci.core.backend.derivatives import Gradients, Needed, each_entry
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import DeviceError, DTypeError, FlagError, ShapeError
from trnsci.core.examples import Case, example
from trnsci.core.numbers.conversions import dtype_name, real_dtype
from trnsci.core.testing import random_tensor

__all__ = ["istft", "stft"]

PadMode: TypeAlias = Literal["constant", "reflect", "replicate", "circular"]

_PAD_MODES = ("constant", "reflect", "replicate", "circular")


def stft(
    input: Spectrum,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Spectrum | None = None,
    center: bool = True,
    pad_mode: PadMode = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Spectrum:
    """Return the Fourier transforms of windowed frames of a signal, shape (..., bins, frames).

    Args:
        input: Signal of shape (..., samples), real or complex.
        n_fft: Number of points of a frame.
        hop_length: Number of samples between frames, by default ``n_fft // 4``.
        win_length: Number of samples of the window, by default ``n_fft``; a shorter window is
            centred in its frame.
        window: Window of shape (win_length,), by default a periodic Hann window.
        center: Whether frame t is centred at sample ``t * hop_length``; the signal is then padded
            by ``n_fft // 2`` samples at both ends. Otherwise frame t begins at that sample.
        pad_mode: Padding of the signal: ``"reflect"``, ``"constant"`` (zeros), ``"replicate"`` or
            ``"circular"``.
        normalized: Whether the result is scaled by ``n_fft ** -0.5``.
        onesided: Whether only the first ``n_fft // 2 + 1`` bins are returned; by default True if
            signal and window are real.
        return_complex: By default the tensor type of the result follows the input, as everywhere
            in this library. True returns a native complex tensor, False a real one with the parts
            in a last dimension of two.
        align_to_window: Without ``center``, whether a window shorter than its frame begins at the
            start of the signal; the frames then begin earlier by the same amount.

    Raises:
        ShapeError: The lengths are not compatible, or the signal is too short.
        DTypeError: ``onesided`` bins of a complex signal.
        FlagError: ``pad_mode`` is not one of these, or ``align_to_window`` is set with ``center``.
    """
    held = opened("stft", input)
    x = held.x
    n_fft, hop_length, win_length = _lengths("stft", n_fft, hop_length, win_length)
    window, complex_window = _window("stft", window, win_length, x)
    if onesided is None:
        onesided = not (x.is_complex() or complex_window)
    elif onesided and (x.is_complex() or complex_window):
        raise DTypeError("stft: onesided bins need a real signal and window, got a complex one")
    _check_signal(x, n_fft, center, pad_mode, align_to_window)
    if is_empty(x):
        pad = n_fft // 2 if center else 0
        shape = (
            n_fft // 2 + 1 if onesided else n_fft,
            1 + (x.shape[-1] + 2 * pad - n_fft) // hop_length,
        )
        return _returned(empty_like(x, (*x.shape[:-1], *shape), False), held, return_complex)
    flat = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    if align_to_window is None:
        if center:
            flat = torch.nn.functional.pad(flat, (n_fft // 2, n_fft // 2), mode=pad_mode)
        if win_length < n_fft:
            window = _centred(window, n_fft)
        choice = kernels_wanted()
        if choice is not None and choice.widening:
            # Products with the window are in float64 on torch, all frames are one launch.
            frames = flat.unfold(-1, n_fft, hop_length) * window
            kind = "rfft" if onesided else "fft"
            bins = transform(kind, frames, n_fft, -1, "ortho" if normalized else None).mT
        elif choice is not None and not complex_window:
            flags = window, hop_length, onesided, normalized
            bins = as_spectrum(SHORT_TIME.called(choice, as_parts(flat), flat.is_complex(), *flags))
            bins = bins.mT
        else:
            SHORT_TIME.refuse("the kernel takes a real window")
            function = torch.fft.rfft if onesided else torch.fft.fft
            frames = flat.unfold(-1, n_fft, hop_length) * window
            bins = function(frames, n_fft, -1, "ortho" if normalized else None).mT
    else:
        SHORT_TIME.refuse("the kernel has no option align_to_window")
        bins = torch.stft(
            flat,
            n_fft,
            hop_length,
            win_length,
            window,
            center,
            pad_mode,
            normalized,
            onesided,
            True,
            align_to_window=align_to_window,
        )
    if x.ndim != 2:
        bins = bins.reshape(*x.shape[:-1], *bins.shape[-2:])
    return _returned(bins, held, return_complex)


def istft(
    input: Spectrum,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Spectrum | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool | None = None,
) -> Spectrum:
    """Return the signal of shape (..., samples) whose :func:`stft` is closest to ``input``.

    Frames are transformed back, multiplied by the window, overlap-added, and divided by the sum of
    the squared windows. Samples where that sum is 1e-8 or less are the sums of the frames without
    window and division.

    Args:
        input: Bins of shape (..., bins, frames).
        n_fft: Number of points of a frame.
        hop_length: Number of samples between frames, by default ``n_fft // 4``.
        win_length: Number of samples of the window, by default ``n_fft``.
        window: The window of :func:`stft`, by default a periodic Hann window.
        center: Whether ``n_fft // 2`` samples are dropped at the beginning and, without ``length``,
            at the end.
        normalized: Whether the bins were scaled by ``n_fft ** -0.5``.
        onesided: Whether there are ``n_fft // 2 + 1`` bins instead of ``n_fft``; by default True
            if there are that many, unless ``return_complex``.
        length: Number of samples of the result, which is truncated or zero-padded to it.
        return_complex: Whether the signal is complex; it has the tensor type of ``input``. By
            default True if ``onesided`` is not given and there are ``n_fft`` bins, more than
            ``n_fft // 2 + 1``: :func:`stft` returns so many for a complex signal.

    Raises:
        ShapeError: The lengths or shapes are not compatible.
        DTypeError: ``input`` is real, or ``return_complex`` is set for ``onesided`` bins.
    """
    held = opened("istft", input)
    bins = held.x
    if not bins.is_complex():
        raise DTypeError(f"istft: input must be complex, got {bins.dtype}")
    n_fft, hop_length, win_length = _lengths("istft", n_fft, hop_length, win_length)
    window, complex_window = _window("istft", window, win_length, bins)
    both_sides = bins.ndim > 1 and bins.shape[-2] == n_fft > n_fft // 2 + 1
    if return_complex is None:
        return_complex = onesided is None and both_sides
    if onesided is None:
        onesided = not (return_complex or both_sides)
    if onesided and return_complex:
        raise DTypeError("istft: a complex signal has bins on both sides, got onesided=True")
    if complex_window and not return_complex:
        raise DTypeError("istft: a complex window needs return_complex=True")
    _check_bins(bins, n_fft, onesided)
    if length is not None and whole("istft", "length", length) < 0:
        raise ShapeError(f"istft: length must not be negative, got {length}")
    if is_empty(bins):
        pad = n_fft // 2 if center else 0
        samples = n_fft + hop_length * (bins.shape[-1] - 1) - 2 * pad if length is None else length
        signal = empty_like(bins, (*bins.shape[:-2], max(samples, 0)), not return_complex)
        return closed(signal, held) if return_complex else closed_real(signal, held)
    norm: Norm = "ortho" if normalized else "backward"
    frames = bins.mT
    if onesided:
        frames = transform("irfft", frames, n_fft, -1, norm)
    else:
        frames = transform("ifft", frames, n_fft, -1, norm)
        frames = frames if return_complex else frames.real
    window = _centred(window, n_fft)
    signal = overlap_added(frames, window, hop_length, n_fft // 2 if center else 0, length)
    return closed(signal, held) if return_complex else closed_real(signal, held)


def _centred(window: Tensor, n_fft: int) -> Tensor:
    """Return a window centred in a frame of zeros."""
    left = (n_fft - window.shape[0]) // 2
    return torch.nn.functional.pad(window, (left, n_fft - window.shape[0] - left))


def _returned(bins: Spectrum, held: Opened, return_complex: bool | None) -> Spectrum:
    """Return the bins in the form selected by ``return_complex``."""
    if return_complex is None:
        return closed(bins, held)
    if return_complex:
        native = bins.to_torch_complex() if isinstance(bins, ComplexTensor) else bins
        return rounded_native(native, held)
    return closed_real(as_parts(bins), held)


def _lengths(
    function: str, n_fft: int, hop_length: int | None, win_length: int | None
) -> tuple[int, int, int]:
    """Return n_fft, hop_length and win_length with defaults applied."""
    n_fft = whole(function, "n_fft", n_fft)
    if n_fft < 1:
        raise ShapeError(f"{function}: n_fft must be at least 1, got {n_fft}")
    # torch's default is zero for frames of fewer than four points, and it then raises.
    hop = max(n_fft // 4, 1) if hop_length is None else whole(function, "hop_length", hop_length)
    if hop < 1:
        raise ShapeError(f"{function}: hop_length must be at least 1, got {hop}")
    win = n_fft if win_length is None else whole(function, "win_length", win_length)
    if not 1 <= win <= n_fft:
        raise ShapeError(f"{function}: win_length must be from 1 to n_fft = {n_fft}, got {win}")
    return n_fft, hop, win


def _window(
    function: str, window: Spectrum | None, win_length: int, x: Tensor
) -> tuple[Tensor, bool]:
    """Return the window in the precision and on the device of ``x``, and whether it is complex."""
    real = real_dtype(x.dtype)
    if window is None:
        return hann_window(win_length, x), False
    native = opened(function, window, "window").x
    if native.shape != (win_length,):
        raise ShapeError(
            f"{function}: window must have shape ({win_length},), got {tuple(native.shape)}"
        )
    if native.device != x.device:
        raise DeviceError(
            f"{function}: input and window must be on one device, "
            f"got {x.device} and {native.device}"
        )
    is_complex = native.is_complex()
    return native.to(NATIVE[real] if is_complex else real), is_complex


def _check_signal(
    x: Tensor, n_fft: int, center: bool, pad_mode: str, align_to_window: bool | None
) -> None:
    if center and align_to_window is not None:
        raise FlagError("stft: align_to_window needs center=False")
    if center and pad_mode not in _PAD_MODES:
        raise FlagError(f"stft: pad_mode must be one of {', '.join(_PAD_MODES)}, got {pad_mode!r}")
    if x.ndim == 0:
        raise ShapeError("stft: input must have at least one dimension, got a 0-d tensor")
    samples, pad = x.shape[-1], n_fft // 2 if center else 0
    least = max(n_fft - 2 * pad, 1)
    if center and pad_mode == "reflect":
        least = pad + 1
    elif center and pad_mode == "circular":
        least = max(pad, 1)
    if samples < least:
        raise ShapeError(
            f"stft: input must have at least {least} samples for n_fft = {n_fft} with "
            f"center={center}, got {samples}"
        )


def _check_bins(bins: Tensor, n_fft: int, onesided: bool) -> None:
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if bins.ndim < 2 or bins.shape[-2] != wanted:
        raise ShapeError(
            f"istft: input must have shape (..., {wanted}, frames) for n_fft = {n_fft} and "
            f"onesided={onesided}, got {tuple(bins.shape)}"
        )
    if bins.shape[-1] == 0:
        raise ShapeError(f"istft: input must have frames, got shape {tuple(bins.shape)}")


# -- the operation of stft -------------------------------------------------------------------------


def _short_time(
    x: Tensor, is_complex: bool, window: Tensor, hop: int, onesided: bool, normalized: bool
) -> Tensor:
    signal = native(x, is_complex)
    n_fft = window.shape[0]
    bins = torch.stft(
        signal,
        n_fft,
        hop,
        window=window.to(signal.device),
        center=False,
        normalized=normalized,
        onesided=onesided,
        return_complex=True,
    )
    return result_like(bins.mT, x)


def _short_time_flops(x: Tensor, is_complex: bool, window: Tensor, hop: int, *rest: Any) -> float:
    n_fft = window.shape[0]
    frames = 1 + (x.shape[-2 if is_complex else -1] - n_fft) // hop
    return 5.0 * x.shape[0] * frames * n_fft * max(math.log2(n_fft), 1.0)


def _too_long(x: Tensor, is_complex: bool, window: Tensor, *rest: Any) -> str:
    from trnfft._kernels.dft import LARGEST_N  # imported here because it imports NKI

    n_fft = window.shape[0]
    return f"the kernel takes frames of up to {LARGEST_N} points" if n_fft > LARGEST_N else ""


def _short_time_backward(
    grad: Tensor,
    needed: Needed,
    x: Tensor,
    is_complex: bool,
    window: Tensor,
    hop: int,
    onesided: bool,
    normalized: bool,
) -> Gradients:
    """Return the overlap-added windowed frames of G for the signal, and the window's gradient."""
    n_fft = window.shape[0]
    norm = "ortho" if normalized else "forward"
    framed = TRANSFORM(grad.flatten(0, 1), True, "ifft", [n_fft], norm)
    framed = framed.reshape(*grad.shape[:2], *framed.shape[1:])  # batch, frames, points, parts
    framed = framed if is_complex else framed[..., 0]
    frames, pull, *_ = torch.func.vjp(lambda signal: signal.unfold(1, n_fft, hop).movedim(-1, 2), x)
    over_points = (-1, *(1,) * (framed.ndim - 3))
    for_x = pull(framed * window.reshape(over_points).to(framed.dtype))[0] if needed[0] else None
    for_window = None
    if needed[2]:
        products = (framed * frames).movedim(2, 0).flatten(1)
        for_window = products.sum(1).to(window.dtype)
    return for_x, None, for_window, None, None, None


def _short_time_batched(
    info: Any, in_dims: Sequence[Any], x: Tensor, is_complex: bool, window: Tensor, *flags: Any
) -> tuple[Tensor, int]:
    """Return the transform of all signals, in one launch if they share a window."""
    if in_dims[2] is None:
        return in_one(SHORT_TIME, in_dims[0], x, (is_complex, window, *flags))
    found: tuple[Tensor, int] = each_entry(
        SHORT_TIME, info.batch_size, in_dims, (x, is_complex, window, *flags)
    )
    return found


def _short_time_launch(
    launch: Launcher,
    x: Tensor,
    is_complex: bool,
    window: Tensor,
    hop: int,
    onesided: bool,
    normalized: bool,
) -> Tensor:
    from trnfft._kernels.parts_tiling import parts_tiling  # here, because they import NKI
    from trnfft._kernels.stft import frame_count
    from trnfft._kernels.stft import stft as kernel

    n_fft = window.shape[0]
    scale = n_fft**-0.5 if normalized else 1.0
    dtype = operand_dtype()
    first, second = frame_matrices(window, onesided, scale, launch.path, dtype)
    re, im = split(x.to(dtype), is_complex)
    frames = frame_count(x.shape[1], n_fft, hop)
    blocks = parts_tiling(
        x.shape[0] * frames,
        first.shape[1],
        n_fft,
        dtype_name(dtype),
        lefts=1 if im is None else 2,
        wide=dtype is torch.bfloat16,
    ).blocks
    return joined(launch(kernel, re, im, first, second, hop, blocks))


SHORT_TIME = Operation(
    LIBRARY,
    "short_time",
    reference=_short_time,
    launch=_short_time_launch,
    backward=_short_time_backward,
    linear=(0, 2),
    batched=_short_time_batched,
    flops=_short_time_flops,
    unsuited=_too_long,
    examples={
        "stft": lambda: example(
            random_tensor(64), 16, window=torch.hann_window(16), return_complex=True
        )
    },
    evidence=(
        Case(
            "stft",
            "short-time FFT",
            lambda: (random_tensor(2, 1000), torch.hann_window(200)),
            lambda x, window: stft(x, 200, 80, window=window, return_complex=True),
            lambda x, window: torch.stft(
                x.double(), 200, 80, window=window.double(), return_complex=True, pad_mode="reflect"
            ),
            "torch in float64",
            lambda x, window: PROMISED,
        ),
    ),
)
