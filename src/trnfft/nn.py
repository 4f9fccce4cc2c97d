"""Layers for complex-valued networks, with real parameters for the two parts.

Each layer takes a :class:`~trnfft.ComplexTensor`, a native complex tensor or a real tensor. It
returns a native complex tensor for a native complex input, and a ComplexTensor otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trnfft._library import kernels_wanted
from trnfft.complex_tensor import ComplexTensor
from trnfft.nki.dispatch import linear
from trnsci.core.errors import DTypeError, FlagError, ShapeError

__all__ = ["ComplexBatchNorm1d", "ComplexConv1d", "ComplexLinear", "ComplexModReLU"]

# Up to this number of rows, four real products are faster on a CPU than one complex product:
# joining the parts of the weights takes as long as ten rows of the product. On a GPU one complex
# product is always faster, because it has fewer launches.
_FEW_ROWS = 8

# Magnitudes below this value are not divided by.
SMALLEST = 1e-8


class _ComplexLayer(nn.Module):
    """Base class of layers: converts the input to a ComplexTensor and the result back."""

    def forward(self, x: ComplexTensor | Tensor) -> ComplexTensor | Tensor:
        """Return the layer's output; native complex for a native complex input."""
        if not isinstance(x, (ComplexTensor, Tensor)):
            raise DTypeError(f"{self._name}: input must be a tensor, got {type(x).__name__}")
        z = x if isinstance(x, ComplexTensor) else ComplexTensor(x)
        dtype = self._parameter_dtype()
        if dtype is not None and z.part_dtype != dtype:
            raise DTypeError(
                f"{self._name}: input must have parts of the parameters' dtype {dtype}, got "
                f"{z.part_dtype}"
            )
        y = self._compute(z)
        return y.to_torch_complex() if isinstance(x, Tensor) and x.is_complex() else y

    def _compute(self, z: ComplexTensor) -> ComplexTensor:
        raise NotImplementedError

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _parameter_dtype(self) -> torch.dtype | None:
        return next((parameter.dtype for parameter in self.parameters()), None)

    def _check_size(self, z: ComplexTensor, dim: int, size: int, what: str) -> None:
        if not -z.ndim <= dim < z.ndim or z.shape[dim] != size:
            raise ShapeError(
                f"{self._name}: input must have {size} {what} in dimension {dim}, got shape "
                f"{tuple(z.shape)}"
            )

    def _add_biases(self, size: int, bias: bool, **factory: Any) -> None:
        """Register ``bias_re`` and ``bias_im`` as zeros, or as None."""
        for name in ("bias_re", "bias_im"):
            parameter = nn.Parameter(torch.zeros(size, **factory)) if bias else None
            self.register_parameter(name, parameter)


