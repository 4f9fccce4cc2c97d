"""Names that NKI 0.3.0 does not have: names of other releases, tensor operators."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import ModuleType
from typing import Any, NoReturn

from nkisim import versions
from nkisim.diagnostics import (
    RECORDER,
    NkiCallError,
    NkiValidationError,
    Place,
    Rule,
    Severity,
    decides,
    declare,
    flag,
    hide_own_frames,
    raised_at,
    user_place,
)
from nkisim.intents import (
    CONDITION,
    DTYPE_NAMES,
    METHODS,
    UNDECIDED,
    counterpart,
    intent_of,
    nearest,
)

BAD_CALL = declare(
    "A025",
    "bad-call",
    "A call does not fit the signature in its NKI version, names a function or a method that the "
    "version does not have, passes something that is no tensor where one is needed, or an argument "
    "that a method of tensors cannot take.",
    "the front end refuses the call",
    meaningless=True,
)


def refuse_argument(
    name: str,
    argument: str,
    value: Any,
    allowed: str,
    fix: str,
    *,
    wanted: str = "",
    got: str = "",
    on_device: bool = False,
) -> NoReturn:
    """Raise A025: an argument is not of a type that a function takes.

    Args:
        name: The function.
        argument: The parameter.
        value: What was passed.
        allowed: The accepted values.
        fix: What to do.
        wanted: What the argument must be, in the message; ``allowed`` unless given.
        got: What it is, in the message; its type unless given.
        on_device: Whether it must be a tensor or a register.
    """
    flag(
        BAD_CALL,
        f"{name}: {argument} must be {wanted or allowed}, got {got or type(value).__name__}",
        instruction=name,
        operand=argument,
        seen=repr(value)[:80],
        allowed=allowed,
        fix=fix,
        error=NkiCallError,
        data={"is_none": value is None} if on_device else None,
    )
    raise AssertionError("unreachable: A025 always raises")


REMOVED_INDEXING = declare(
    "A029",
    "removed-indexing",
    "A kernel uses index tensors or block dimensions of Beta 1.",
    "0.3.0 indexes with slices and access patterns only",
    meaningless=True,
)
REMOVED_ENTRY_POINT = declare(
    "A030",
    "removed-entry-point",
    "A function of an earlier release is used that 0.3.0 does not have.",
    "the name does not exist any more",
    meaningless=True,
)
REMOVED_ALLOCATOR = declare(
    "A031",
    "removed-allocator",
    "Allocation decorators or allocators of nki.compiler are used.",
    "0.3.0 places tensors with address=",
    meaningless=True,
)
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
DYNAMIC_COPY = declare(
    "A021",
    "dynamic-copy",
    "tensor_copy_dynamic_src or tensor_copy_dynamic_dst is used.",
    "both are deprecated in NKI 0.3.0 and gone in 0.4.0",
    severity="warning",
)

_SLICES = "use slices, nl.ds or .ap(...)"
_RULES = {
    "nki.language": {
        "arange": (REMOVED_INDEXING, _SLICES),
        "mgrid": (REMOVED_INDEXING, _SLICES),
        "par_dim": (REMOVED_INDEXING, "the first dimension is the partition dimension"),
        "atomic_rmw": (REMOVED_ENTRY_POINT, "use nisa.dma_compute"),
        "loop_reduce": (REMOVED_ENTRY_POINT, "accumulate with nisa.tensor_tensor in a loop"),
        "spmd_dim": (REMOVED_ENTRY_POINT, "launch with kernel[lnc]"),
        "nc": (REMOVED_ENTRY_POINT, "launch with kernel[lnc]"),
        "min_max": (REMOVED_ENTRY_POINT, "use nl.max and nl.min"),
    },
    "nki.isa": {
        "tensor_copy_dynamic_src": (DYNAMIC_COPY, "nisa.tensor_copy with .ap(scalar_offset=...)"),
        "tensor_copy_dynamic_dst": (DYNAMIC_COPY, "nisa.tensor_copy with .ap(scalar_offset=...)"),
    },
    "nki": {
        "baremetal": (REMOVED_ENTRY_POINT, "use @nki.jit, or nki.simulate without a device"),
        "benchmark": (REMOVED_ENTRY_POINT, "use @nki.jit and the profiler"),
        "profile": (REMOVED_ENTRY_POINT, "use @nki.jit and the profiler"),
        "simulate_kernel": (REMOVED_ENTRY_POINT, "use nki.simulate(kernel)(*arrays)"),
        "trace": (REMOVED_ENTRY_POINT, "use @nki.jit"),
        "compiler": (REMOVED_ALLOCATOR, "use the address= argument of nl.ndarray"),
    },
}

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


class NkiRemovedError(NkiValidationError, AttributeError):
    """A name that NKI 0.3.0 does not have; ``hasattr`` returns False for it."""


def hide_modules(names: dict[str, Any], keep: tuple[str, ...] = ()) -> None:
    """Remove submodules from a package's names, so that using one raises with the remedy.

    ``import`` still finds them.
    """
    inner = names["__name__"] + "."
    for name, value in list(names.items()):
        if isinstance(value, ModuleType) and value.__name__.startswith(inner) and name not in keep:
            del names[name]


def by_version(module: str, names: dict[str, Any]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module of NKI, whose names depend on the version in force.

    It takes the names that are not the same in all versions out of ``names``, the module's own, and
    returns those of the version in force; others raise with the remedy. ``dir`` and ``__all__``,
    the public names, follow the version too.
    """
    differing = {name: names.pop(name) for name in list(names) if versions.differs(module, name)}
    refuse = missing_name(module)

    @functools.cache
    def served(version: str) -> dict[str, Any]:
        return {
            name: getattr(found, "in_version", {}).get(version, found)
            for name, found in differing.items()
            if versions.has(version, module, name)
        }

    def there() -> set[str]:
        return {*names, *served(versions.in_force())}

    names["__dir__"] = there

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(name for name in there() if name[0].isalpha())
        found = served(versions.in_force())
        if name in found:
            return found[name]
        try:
            refuse(name)
        except AttributeError as error:
            hide_own_frames(error)
            raise

    return get


