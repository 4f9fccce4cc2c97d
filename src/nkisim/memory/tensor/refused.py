"""Operators, functions of NumPy, and attributes of other releases, which tensors refuse."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, NoReturn

from nkisim import versions
from nkisim.diagnostics import (
    RECORDER,
    NkiCallError,
    Rule,
    decides,
    declare,
    flag,
    raised_at,
    user_place,
)
from nkisim.intents import CONDITION, METHODS, counterpart
from nkisim.removed import BAD_CALL, NkiRemovedError, refuse_name

MATRIX_OPERATOR = declare(
    "L026",
    "matrix-operator",
    "The operator @ is applied to a tensor.",
    "the compiler has no such operator",
    meaningless=True,
)
TENSOR_OPERATOR = declare(
    "L027",
    "tensor-operator",
    "A Python operator, or a function of NumPy, is applied to a tensor.",
    "the compiler supports operators on numbers only",
    meaningless=True,
)
_NO_READING_BACK = "return the tensor, or print it with nl.device_print"
_RESHAPE = "use .reshape(shape)"
_PATTERN = "look at .get_pattern()"
_METHODS = {
    # Beta 1
    "astype": "copy into a tile of the other dtype with nisa.tensor_copy",
    "broadcast_to": "use nl.broadcast_to(tensor, shape), or .ap with step 0",
    "expand_dims": _RESHAPE,
    # 0.4.0 only
    "device_value": _NO_READING_BACK,
    "is_identity": _PATTERN,
    "sim_value": _NO_READING_BACK,
    # 0.7.0 and later
    "data": "use the tensor itself",
    # 0.5.0 and later
    "broadcast": "use .ap with step 0 in that dimension",
    "expand_dim": _RESHAPE,
    "flatten_dims": _RESHAPE,
    "indirect": "use nisa.local_gather or nisa.nc_n_gather",
    "is_contiguous": _PATTERN,
    "is_indirect": _PATTERN,
    "permute": "use .ap with the [step, count] pairs in the other order",
    "rearrange": "use .reshape(shape), and .ap where the order changes",
    "reinterpret_cast": "use .view(dtype)",
    "reshape_dim": _RESHAPE,
    "select": "index with an integer",
    "slice": "index with a slice",
    "squeeze_dim": _RESHAPE,
    "vector_select": "use .ap(pattern, vector_offset=tile)",
}


_REMEDIES = {name: f"write {remedy}" for name, remedy in METHODS.items()} | _METHODS


def report_missing(error: AttributeError) -> None:
    """Flag an attribute that tensors do not have; ignore errors of other objects."""
    place, name = raised_at(error), error.name
    asked = isinstance(error.obj, NoOperators) and not isinstance(error, NkiRemovedError)
    if asked and place is not None and name is not None and not name.startswith("_"):
        refuse_name(BAD_CALL, "NkiTensor", name, method_remedy(name), place)


@functools.cache
def tensor_attributes(tensor: type[NoOperators], version: str) -> frozenset[str]:
    """Return the attributes that a class of tensors has in a version, without those that raise."""
    return frozenset(name for name in dir(tensor) if _is_there(tensor, name, version))


def _is_there(tensor: type[NoOperators], name: str, version: str) -> bool:
    found = inspect.getattr_static(tensor, name, None)
    if isinstance(found, ByVersion):
        return version in found.in_version
    return not isinstance(found, _NoMethod)


def method_remedy(name: str) -> str:
    """Return what replaces an attribute that tensors do not have."""
    return _REMEDIES.get(name, "write a function of nki.language, or an instruction with a dst=")


_COMPARISONS = ("<", "<=", ">", ">=")


def _operator(symbol: str, name: str) -> Callable[..., NoReturn]:
    """Return a method that raises for an operator; ``name`` is the function to call instead."""

    def refuse(self: Any, *others: Any) -> NoReturn:
        condition = symbol in _COMPARISONS and decides(user_place())
        fix = f"nl.{name}, or an instruction of nki.isa with a dst="
        if name in ("divide", "matmul", "mod"):  # no engine has it, or not in this operand order
            fix = counterpart(name)
        kinds = " and ".join(f"{type(operand).__name__!r}" for operand in (self, *others))
        _refuse_operator(
            MATRIX_OPERATOR if symbol == "@" else TENSOR_OPERATOR,
            f"unsupported operand type{'(s)' if others else ''} for {symbol}: {kinds}",
            self,
            CONDITION if condition else fix,
            condition=condition,
        )

    return refuse


def _refuse_operator(
    rule: Rule, message: str, tensor: Any, fix: str, *, condition: bool = False
) -> NoReturn:
    flag(
        rule,
        message,
        operand=tensor.name,
        seen=tensor.describe(),
        fix=fix,
        data={"condition": condition},
        error=NkiCallError,
    )
    raise AssertionError("unreachable: the rules of operators always raise")


def _refuse_number(tensor: Any, what: str, fix: str) -> NoReturn:
    message = f"tensor `{tensor.name}` is used as {what}"
    _refuse_operator(TENSOR_OPERATOR, message, tensor, fix.format(tensor.name))


class _NoMethod:
    """A method of other releases, or of other libraries' tensors: access raises.

    A ``__getattr__`` would cover all names, but slow down every attribute that tensors do have.
    """

    def __init__(self, name: str, remedy: str) -> None:
        self.name, self.remedy = name, remedy

    def __get__(self, tensor: Any, owner: type) -> NoReturn:
        if tensor is None or (RECORDER.get() is None and self.name not in _METHODS):
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}")
        refuse_name(BAD_CALL, "NkiTensor", self.name, self.remedy)


class ByVersion(_NoMethod):
    """A member of tensors that differs between versions; access returns that of the one in force.

    Attributes:
        in_version: The function or property of each version that has it.
    """

    def __init__(self, name: str, in_version: Mapping[str, Any]) -> None:
        super().__init__(name, method_remedy(name))
        self.in_version = in_version

    def __get__(self, tensor: Any, owner: type) -> Any:
        found = self.in_version.get(versions.in_force())
        return super().__get__(tensor, owner) if found is None else found.__get__(tensor, owner)


KERNEL_CODE: ContextVar[bool] = ContextVar("nkisim_kernel_code", default=False)
"""Whether the code that runs in this context is a kernel's, not that of an observer."""


