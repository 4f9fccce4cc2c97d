"""Operators and methods of a complex tensor that each call one torch function."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor

Number: TypeAlias = int | float | complex
Dims: TypeAlias = int | Sequence[int] | None
Binary: TypeAlias = Callable[[Any, Any], Any]


def _operator(function: Callable[..., Any], reflected: bool = False) -> Binary:
    def operate(self: ComplexMethods, other: Any) -> Any:
        if not isinstance(other, (ComplexMethods, Tensor, numbers.Number)):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        return self._operate(function, a, b)

    return operate


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the in-place method of ``function``: its result is copied into the tensor."""

    def operate(self: ComplexMethods, *args: Any, **kwargs: Any) -> Any:
        return self.copy_(self._evaluate(function, self, *args, **kwargs))

    return operate


def _method(name: str) -> Callable[..., Any]:
    """Return the ``torch.Tensor`` method of this name, for both forms of a complex tensor."""
    function = getattr(torch.Tensor, name)

    def method(self: ComplexMethods, *args: Any, **kwargs: Any) -> Any:
        return self._evaluate(function, self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"Return ``torch.Tensor.{name}`` of the same arguments."
    return method


def _sizes(sizes: tuple[Any, ...]) -> Any:
    """Return ``sizes`` from positional arguments: ``(2, 3)`` or ``((2, 3),)``."""
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes


class ComplexMethods:
    """Operators and methods of complex tensors, implemented by ``_evaluate`` and ``_operate``.

    These two methods apply a torch function. The subclass implements storage and the conversion to
    and from real and imaginary parts.
    """

    __slots__ = ()

    _native: Tensor | None

    @classmethod
    def from_torch_complex(cls, z: Tensor) -> Self:
        """Return a tensor that shares the memory of a native complex tensor."""
        raise NotImplementedError

    @classmethod
    def _fitting(cls, re: Tensor, im: Tensor) -> Self:
        raise NotImplementedError

    def _split(self) -> Any:
        raise NotImplementedError

    def _widened(self) -> Tensor:
        raise NotImplementedError

    @property
    def part_dtype(self) -> torch.dtype:
        """The dtype of a part."""
        raise NotImplementedError

    def _evaluate(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _operate(self, function: Callable[..., Any], a: Any, b: Any) -> Any:
        raise NotImplementedError

    @property
    def _first(self) -> Tensor:
        raise NotImplementedError

    def _tensors(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def copy_(self, source: Any) -> Self:
        """Copy ``source``, broadcast to this shape, into this tensor and return it."""
        raise NotImplementedError

    __add__ = _operator(torch.add)
    __radd__ = _operator(torch.add, reflected=True)
    __sub__ = _operator(torch.sub)
    __rsub__ = _operator(torch.sub, reflected=True)
    __mul__ = _operator(torch.mul)
    __rmul__ = _operator(torch.mul, reflected=True)
    __truediv__ = _operator(torch.div)
    __rtruediv__ = _operator(torch.div, reflected=True)
    __pow__ = _operator(torch.pow)
    __rpow__ = _operator(torch.pow, reflected=True)
    __matmul__ = _operator(torch.matmul)
    __rmatmul__ = _operator(torch.matmul, reflected=True)
    __eq__ = _operator(torch.eq)
    __ne__ = _operator(torch.ne)

    __iadd__ = add_ = _in_place(torch.add)
    __isub__ = sub_ = _in_place(torch.sub)
    __imul__ = mul_ = _in_place(torch.mul)
    __itruediv__ = div_ = _in_place(torch.div)
    __ipow__ = pow_ = _in_place(torch.pow)
    neg_ = _in_place(torch.neg)
    conj_ = _in_place(torch.conj)
    zero_ = _in_place(torch.zeros_like)

    def fill_(self, value: Number) -> Self:
        """Set every element to ``value``."""
        return self.copy_(value)

    def __neg__(self) -> Self:
        """Return the negative."""
        return self._evaluate(torch.neg, self)

    def __pos__(self) -> Self:
        """Return this tensor."""
        return self

    def __abs__(self) -> Tensor:
        """Return the magnitudes."""
        return self.abs()

    # -- elementwise -------------------------------------------------------------------------------

    def abs(self) -> Tensor:
        """Return the magnitudes; the gradient at zero is zero."""
        return self._evaluate(torch.abs, self)

    def angle(self) -> Tensor:
        """Return the phases in [-pi, pi]; the gradient at zero is zero."""
        return self._evaluate(torch.angle, self)

    def conj(self) -> Self:
        """Return the conjugate."""
        return self._evaluate(torch.conj, self)

    def reciprocal(self) -> Self:
        """Return ``1 / z``."""
        return self._evaluate(torch.reciprocal, self)

    def square(self) -> Self:
        """Return ``z * z``."""
        return self._evaluate(torch.square, self)

    def pow(self, exponent: Any) -> Self:
        """Return ``z ** exponent``; integers up to 16 are computed by products."""
        return self._evaluate(torch.pow, self, exponent)

    def exp(self) -> Self:
        """Return ``e ** z``."""
        return self._evaluate(torch.exp, self)

    def log(self) -> Self:
        """Return the principal logarithm."""
        return self._evaluate(torch.log, self)

    def sqrt(self) -> Self:
        """Return the principal square root."""
        return self._evaluate(torch.sqrt, self)

    sin = _method("sin")
    cos = _method("cos")
    tan = _method("tan")
    sinh = _method("sinh")
    cosh = _method("cosh")
    tanh = _method("tanh")
    sigmoid = _method("sigmoid")
    log2 = _method("log2")
    log10 = _method("log10")
    rsqrt = _method("rsqrt")
    sgn = _method("sgn")
    isnan = _method("isnan")
    isinf = _method("isinf")
    isfinite = _method("isfinite")
    isclose = _method("isclose")
    add = _method("add")
    sub = _method("sub")
    mul = _method("mul")
    div = _method("div")
    addcmul = _method("addcmul")
    lerp = _method("lerp")
    eq = _method("eq")
    ne = _method("ne")
    neg = _method("neg")
    masked_fill = _method("masked_fill")
    allclose = _method("allclose")
    equal = _method("equal")
    all = _method("all")
    any = _method("any")

    # -- sums and products -------------------------------------------------------------------------

    def sum(self, dim: Dims = None, keepdim: bool = False) -> Self:
        """Return the sum over ``dim``, by default over everything."""
        return self._evaluate(torch.sum, self, dim, keepdim)

    def mean(self, dim: Dims = None, keepdim: bool = False) -> Self:
        """Return the mean over ``dim``, by default over everything."""
        return self._evaluate(torch.mean, self, dim, keepdim)

    def prod(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the product over ``dim``, by default over everything."""
        return self._evaluate(torch.prod, self, *(() if dim is None else (dim, keepdim)))

    def cumsum(self, dim: int) -> Self:
        """Return the running sums along ``dim``."""
        return self._evaluate(torch.cumsum, self, dim)

    def matmul(self, other: Any) -> Self:
        """Return the matrix product."""
        return self._evaluate(torch.matmul, self, other)

    cumprod = _method("cumprod")
    var = _method("var")
    std = _method("std")
    norm = _method("norm")
    dist = _method("dist")
    trace = _method("trace")
    mm = _method("mm")
    bmm = _method("bmm")
    mv = _method("mv")
    dot = _method("dot")
    vdot = _method("vdot")
    outer = _method("outer")
    addmm = _method("addmm")
    inverse = _method("inverse")
    det = _method("det")

    # -- rearrangements ----------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Self:
        """Return the elements in another shape, as a view if torch returns a view."""
        return self._evaluate(torch.reshape, self, _sizes(shape))

    def view(self, *shape: Any) -> Self:
        """Return a view in another shape."""
        return self._evaluate(torch.Tensor.view, self, _sizes(shape))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Return the tensor with dimensions ``start_dim`` to ``end_dim`` flattened into one."""
        return self._evaluate(torch.flatten, self, start_dim, end_dim)

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Return a view with two dimensions exchanged."""
        return self._evaluate(torch.transpose, self, dim0, dim1)

    def permute(self, *dims: Any) -> Self:
        """Return a view with the dimensions in the order ``dims``."""
        return self._evaluate(torch.permute, self, _sizes(dims))

    def movedim(self, source: Any, destination: Any) -> Self:
        """Return a view with dimensions moved."""
        return self._evaluate(torch.movedim, self, source, destination)

    def squeeze(self, dim: Any = None) -> Self:
        """Return a view without ``dim``, or without any dimension of size one."""
        return self._evaluate(torch.squeeze, self, *(() if dim is None else (dim,)))

    def unsqueeze(self, dim: int) -> Self:
        """Return a view with a dimension of size one at ``dim``."""
        return self._evaluate(torch.unsqueeze, self, dim)

    def expand(self, *sizes: Any) -> Self:
        """Return a view with dimensions of size one repeated."""
        return self._evaluate(torch.Tensor.expand, self, _sizes(sizes))

    def flip(self, *dims: Any) -> Self:
        """Return the elements in reverse order along ``dims``."""
        return self._evaluate(torch.flip, self, _sizes(dims))

    def roll(self, shifts: Any, dims: Any = None) -> Self:
        """Return the elements shifted cyclically."""
        return self._evaluate(torch.roll, self, shifts, dims)

    ravel = _method("ravel")
    unflatten = _method("unflatten")
    swapaxes = _method("swapaxes")
    swapdims = _method("swapdims")
    moveaxis = _method("moveaxis")
    narrow = _method("narrow")
    select = _method("select")
    index_select = _method("index_select")
    masked_select = _method("masked_select")
    gather = _method("gather")
    take = _method("take")
    take_along_dim = _method("take_along_dim")
    repeat = _method("repeat")
    repeat_interleave = _method("repeat_interleave")
    tile = _method("tile")
    broadcast_to = _method("broadcast_to")
    diag = _method("diag")
    diagonal = _method("diagonal")
    diff = _method("diff")
    tril = _method("tril")
    triu = _method("triu")
    rot90 = _method("rot90")
    unfold = _method("unfold")
    tensor_split = _method("tensor_split")
    nonzero = _method("nonzero")
    adjoint = _method("adjoint")

    def expand_as(self, other: Any) -> Self:
        """Return a view with the shape of ``other``."""
        return self.expand(other.shape)

    def view_as(self, other: Any) -> Self:
        """Return a view with the shape of ``other``."""
        return self.view(other.shape)

    def reshape_as(self, other: Any) -> Self:
        """Return the elements in the shape of ``other``."""
        return self.reshape(other.shape)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the slices along ``dim``."""
        return tuple(self._evaluate(torch.unbind, self, dim))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Return up to ``chunks`` pieces along ``dim``."""
        return tuple(self._evaluate(torch.chunk, self, chunks, dim))

    def split(self, size: Any, dim: int = 0) -> tuple[Self, ...]:
        """Return pieces of ``size`` along ``dim``."""
        return tuple(self._evaluate(torch.split, self, size, dim))

    def clone(self) -> Self:
        """Return a copy."""
        return self._evaluate(torch.clone, self)

    def contiguous(self) -> Self:
        """Return a contiguous tensor, without a copy if this one is contiguous."""
        return self._evaluate(torch.Tensor.contiguous, self)

    def detach(self) -> Self:
        """Return the same values, detached from the autograd graph."""
        return self._evaluate(torch.detach, self)

    new_zeros = _method("new_zeros")
    new_ones = _method("new_ones")
    new_empty = _method("new_empty")
    new_full = _method("new_full")
    resolve_conj = _method("resolve_conj")
    pin_memory = _method("pin_memory")

    # -- dtypes, gradients, memory ---------------------------------------------------------------

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the tensor converted to another dtype or moved to another device."""
        raise NotImplementedError

    def type_as(self, other: Any) -> Self:
        """Return the tensor with the dtype of ``other``."""
        return self.to(other.dtype)

    def float(self) -> Self:
        """Return the tensor with float32 parts."""
        return self.to(torch.float32)

    def double(self) -> Self:
        """Return the tensor with float64 parts."""
        return self.to(torch.float64)

    def half(self) -> Self:
        """Return the tensor with float16 parts."""
        return self.to(torch.float16)

    def bfloat16(self) -> Self:
        """Return the tensor with bfloat16 parts."""
        return self.to(torch.bfloat16)

    cfloat, cdouble, chalf = float, double, half

    def element_size(self) -> int:
        """Return the number of bytes of one element, both parts together."""
        return sum(tensor.element_size() for tensor in self._tensors())

    def is_contiguous(self) -> bool:
        """Return whether the tensor is contiguous."""
        return self._first.is_contiguous()

    def stride(self, dim: int | None = None) -> Any:
        """Return the stride of each dimension in elements, or the stride of ``dim``."""
        return self._first.stride() if dim is None else self._first.stride(dim)

    def get_device(self) -> int:
        """Return the index of the device, -1 on the CPU."""
        return self._first.get_device()

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return sum(tensor.nbytes for tensor in self._tensors())

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a CUDA device."""
        return self._first.is_cuda

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor is on the CPU."""
        return self._first.is_cpu

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is a leaf of the autograd graph."""
        return all(tensor.is_leaf for tensor in self._tensors())

    @property
    def grad_fn(self) -> Any:
        """The autograd node that computed the tensor, None for a leaf."""
        return self._first.grad_fn

    @property
    def layout(self) -> torch.layout:
        """The memory layout, as in torch."""
        return self._first.layout

    @property
    def T(self) -> Self:
        """The transposed matrix."""
        return self._evaluate(torch.t, self)

    @property
    def mT(self) -> Self:
        """The transposed matrices of the last two dimensions."""
        return self.transpose(-2, -1)

    @property
    def mH(self) -> Self:
        """The adjoint matrices of the last two dimensions."""
        return self.transpose(-2, -1).conj()

    @property
    def H(self) -> Self:
        """The adjoint matrix."""
        return self.T.conj()
