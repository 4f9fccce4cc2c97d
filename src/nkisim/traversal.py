"""Traversal of containers and objects, and copies of them with converted leaves.

Kernels take and return arrays inside of tuples, lists, dicts and objects, nested to any depth.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from nkisim.objects import NKIObject

_WHOLE = frozenset({np.ndarray, bool, int, float, str, type(None)})
"""Common types of arguments without parts."""


def parts_of(value: Any) -> list[tuple[str, Any]]:
    """Return the parts of a container or an object, each with its path from ``value``.

    Empty for everything that has no parts, enum members and classes among them.
    """
    if isinstance(value, Enum):
        return []
    if isinstance(value, dict):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", part) for name, part in zip(value._fields, value, strict=True)]
    if isinstance(value, (tuple, list)):
        return [(f"[{i}]", part) for i, part in enumerate(value)]
    return [(f".{name}", getattr(value, name)) for name in _held(value)]


def rebuilt(
    value: Any,
    convert: Callable[[str, Any], Any],
    name: str = "",
    memo: dict[int, Any] | None = None,
) -> Any:
    """Return a copy of ``value`` with ``convert(name, part)`` in place of every leaf.

    Lists, dicts and objects are new, and shared ones stay shared; tuples whose parts do not change
    are reused.

    Args:
        value: Anything.
        convert: Called with the path of a leaf, starting with ``name``, and the leaf.
        name: Name of ``value``.
        memo: Copies by the ``id`` of the original; pass one to several calls to share copies.
    """
    if type(value) in _WHOLE:
        return convert(name, value)
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)]
    parts = parts_of(value)
    if not parts and not isinstance(value, (list, dict)):
        return convert(name, value)
    if isinstance(value, tuple):
        new = [rebuilt(part, convert, name + way, memo) for way, part in parts]
        same = all(old is part for old, part in zip(value, new, strict=True))
        return value if same else getattr(value, "_make", type(value))(new)
    twin = memo[id(value)] = copy.copy(value)
    is_object = not isinstance(value, (list, dict))
    keys = _held(value) if is_object else value if isinstance(value, dict) else range(len(value))
    for key, (way, part) in zip(keys, parts, strict=True):
        made = rebuilt(part, convert, name + way, memo)
        if is_object:
            object.__setattr__(twin, key, made)  # works for frozen dataclasses
        else:
            twin[key] = made
    return twin


def _held(value: Any) -> list[str]:
    """Return the names of the fields that are set on an object, those in slots first."""
    described = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if not described and not isinstance(value, NKIObject):
        return []
    names = [field.name for field in dataclasses.fields(value)] if described else []
    return [
        n for n in dict.fromkeys([*names, *getattr(value, "__dict__", ())]) if hasattr(value, n)
    ]
