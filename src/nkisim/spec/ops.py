"""Operators of the engines, such as ``op=nl.add``.

An ``Op`` is the operator and, once ``nki.language`` has defined it, also the function that applies
it to tiles. The arithmetic below is the engines': float32 in, float32 out, no rounding in between.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np

from nkisim.diagnostics import NkiValidationError, hide_own_frames
from nkisim.spec import activations as act
from nkisim.spec.signatures import checked_call

Array = np.ndarray
Binary = Callable[[Any, Any], Array]
Kind = Literal["arithmetic", "compare", "bitvec", "function"]

OPS: dict[str, Op] = {}
"""Every operator by name."""


@dataclass(eq=False, repr=False)
class Op:
    """An operator of the engines, and the tile function of the same name.

    Attributes:
        name: Its name in ``nki.language``.
        kind: ``"arithmetic"``, ``"compare"`` (arithmetic with a 0/1 result), ``"bitvec"`` (raw
            integer bits) or ``"function"`` (only an activation function).
        binary: The ALU's operation on two float32 (or, for bitvec, uint32) operands; None if
            the ALU has none.
        unary: True when the ALU ignores the second operand.
        reduce: Reduction over the last axis; None where that is not legal.
        identity: Neutral element of the reduction.
        activation: The Scalar engine's function; None if it has none.
        parametric: The Scalar engine's function of a value and ``relu_param``, where it has one.
        domain: Interval where the Scalar engine's function is valid; None for everywhere.
        in_hardware: False for operators that no engine has.
        named_only: True when only those instructions take the operator whose declaration lists it,
            not every instruction with ALU operators.
        since: First generation whose ALU has it.
    """

    name: str
    kind: Kind
    _: KW_ONLY
    binary: Binary | None = None
    unary: bool = False
    reduce: Callable[[Array], Array] | None = None
    identity: float = 0.0
    activation: Callable[[Array], Array] | None = None
    parametric: Binary | None = None
    domain: tuple[float, float] | None = None
    in_hardware: bool = True
    named_only: bool = False
    since: int = 2
    _function: Callable[..., Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.__name__ = self.name
        OPS[self.name] = self

    @property
    def is_alu(self) -> bool:
        """True when every instruction of the Vector engine's ALU takes the operator."""
        return self.binary is not None and not self.named_only

    @property
    def is_bitvec(self) -> bool:
        """True for operators on raw integer bits."""
        return self.kind == "bitvec"

    def define(
        self, function: Callable[..., Any], changes: Mapping[str, Callable[..., Any]] | None = None
    ) -> Op:
        """Make ``function`` the tile function of this operator; used as a decorator.

        ``changes`` has the functions that replace it from an NKI version on.
        """
        self._function = checked_call(f"nl.{self.name}", changes=changes)(function)
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__signature__ = inspect.signature(function)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the tile function of this operator."""
        if self._function is None:
            raise TypeError(f"nl.{self.name} is an operator and cannot be called")
        try:
            return self._function(*args, **kwargs)
        except NkiValidationError as error:
            hide_own_frames(error)
            raise

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return OPS.__getitem__, (self.name,)


def as_op(value: object) -> Op | None:
    """Return the operator of ``value``; ``nl.max`` is an alias of ``nl.maximum``."""
    if type(value) is Op:
        return value
    alias = getattr(value, "operator", None)
    return alias if type(alias) is Op else None


def _truth(test: Callable[..., Array]) -> Binary:
    """Convert a NumPy predicate into one that returns 1.0 or 0.0."""
    return lambda a, b: test(a, b).astype(np.float32)


def _ignoring_operand(function: Callable[[Array], Array]) -> Binary:
    return lambda a, _: function(a)


def _last(reduce: Callable[..., Array]) -> Callable[[Array], Array]:
    return lambda a: reduce(a, -1)


def _larger(a: Any, b: Any) -> Array:
    """Return the operand of the larger magnitude, the second where they agree, NaN if one is."""
    return np.where((np.abs(a) > np.abs(b)) | np.isnan(a), a, b)


def _smaller(a: Any, b: Any) -> Array:
    """Return the operand of the smaller magnitude, the second where they agree, NaN if one is."""
    return np.where((np.abs(a) < np.abs(b)) | np.isnan(a), a, b)


def _last_at(find: Callable[..., Array]) -> Callable[[Array], Array]:
    """Return a reduction to the last element whose magnitude ``find`` (argmax or argmin) finds."""

    def reduce(a: Array) -> Array:
        backwards = a[..., ::-1]
        at = np.expand_dims(find(np.abs(backwards), axis=-1), -1)
        return np.take_along_axis(backwards, at, axis=-1)[..., 0]

    return reduce


def _mean(a: Array) -> Array:
    """Return the float32 sum, divided once."""
    return np.add.reduce(a, -1) / np.float32(a.shape[-1])


def _parity(a: Array) -> Array:
    return (np.count_nonzero(a, axis=-1) & 1).astype(np.float32)


Op("add", "arithmetic", binary=np.add, reduce=_last(np.add.reduce), identity=0.0)
Op("subtract", "arithmetic", binary=np.subtract, reduce=_last(np.subtract.reduce), identity=0.0)
Op("multiply", "arithmetic", binary=np.multiply, reduce=_last(np.multiply.reduce), identity=1.0)
Op("maximum", "arithmetic", binary=np.maximum, reduce=_last(np.maximum.reduce), identity=-np.inf)
Op("minimum", "arithmetic", binary=np.minimum, reduce=_last(np.minimum.reduce), identity=np.inf)
Op(
    "abs_max",
    "arithmetic",
    binary=_larger,
    reduce=_last_at(np.argmax),
    identity=0.0,
    since=4,
)
Op(
    "abs_min",
    "arithmetic",
    binary=_smaller,
    reduce=_last_at(np.argmin),
    identity=np.inf,
    since=4,
)
Op("average", "arithmetic", reduce=_mean)
Op("bypass", "arithmetic", binary=lambda a, _: a, unary=True, named_only=True, since=4)
Op("equal", "compare", binary=_truth(np.equal))
Op("not_equal", "compare", binary=_truth(np.not_equal))
Op("greater", "compare", binary=_truth(np.greater))
Op("greater_equal", "compare", binary=_truth(np.greater_equal))
Op("less", "compare", binary=_truth(np.less))
Op("less_equal", "compare", binary=_truth(np.less_equal))
Op(
    "logical_and",
    "compare",
    binary=_truth(np.logical_and),
    reduce=lambda a: np.all(a, axis=-1).astype(np.float32),
    identity=1.0,
)
Op(
    "logical_or",
    "compare",
    binary=_truth(np.logical_or),
    reduce=lambda a: np.any(a, axis=-1).astype(np.float32),
)
Op("logical_xor", "compare", binary=_truth(np.logical_xor), reduce=_parity)
Op(
    "logical_not",
    "compare",
    binary=lambda a, _: np.logical_xor(a, 1).astype(np.float32),
    unary=True,
)
Op("power", "arithmetic", binary=np.power)
Op("divide", "arithmetic", binary=np.divide, in_hardware=False)
Op("mod", "arithmetic", binary=np.mod, in_hardware=False)
Op("fmod", "arithmetic", binary=np.fmod, in_hardware=False)

Op("bitwise_and", "bitvec", binary=np.bitwise_and, reduce=_last(np.bitwise_and.reduce))
Op("bitwise_or", "bitvec", binary=np.bitwise_or, reduce=_last(np.bitwise_or.reduce))
Op("bitwise_xor", "bitvec", binary=np.bitwise_xor, reduce=_last(np.bitwise_xor.reduce))
Op("invert", "bitvec", binary=lambda a, _: np.invert(a), unary=True)
Op("left_shift", "bitvec", binary=lambda a, b: np.where(b < 32, a << np.minimum(b, 31), 0))
Op("right_shift", "bitvec", binary=lambda a, b: np.where(b < 32, a >> np.minimum(b, 31), 0))

_UNARY = {"rsqrt": 2, "reciprocal": 2, "abs": 2, "square": 4, "relu": 4}
"""Activation functions that are also ALU operators, with the first generation of the operator."""

for _name, _function, _domain in act.FUNCTIONS:
    _in_alu = _name in _UNARY
    Op(
        _name,
        "arithmetic" if _in_alu else "function",
        binary=_ignoring_operand(_function) if _in_alu else None,
        unary=_in_alu,
        activation=_function,
        domain=_domain,
        named_only=_name in ("square", "relu"),
        since=_UNARY.get(_name, 2),
    )

Op("prelu", "function", parametric=act.prelu)
