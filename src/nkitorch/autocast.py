"""``torch.autocast("neuron")``: the operators that it casts, as it does on other accelerators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nkitorch.interop import without_autocast

_LOW = (
    "addbmm",
    "addmm",
    "addmv",
    "baddbmm",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "linear",
    "matmul",
    "mm",
    "mv",
    "scaled_dot_product_attention",
)
_SINGLE = (
    "binary_cross_entropy_with_logits",
    "cosine_similarity",
    "cross_entropy_loss",
    "cumsum",
    "exp",
    "group_norm",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "log",
    "log_softmax.int",
    "mse_loss",
    "nll_loss",
    "nll_loss_nd",
    "norm.Scalar",
    "pow.Tensor_Scalar",
    "prod",
    "rsqrt",
    "smooth_l1_loss",
    "softmax.int",
    "softplus",
    "sum",
    "sum.dim_IntList",
)


def operator_of(name: str, space: str = "aten") -> Any:
    """Return the operator of torch with a name such as ``"softmax.int"``."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload or "default")


def _casting(name: str, dtype: torch.dtype | None) -> Callable[..., Any]:
    """Return a kernel that casts float operands to ``dtype``, None for that of the context."""
    op = operator_of(name)

    def cast(value: Any, wanted: torch.dtype) -> Any:
        if isinstance(value, (list, tuple)):
            return [cast(part, wanted) for part in value]
        low = isinstance(value, Tensor) and value.is_floating_point() and value.dtype != wanted
        if not low or value.device.type != "neuron" or value.dtype == torch.float64:
            return value
        return value.to(wanted)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        wanted = dtype or torch.get_autocast_dtype("neuron")
        with without_autocast():
            args = tuple(cast(arg, wanted) for arg in args)
            return op(*args, **{key: cast(value, wanted) for key, value in kwargs.items()})

    return kernel


CASTS = {name: _casting(name, None) for name in _LOW} | {
    name: _casting(name, torch.float32) for name in _SINGLE
}
"""Kernels by name of the operator: products in the context's dtype, sums and losses in float32."""