def missing_name(module: str) -> Callable[[str], NoReturn]:
    """Return a ``__getattr__`` that raises with the remedy for names that a module lacks."""

    def get(name: str) -> NoReturn:
        known = name in _RULES.get(module, ())
        if not known and (RECORDER.get() is None or name.startswith("_")):
            # Python searches the exception's ``obj`` for the nearest name.
            home = sys.modules[_home(module)]
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}", name=name, obj=home
            )
        rule, remedy = why_missing(module, name)
        _refuse(rule, module, name, remedy)

    return get


def removed_names() -> Mapping[str, Mapping[str, tuple[Rule, str]]]:
    """Return the names of other releases by module, with the violated rule and the remedy."""
    return _RULES


def why_missing(module: str, name: str) -> tuple[Rule, str]:
    """Return the rule that the use of a missing name of a module violates, and the remedy."""
    known = versions.VERSIONS if module in versions.names_of("0.3.0") else ()
    having = [version for version in known if versions.has(version, module, name)]
    if having and name not in _RULES.get(module, {}):
        # The next version that has it, or the last one before it was removed.
        version = min((v for v in having if v > versions.in_force()), default=having[-1])
        return BAD_CALL, versions.found_in(version)
    return _RULES.get(module, {}).get(name) or (BAD_CALL, _meant(_home(module), name))


def _home(module: str) -> str:
    """Return the module of this package that implements one of NKI."""
    return module.replace("nki", "nkisim", 1)


_SHORT = {
    "nkisim.isa": "nisa",
    "nkisim.language": "nl",
    "nkisim.collectives": "ncc",
    "nkisim": "nki",
}


def _meant(home: str, name: str) -> str:
    """Return the replacement of a name that does not exist."""
    names = [n for n in dir(sys.modules[home]) if not n.startswith("_")]
    if name in UNDECIDED and home in ("nkisim.isa", "nkisim.language"):
        return UNDECIDED[name]
    intent, here = intent_of(name), _SHORT.get(home, home)
    if intent is not None and (home == "nkisim.isa" or intent.kind == "matmul"):
        return f"write {intent.remedy()}"
    for other, short in _SHORT.items():
        if other != home and other != "nkisim" and name in dir(sys.modules.get(other, sys)):
            return f"it is in the other module: {short}.{name}"
    if intent is not None and home == "nkisim.language":
        same = f"{here}.{intent.function}" if intent.function in names else intent.expression
        return f"write {same or intent.remedy()}"
    if name in DTYPE_NAMES:
        return f"write nl.{DTYPE_NAMES[name]}"
    near = nearest(name, names)
    return f"did you mean {here}.{near}?" if near else f"dir({here}) lists the names"


