"""The waist of a kernel: what it can ask of NKI, as a recorder sees it and a replay repeats it.

Functions of NKI pass ``nkisim.spec.signatures.publish``. Beside them, kernels use methods of
tensors, grids, scalars, registers and handles, which ``METHODS`` lists. Methods that only describe
an object have no entry: what they return is a value that a program holds.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import FunctionType
from typing import Any, Protocol

from nkisim.isa.registers.scalar import NkiScalar
from nkisim.isa.registers.virtual import VirtualRegister
from nkisim.language.grids import NkiGrid
from nkisim.machine.handles import NkiInstruction
from nkisim.memory import NkiTensor
from nkisim.memory.tensor.refused import ByVersion
from nkisim.spec.signatures import intercepted

OBJECTS: tuple[type[Any], ...] = (NkiTensor, VirtualRegister, NkiScalar, NkiInstruction, NkiGrid)
"""Classes of the objects that a kernel holds between two calls."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


METHODS: Mapping[str, tuple[type, tuple[str, ...]]] = {
    "tensor": (
        NkiTensor,
        _names(
            "slice select vector_select permute broadcast expand_dim squeeze_dim reshape_dim "
            "flatten_dims rearrange reshape view reinterpret_cast ap indirect __getitem__ "
            "__setitem__ __bool__"
        ),
    ),
    "grid": (NkiGrid, _names("__getitem__ data")),
    "scalar": (
        NkiScalar,
        _names(
            "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __neg__ "
            "__lt__ __le__ __gt__ __ge__ __eq__ __ne__"
        ),
    ),
    "register": (VirtualRegister, _names("copy")),
    "handle": (NkiInstruction, _names("depends_on")),
}
"""Classes with the methods and properties that a program holds, by the class's name in it."""


class Recorder(Protocol):
    """Receives what one core of a kernel asks of NKI."""

    def is_outermost(self) -> bool:
        """Return whether the kernel's own code is running."""

    def knows(self, value: Any) -> bool:
        """Return whether an object is one of the tape's."""

    def call(
        self, name: str, function: FunctionType, call: Callable[..., Any], given: dict[str, Any]
    ) -> Any:
        """Record a call of a public function and return its result."""

    def method(
        self, name: str, call: Callable[..., Any], owner: Any, args: Any, kwargs: Any
    ) -> Any:
        """Record a call of a method and return its result."""

    def tested(self, register: VirtualRegister, test: Callable[..., bool]) -> bool:
        """Record a test of a register and return its result."""

    def needs_value(self, what: str) -> None:
        """Refuse a kernel whose code reads what only the device knows."""


TAPE: ContextVar[Recorder | None] = ContextVar("nkisim_tape", default=None)
"""The recorder of the core whose kernel runs in this context."""

_LOCK = threading.Lock()
_OPEN = contextlib.ExitStack()
_count = 0


@contextlib.contextmanager
def observed() -> Iterator[None]:
    """Pass calls of public functions to ``TAPE`` inside this context, in all threads.

    It replaces functions of nkisim for its duration, so that other runs pay nothing.
    """
    global _count
    with _LOCK:
        _count += 1
        if _count == 1:
            _OPEN.enter_context(intercepted(_function))
    try:
        yield
    finally:
        with _LOCK:
            _count -= 1
            if _count == 0:
                _OPEN.close()


def observe(value: Any) -> None:
    """Pass what a kernel asks of an object to ``TAPE`` from now on.

    The object gets a class with the same name. The classes of nkisim never change: Python looks up
    the members of a class more slowly once it has changed often, and may then find former ones.
    """
    owner = type(value)
    if owner not in _OBSERVED:
        made = _observed_class(owner)
        _OBSERVED[owner] = _OBSERVED[made] = made
    value.__class__ = _OBSERVED[owner]


_OBSERVED: dict[type, type] = {}
"""For each class of objects that were observed, the class that they have then."""


def _recorder() -> Recorder | None:
    """Return the recorder if the kernel's own code is running, else None."""
    tape = TAPE.get()
    return tape if tape is not None and tape.is_outermost() else None


def _function(
    name: str, function: FunctionType, call: Callable[..., Any], given: dict[str, Any]
) -> Any:
    tape = _recorder()
    return call(**given) if tape is None else tape.call(name, function, call, given)


def _method(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        tape = _recorder()
        if tape is None or not tape.knows(self):
            return call(self, *args, **kwargs)
        return tape.method(name, call, self, args, kwargs)

    return method


def _test(test: Callable[..., bool]) -> Callable[..., bool]:
    def tested(self: VirtualRegister) -> bool:
        tape = _recorder()
        return test(self) if tape is None else tape.tested(self, test)

    return tested


def _index(read: Callable[..., int]) -> Callable[..., int]:
    def index(self: VirtualRegister) -> int:
        tape = _recorder()
        if tape is not None:
            self.refuse_index()
            if self.loaded:
                tape.needs_value("a register")
        return read(self)

    return index


def _data(read: Callable[..., Any]) -> Callable[..., Any]:
    def data(self: NkiTensor) -> Any:
        tape = _recorder()
        if tape is not None:
            tape.needs_value("the data of a tensor")
        return read(self)

    return data


def published_method(name: str) -> tuple[type, str] | None:
    """Return the class and the attribute of a method in a program; None if there is none."""
    kind, _, attribute = name.partition(".")
    owner, names = METHODS.get(kind, (object, ()))
    return (owner, attribute) if attribute in names else None


def _observed_class(owner: type) -> type:
    """Return a class whose objects pass the uses of their members to ``TAPE``."""
    (kind,) = (kind for kind, (base, _) in METHODS.items() if issubclass(owner, base))
    base, names = METHODS[kind]
    observers: dict[str, Callable[[Any], Any]]
    observers = {name: functools.partial(_method, f"{kind}.{name}") for name in names}
    found: dict[str, Any] = {"__slots__": (), "__hash__": owner.__hash__}
    found |= {"__module__": owner.__module__, "__qualname__": owner.__qualname__}
    for name, made in (observers | _READS.get(base, {})).items():
        member = next(vars(one)[name] for one in owner.__mro__ if name in vars(one))
        if isinstance(member, ByVersion):
            in_version = {v: _wrapped(one, made) for v, one in member.in_version.items()}
            found[name] = ByVersion(name, in_version)
        else:
            found[name] = _wrapped(member, made)
    return type(owner.__name__, (owner,), found)


def _wrapped(found: Any, made: Callable[[Any], Any]) -> Any:
    if isinstance(found, property):
        return property(functools.wraps(found.fget)(made(found.fget)))  # type: ignore[arg-type]
    return functools.wraps(found)(made(found))


_READS: dict[type, dict[str, Callable[[Any], Any]]] = {
    VirtualRegister: {"__bool__": _test, "__index__": _index},
    NkiTensor: {"sim_value": _data},
}
"""Members that tell the kernel's code what only the device knows, with their observers."""