class HiddenFromKernels(_NoMethod):
    """An attribute that raises in a kernel's own code, where only calls move data."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, method_remedy(name))
        self._path = path

    def __get__(self, tensor: Any, owner: type) -> Any:
        shown = tensor is not None and not KERNEL_CODE.get()
        return getattr(tensor, self._path) if shown else super().__get__(tensor, owner)


class NoOperators:
    """Base class of tensors: operators and functions of NumPy raise errors that name a fix."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        version = versions.in_force()
        return [n for n in super().__dir__() if _is_there(type(self), n, version)]

    __add__ = __radd__ = _operator("+", "add")
    __sub__ = __rsub__ = _operator("-", "subtract")
    __mul__ = __rmul__ = _operator("*", "multiply")
    __truediv__ = __rtruediv__ = _operator("/", "divide")
    __floordiv__ = __rfloordiv__ = _operator("//", "reciprocal, nl.multiply and nl.floor")
    __mod__ = __rmod__ = _operator("%", "mod")
    __pow__ = __rpow__ = _operator("**", "power")
    __matmul__ = __rmatmul__ = _operator("@", "matmul")
    __and__ = __rand__ = _operator("&", "bitwise_and")
    __or__ = __ror__ = _operator("|", "bitwise_or")
    __xor__ = __rxor__ = _operator("^", "bitwise_xor")
    __lshift__ = __rlshift__ = _operator("<<", "left_shift")
    __rshift__ = __rrshift__ = _operator(">>", "right_shift")
    __lt__ = _operator("<", "less")
    __le__ = _operator("<=", "less_equal")
    __gt__ = _operator(">", "greater")
    __ge__ = _operator(">=", "greater_equal")
    __neg__ = _operator("unary -", "negative")
    __pos__ = _operator("unary +", "copy")
    __invert__ = _operator("unary ~", "invert")
    __abs__ = _operator("abs()", "abs")

    def __array_ufunc__(self, function: Any, *_: Any, **__: Any) -> NoReturn:
        name, general = function.__name__, "a function of nki.language, or an instruction"
        _refuse_operator(
            TENSOR_OPERATOR,
            f"unsupported operand type for np.{name}: {type(self).__name__!r}",
            self,
            counterpart(name) or f"{general} of nki.isa with a dst=",
        )

    __array_function__ = __array_ufunc__

    def __index__(self) -> int:
        _refuse_number(self, "an integer", "range({}.shape[0]) for a loop over its rows")

    def __len__(self) -> int:
        _refuse_number(self, "a sequence", "write {}.shape[0]")

    def __int__(self) -> int:
        _refuse_number(self, "a number", "nisa.register_load, for a number that decides")

    def __float__(self) -> float:
        fix = "for a function of math write that of nki.language, as nl.exp for math.exp; "
        _refuse_number(self, "a number", fix + "for a number that decides, nisa.register_load")

    def __iter__(self) -> Any:
        _refuse_number(self, "a sequence", "loop over range({}.shape[0]) and index")


for _name, _remedy in _REMEDIES.items():
    setattr(NoOperators, _name, _NoMethod(_name, _remedy))
