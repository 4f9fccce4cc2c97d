"""Table of rules that compute torch functions on the two parts of a complex tensor.

A rule takes the torch function and its arguments, in which every complex operand is a
:class:`~trnfft._complex.parts.Parts`. It returns parts, a real tensor, a tuple of parts, or
``NotImplemented`` if these arguments need a native complex tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnfft._complex import parts as parts
from trnfft._complex.parts import Parts, split
from trnsci.core.errors import DTypeError

Function: TypeAlias = Callable[..., Any]
Rule: TypeAlias = Callable[..., Any]

# Linear functions, f(re + i im) = f(re) + i f(im): rearrangements and sums with real weights.
PARTWISE = """
    atleast_1d atleast_2d atleast_3d broadcast_to chunk clone contiguous cumsum detach diag
    diag_embed diagonal diff expand flatten flip fliplr flipud gather index_select masked_select
    mean moveaxis
    movedim narrow neg negative permute positive ravel repeat repeat_interleave reshape roll rot90
    select split squeeze sum swapaxes swapdims t take take_along_dim tensor_split tile trace
    transpose tril triu unbind unflatten unsqueeze view zeros_like
"""
JOINS = "cat concat concatenate stack hstack vstack dstack column_stack"


def partwise(function: Function, z: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply ``function`` to each part of ``z``."""
    if not isinstance(z, Parts) or "dtype" in kwargs or "out" in kwargs:
        return NotImplemented
    re, im = function(z.re, *args, **kwargs), function(z.im, *args, **kwargs)
    if isinstance(re, Tensor):
        return Parts(re, im)
    return tuple(Parts(*pair) for pair in zip(re, im, strict=True))


def join(function: Function, tensors: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Join the real parts and the imaginary parts; a real tensor has zero imaginary part."""
    if "out" in kwargs:
        return NotImplemented
    both = [split(tensor) for tensor in tensors]
    return Parts(
        function([z.re for z in both], *args, **kwargs),
        function([z.im for z in both], *args, **kwargs),
    )


def where(function: Function, condition: Tensor, *choices: Any) -> Any:
    """Select elementwise between the parts of the two ``choices``."""
    if function is not torch.where or isinstance(condition, Parts) or len(choices) != 2:
        return NotImplemented  # Tensor.where takes the condition second
    (a_re, a_im), (b_re, b_im) = map(split, choices)
    return Parts(function(condition, a_re, b_re), function(condition, a_im, b_im))


def padded(function: Function, z: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Pad each part; a padding value other than zero applies to the real part."""
    if not isinstance(z, Parts):
        return NotImplemented
    fill = split(value or 0.0)
    if mode != "constant":
        return Parts(function(z.re, pad, mode), function(z.im, pad, mode))
    return Parts(*(function(part, pad, mode, v) for part, v in zip(z, fill, strict=True)))


def formula(compute: Callable[..., Any]) -> Rule:
    """Return the rule that evaluates ``compute`` in place of the torch function."""

    def rule(function: Function, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if "out" in kwargs else compute(*args, **kwargs)

    return rule


def refuse_in_place(function: Function, z: Any, *args: Any, **kwargs: Any) -> Any:
    """Raise for an in-place ``function``, which would modify a copy of ``z``."""
    if isinstance(z, Parts):
        raise DTypeError(
            f"{function.__name__}: to compute in place, use a method or operator of ComplexTensor"
        )
    return NotImplemented


def matrix_product(function: Function, a: Any, b: Any, **kwargs: Any) -> Any:
    """Multiply parts by ``function``, which also checks the shapes."""
    return NotImplemented if kwargs else parts.matmul(a, b, function)


FORMULAS: dict[str, Callable[..., Any]] = {
    "abs absolute": parts.magnitude,
    "add": parts.add,
    "angle": parts.phase,
    "conj conj_physical": parts.conjugate,
    "div divide true_divide": parts.divide,
    "eq": parts.same,
    "exp": parts.exponential,
    "imag": lambda z: z.im,
    "isfinite": lambda z: z.re.isfinite() & z.im.isfinite(),
    "isinf": lambda z: z.re.isinf() | z.im.isinf(),
    "isnan": lambda z: z.re.isnan() | z.im.isnan(),
    "mul multiply": parts.multiply,
    "ne not_equal": parts.differ,
    "pow": parts.power,
    "real": lambda z: z.re,
    "reciprocal": parts.reciprocal,
    "rsub": lambda a, b, *, alpha=1: parts.subtract(b, a, alpha=alpha),
    "square": lambda z: parts.multiply(z, z),
    "sub subtract": parts.subtract,
    "view_as_real": lambda z: torch.stack(z, -1),
    "is_complex": lambda z: True,
    "is_floating_point": lambda z: False,
    "numel": lambda z: z.re.numel(),
}


_IN_PLACE = [name for name in dir(torch.Tensor) if name.endswith("_") and not name.endswith("__")]

# The keys are names: torch.compile before 2.13 cannot trace a dictionary with functions as keys.
RULES: dict[str, Rule] = dict.fromkeys(_IN_PLACE, refuse_in_place)
RULES.update(dict.fromkeys(PARTWISE.split(), partwise))
RULES.update(dict.fromkeys(JOINS.split(), join))
RULES.update(dict.fromkeys(("matmul", "mm", "bmm", "mv", "__matmul__"), matrix_product))
RULES |= {"where": where, "pad": padded}
for _names, _compute in FORMULAS.items():
    RULES.update(dict.fromkeys(_names.split(), formula(_compute)))

# The gradient of torch's function is NaN where the square of the magnitude underflows.
ON_PARTS_ALWAYS = ("angle",)
