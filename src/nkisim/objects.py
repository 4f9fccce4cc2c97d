"""``NKIObject``: base class of objects that kernels create and pass around."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any


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