class ComplexLinear(_ComplexLayer):
    """``y = x W^T + b`` over the last dimension, with ``W = W_re + i W_im``.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Size of the last dimension of the output.
        bias: Whether ``b``, initially zero, is added.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    The state has ``W_re.weight`` and ``W_im.weight`` of shape (out, in), initially uniform as in
    ``torch.nn.Linear``, and ``bias_re`` and ``bias_im``.

    Example:
        >>> layer = ComplexLinear(257, 64)
        >>> layer(torch.randn(8, 100, 257, dtype=torch.complex64)).shape
        torch.Size([8, 100, 64])
    """

    bias_re: nn.Parameter | None
    bias_im: nn.Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.W_re = nn.Linear(in_features, out_features, bias=False, **factory)
        self.W_im = nn.Linear(in_features, out_features, bias=False, **factory)
        self._add_biases(out_features, bias, **factory)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights and set the biases to zero."""
        for part in (self.W_re, self.W_im):
            nn.init.kaiming_uniform_(part.weight, a=math.sqrt(5))
        for bias in (self.bias_re, self.bias_im):
            if bias is not None:
                nn.init.zeros_(bias)

    def _compute(self, z: ComplexTensor) -> ComplexTensor:
        self._check_size(z, -1, self.in_features, "features")
        w_re, w_im, b_re, b_im = self.W_re.weight, self.W_im.weight, self.bias_re, self.bias_im
        if kernels_wanted():
            added = None if b_re is None or b_im is None else ComplexTensor(b_re, b_im)
            return ComplexTensor(linear(z, ComplexTensor(w_re, w_im), added))
        many = z.numel() > _FEW_ROWS * self.in_features
        if z.is_native and (many or z.device.type != "cpu"):
            bias = None if b_re is None or b_im is None else torch.complex(b_re, b_im)
            native = functional.linear(z.to_torch_complex(), torch.complex(w_re, w_im), bias)
            return ComplexTensor.from_torch_complex(native)
        # Both parts in one batch, so that each part of the weights is read once.
        if z.is_native:
            both = torch.view_as_real(z.to_torch_complex()).movedim(-1, 0).contiguous()
        else:
            both = torch.stack((z.real, z.imag))
        re_re, im_re = functional.linear(both, w_re).unbind(0)
        re_im, im_im = functional.linear(both, w_im).unbind(0)
        re, im = re_re - im_im, im_re + re_im
        if b_re is not None and b_im is not None:
            re, im = re + b_re, im + b_im
        return ComplexTensor(torch.complex(re, im)) if z.is_native else ComplexTensor(re, im)

    def _parameter_dtype(self) -> torch.dtype:
        return self.W_re.weight.dtype

    def extra_repr(self) -> str:
        """Return the sizes for ``repr``."""
        bias = self.bias_re is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"


class ComplexConv1d(_ComplexLayer):
    """A complex convolution over (batch, channels, length) or (channels, length).

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Length of the filters.
        stride: Stride of the filters.
        padding: Number of zeros on either side, or ``"same"`` or ``"valid"``.
        bias: Whether a bias per channel, initially zero, is added.
        dilation: Spacing of the filters' taps.
        groups: Number of groups of channels, each convolved separately.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    The state has ``conv_re.weight`` and ``conv_im.weight`` of shape (out, in / groups, kernel),
    initially uniform as in ``torch.nn.Conv1d``, and ``bias_re`` and ``bias_im``.
    """

    bias_re: nn.Parameter | None
    bias_im: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int | str = 0,
        bias: bool = True,
        dilation: int = 1,
        groups: int = 1,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        options = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        self.conv_re = nn.Conv1d(*options, bias=False, **factory)
        self.conv_im = nn.Conv1d(*options, bias=False, **factory)
        self._add_biases(out_channels, bias, **factory)

    def _compute(self, z: ComplexTensor) -> ComplexTensor:
        if z.ndim not in (2, 3):
            raise ShapeError(
                f"{self._name}: input must be (batch, channels, length) or (channels, length), got "
                f"shape {tuple(z.shape)}"
            )
        self._check_size(z, -2, self.in_channels, "channels")
        batched = z if z.ndim == 3 else z.unsqueeze(0)
        # Both parts in one batch: two convolutions instead of four.
        both = torch.cat([batched.real, batched.imag])
        (re_re, im_re), (re_im, im_im) = (
            convolve(both).chunk(2) for convolve in (self.conv_re, self.conv_im)
        )
        re, im = re_re - im_im, im_re + re_im
        if self.bias_re is not None and self.bias_im is not None:
            re, im = re + self.bias_re[:, None], im + self.bias_im[:, None]
        y = ComplexTensor(re, im)
        return y if z.ndim == 3 else y.squeeze(0)


class ComplexBatchNorm1d(_ComplexLayer):
    """Batch normalisation of the real and the imaginary part separately.

    Args:
        num_features: Size of dimension 1 of the input, (batch, features) or
            (batch, features, length).
        eps: Added to the variances.
        momentum: Weight of a batch in the running statistics; None for a cumulative average.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    The state consists of two ``torch.nn.BatchNorm1d``, ``bn_re`` and ``bn_im``. The covariance of
    the parts is not removed.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        options: dict[str, Any] = {"momentum": momentum, "device": device, "dtype": dtype}
        self.bn_re = nn.BatchNorm1d(num_features, eps, **options)
        self.bn_im = nn.BatchNorm1d(num_features, eps, **options)

    def _compute(self, z: ComplexTensor) -> ComplexTensor:
        if z.ndim not in (2, 3):
            raise ShapeError(
                f"{self._name}: input must be (batch, features) or (batch, features, length), got "
                f"shape {tuple(z.shape)}"
            )
        self._check_size(z, 1, self.num_features, "features")
        return ComplexTensor(self.bn_re(z.real), self.bn_im(z.imag))


class ComplexModReLU(_ComplexLayer):
    """``relu(|z| + b) z / |z|``: shifts the magnitudes, preserves the phases.

    Args:
        num_features: Number of biases.
        channel_dim: Dimension of the input that the biases apply to; 1 after a convolution.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    The state has ``bias``, initially zero. Zero stays zero, and the gradient there is zero.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = -1,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(channel_dim, int):
            raise FlagError(f"ComplexModReLU: channel_dim must be an integer, got {channel_dim!r}")
        self.num_features, self.channel_dim = num_features, channel_dim
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))

    def _compute(self, z: ComplexTensor) -> ComplexTensor:
        self._check_size(z, self.channel_dim, self.num_features, "features")
        shape = [1] * z.ndim
        shape[self.channel_dim] = self.num_features
        size = z.abs()
        # SMALLEST underflows in float16.
        divisor = size.clamp_min(max(SMALLEST, torch.finfo(z.part_dtype).tiny))
        # With a positive bias the slope near zero is bias / SMALLEST, which makes training on
        # signals with silence diverge. The gradient at zero is therefore set to zero.
        scale = (torch.relu(size + self.bias.reshape(shape)) / divisor).masked_fill(size == 0, 0)
        y = z * scale
        assert isinstance(y, ComplexTensor)
        return y

    def extra_repr(self) -> str:
        """Return the size and the dimension for ``repr``."""
        return f"num_features={self.num_features}, channel_dim={self.channel_dim}"
