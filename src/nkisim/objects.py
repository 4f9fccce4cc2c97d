"""``NKIObject``, the base class of kernels' objects, and traversal of containers and objects.

Kernels take and return arrays inside of tuples, lists, dicts and objects, nested to any depth.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np


class NKIObject:
    """Base class of kernel-side objects, constructed as by the NKI compiler.

    Every name that the class annotates or assigns, unless as a ``ClassVar``, is a field with its
    assigned value, or None, as default. Fields are filled from positional and keyword arguments in
    order of declaration, then ``__post_init__`` runs. This holds with and without ``@dataclass``;
    only an ``__init__`` written out in the class replaces it.
    """

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" not in cls.__dict__ and _inherited_init(cls) is NKIObject.__init__:
            # @dataclass does not replace an initialiser that the class itself defines.
            cls.__init__ = NKIObject.__init__  # type: ignore[method-assign]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = _fields(type(self))
        names = list(fields)
        if len(args) > len(names):
            raise TypeError(
                f"{type(self).__name__}() takes at most {len(names)} arguments ({len(args)} given)"
            )
        values = dict(fields)
        values.update(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in values:
                raise TypeError(
                    f"{type(self).__name__}() has no field {name!r}; fields: "
                    f"{', '.join(names) or 'none'}"
                )
            values[name] = value
        for name, value in values.items():
            object.__setattr__(self, name, value)  # frozen dataclasses derive from NKIObject too
        post_init = getattr(self, "__post_init__", None)
        if post_init is not None:
            post_init()


def _inherited_init(cls: type) -> Any:
    return next(base.__dict__["__init__"] for base in cls.__mro__ if "__init__" in base.__dict__)


def _fields(cls: type) -> dict[str, Any]:
    """Return field names and defaults of ``cls``, base classes first."""
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base in (object, NKIObject):
            continue
        annotated = inspect.get_annotations(base)
        for name in [*annotated, *base.__dict__]:
            if name.startswith("__") or (name in fields and name not in base.__dict__):
                continue
            if "ClassVar" in str(annotated.get(name)):
                continue
            value = base.__dict__.get(name)
            if name in annotated or not _is_behaviour(value):
                fields[name] = _default(base, name, value)
    return fields


def _is_behaviour(value: object) -> bool:
    return callable(value) or isinstance(value, (property, staticmethod, classmethod))


def _default(cls: type, name: str, value: object) -> object:
    """Return the default of a field; a dataclass field's factory is called for each object."""
    described = cls.__dict__.get("__dataclass_fields__", {}).get(name)
    if described is None:
        return value
    if described.default_factory is not dataclasses.MISSING:
        return described.default_factory()
    return None if described.default is dataclasses.MISSING else described.default


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