def report_missing(error: AttributeError) -> None:
    """Flag an attribute that tensors do not have; ignore errors of other objects."""
    place, name = raised_at(error), error.name
    asked = isinstance(error.obj, NoOperators) and not isinstance(error, NkiRemovedError)
    if asked and place is not None and name is not None and not name.startswith("_"):
        _refuse(BAD_CALL, "NkiTensor", name, method_remedy(name), place)


@functools.cache
def tensor_attributes(tensor: type[NoOperators], version: str) -> frozenset[str]:
    """Return the attributes that a class of tensors has in a version.

    Those that only raise are left out.
    """
    return frozenset(name for name in dir(tensor) if _is_there(tensor, name, version))


def _is_there(tensor: type[NoOperators], name: str, version: str) -> bool:
    found = inspect.getattr_static(tensor, name, None)
    if isinstance(found, ByVersion):
        return version in found.in_version
    return not isinstance(found, _NoMethod)


def method_remedy(name: str) -> str:
    """Return what replaces an attribute that tensors do not have."""
    return _REMEDIES.get(name, "write a function of nki.language, or an instruction with a dst=")


_DEPRECATED: tuple[str, Severity] = ("is deprecated in NKI 0.3.0", "warning")
_REMOVED: tuple[str, Severity] = ("was removed in NKI 0.4.0", "error")


def missing_text(rule: Rule, full_name: str) -> tuple[str, Severity]:
    """Return message and severity for a name that the version in force lacks."""
    version = versions.in_force()
    if rule is not DYNAMIC_COPY:
        return f"{full_name} does not exist in NKI {version}", rule.severity
    text, severity = versions.at(version, _DEPRECATED, {"0.4.0": _REMOVED})
    return f"{full_name} {text}", severity


def _refuse(
    rule: Rule, module: str, name: str, remedy: str, place: Place | None = None
) -> NoReturn:
    full_name = f"{module}.{name}"
    message, severity = missing_text(rule, full_name)
    flag(
        rule,
        message,
        operand=name,
        seen=full_name,
        fix=remedy,
        place=place,
        severity=severity,
        error=NkiRemovedError,
        data={"module": module},
        stops=True,
    )
    raise AssertionError("unreachable: the rules of removed names always raise")


def is_deprecated(module: str, name: str) -> bool:
    """Return whether the version in force has a name that it deprecates."""
    known = name in _RULES.get(module, ())
    return known and versions.has(versions.in_force(), module, name)


def flag_dynamic_copy(name: str) -> None:
    """Flag the use of a deprecated copy, or raise where the version in force does not have it."""
    rule, remedy = _RULES["nki.isa"][name]
    full_name = f"nki.isa.{name}"
    if not is_deprecated("nki.isa", name):
        _refuse(rule, "nki.isa", name, remedy)
    message, severity = missing_text(rule, full_name)
    flag(rule, message, operand=name, seen=full_name, fix=remedy, severity=severity)


_COMPARISONS = ("<", "<=", ">", ">=")


def _operator(symbol: str, name: str) -> Callable[..., NoReturn]:
    """Return a method that raises for an operator; ``name`` is the function to call instead."""

    def refuse(self: Any, *others: Any) -> NoReturn:
        condition = symbol in _COMPARISONS and decides(user_place())
        fix = f"nl.{name}, or an instruction of nki.isa with a dst="
        if name in ("divide", "matmul", "mod"):  # which no engine has, or not in this order
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
        _refuse(BAD_CALL, "NkiTensor", self.name, self.remedy)


class ByVersion(_NoMethod):
    """A member of tensors that differs between versions: access gives that of the one in force.

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
"""Whether a kernel's own code runs in this context, and not a watcher of its instructions."""


class HiddenFromKernels(_NoMethod):
    """What a tensor shows to everybody but a kernel's own code, which only moves data by calls."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, method_remedy(name))
        self._path = path

    def __get__(self, tensor: Any, owner: type) -> Any:
        shown = tensor is not None and not KERNEL_CODE.get()
        return getattr(tensor, self._path) if shown else super().__get__(tensor, owner)


class NoOperators:
    """Base class of tensors: operators and functions of NumPy raise, with the remedy."""

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
