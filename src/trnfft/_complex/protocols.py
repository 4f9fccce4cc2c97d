"""What torch must know about a ComplexTensor to take it where it takes tensors.

As a node of trees of tensors it goes through ``vmap``, ``torch.compile`` and ``torch.export``; as a
safe global through ``torch.load`` with ``weights_only``; as an entry of a batch through the
``default_collate`` of data loaders.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from trnfft.complex_tensor import ComplexTensor, rebuilt
from trnsci.core.interop import pytree, register_collate

__all__ = ["register"]

_NATIVE, _PARTS = "native", "parts"
_KEYS = {_NATIVE: ("native",), _PARTS: ("real", "imag")}


def register() -> None:
    """Register ComplexTensor with torch; to be called once."""
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
    """Return the tensors that are held, and in which form."""
    return list(z._tensors()), _NATIVE if z.is_native else _PARTS


def unflattened(held: Iterable[Any], form: str) -> ComplexTensor:
    """Return the ComplexTensor again; a transform may put anything in the place of tensors."""
    return rebuilt(*held)


def _flattened_with_keys(z: ComplexTensor) -> tuple[list[tuple[Any, Any]], str]:
    held, form = flattened(z)
    key = pytree().GetAttrKey
    keys = (key(name) for name in _KEYS[form])
    return list(zip(keys, held, strict=True)), form


def collated(batch: Any, *, collate_fn_map: Any = None) -> ComplexTensor:
    """Return the entries of a batch stacked; called by torch's ``default_collate``."""
    return torch.stack(list(batch))  # type: ignore[return-value]
