"""Registration of ComplexTensor with torch.

It is registered as a pytree node for ``vmap``, ``torch.compile`` and ``torch.export``, as a safe
global for ``torch.load`` with ``weights_only``, and with ``default_collate`` for data loaders.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from trnfft.complex_tensor import ComplexTensor, rebuilt
from trnsci.core.interop import pytree, register_collate

_NATIVE, _PARTS = "native", "parts"
_KEYS = {_NATIVE: ("native",), _PARTS: ("real", "imag")}


def register() -> None:
    """Register ComplexTensor with torch; call it once."""
    pytree().register_pytree_node(
        ComplexTensor,
        flattened,
        unflattened,
        serialized_type_name="trnfft.ComplexTensor",
        flatten_with_keys_fn=_flattened_with_keys,
    )
    torch.serialization.add_safe_globals([ComplexTensor, rebuilt])
    register_collate(ComplexTensor, collated)


def flattened(z: ComplexTensor) -> tuple[list[Any], str]:
    """Return the stored tensors and the name of the form."""
    return list(z._tensors()), _NATIVE if z.is_native else _PARTS


def unflattened(held: Iterable[Any], form: str) -> ComplexTensor:
    """Return the ComplexTensor of these leaves, which a transform may have replaced."""
    return rebuilt(*held)


def _flattened_with_keys(z: ComplexTensor) -> tuple[list[tuple[Any, Any]], str]:
    held, form = flattened(z)
    key = pytree().GetAttrKey
    keys = (key(name) for name in _KEYS[form])
    return list(zip(keys, held, strict=True)), form


def collated(batch: Any, *, collate_fn_map: Any = None) -> ComplexTensor:
    """Return the stacked entries of a batch; called by torch's ``default_collate``."""
    return torch.stack(list(batch))  # type: ignore[return-value]
