"""The categorical distribution: indices with given probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Size, real
from trnrand._calls.calls import Shape, distribution
from trnrand._calls.requests import prepared
from trnrand._sampling.samplers import sampled
from trnrand._sampling.weights import INDICES, check_holds, of_rows, of_weights, scaled_weights
from trnrand.errors import FlagError, ParameterError, ShapeError
from trnrand.generator import Generator

__all__ = ["categorical"]


def _rows(size: Shape, p: Tensor | None = None, logits: Tensor | None = None, **_: object) -> Shape:
    weights = logits if p is None else p
    return size if size or weights is None else weights.shape[:-1]


@distribution(shape=_rows, dtype=torch.int64)
def categorical(
    *size: Size,
    p: Tensor | None = None,
    logits: Tensor | None = None,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return indices of categories, int64 by default.

    The last dimension of ``p`` holds the weights of the categories, which need not sum to 1;
    ``logits``, given instead, their logarithms. The other dimensions broadcast to the size, one row
    of weights for each sample. ``multinomial`` counts the categories of n trials.

    Raises:
        ParameterError: Not exactly one of ``p`` and ``logits`` is given, weights are negative or
            all 0, or another argument is outside of its range.
    """
    weights = _weights(p, logits)
    rows = {"p" if logits is None else "logits": weights[..., 0]}
    request = prepared(
        "categorical", size, dtype, generator, device, out, total, rows, INDICES, torch.int64
    )
    check_holds("categorical", "the last category", weights.shape[-1] - 1, request.dtype)
    table = weights.reshape(-1, weights.shape[-1]).to(request.device)
    if len(table) == 1:
        return sampled(request, of_weights(table[0]))
    number = torch.arange(len(table)).view(weights.shape[:-1])
    return sampled(request, of_rows(table), number.expand(request.shape))


def _weights(p: Tensor | None, logits: Tensor | None) -> Tensor:
    if (p is None) == (logits is None):
        number = "neither" if p is None else "both"
        raise FlagError(f"categorical: give either p or logits, got {number}")
    if p is not None:
        weights = real("categorical", "p", p, least=0.0)
        if isinstance(weights, Tensor):
            return scaled_weights("categorical", weights)
    elif logits is not None:
        # Logits of -inf (weight 0) are valid; +inf becomes NaN below.
        powers = real("categorical", "logits", logits, finite=False)
        if isinstance(powers, Tensor) and powers.shape[-1]:
            weights = torch.exp(powers - powers.amax(-1, keepdim=True))
            if bool(weights.isnan().any()):
                raise ParameterError("categorical: logits must have a finite largest in each row")
            return weights
    name = "p" if logits is None else "logits"
    raise ShapeError(f"categorical: {name} must have shape (..., k) with k > 0")
