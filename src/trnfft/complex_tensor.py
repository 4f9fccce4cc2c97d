"""A complex tensor for every dtype and device, including those without a torch complex dtype.

``ComplexTensor`` stores a native complex tensor if torch has one for the dtype and the device, and
two real tensors otherwise: for bfloat16 and float16, and on devices such as a NeuronCore. It
computes in the form it is stored in, so no conversion is added to a transform or a product. Torch
functions accept it through ``__torch_function__``. A function without an entry in the table of
``_complex.functions`` is computed by torch on a native complex tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnfft._complex.arguments import (
    HALVES,
    NATIVE,
    PART,
    check_parts,
    check_product,
    has_complex,
    interleaved,
    keeps_native,
)
from trnfft._complex.evaluation import evaluate, from_native, from_parts, to_native, to_parts
from trnfft._complex.functions import RULES
from trnfft._complex.methods import ComplexMethods, Number
from trnfft._complex.parts import Parts, split
from trnfft._library import no_kernel
from trnsci.core.arguments import tensor as check_tensor
from trnsci.core.errors import DTypeError, ShapeError

__all__ = ["ComplexTensor", "complex_matmul", "rebuilt"]

COMPLEX = {torch.float16: torch.complex32, **NATIVE}


class ComplexTensor(ComplexMethods):
    """A complex tensor with the parts ``real`` and ``imag``.

    Args:
        real: The real part, of any floating dtype (integers are converted to the default dtype).
            Without ``imag``, it may be a native complex tensor, whose memory is shared.
        imag: The imaginary part, with the shape, dtype and device of ``real``; zero by default.

    Memory is also shared with parts that are views of one interleaved complex tensor. Other float32
    and float64 parts are copied into a native complex tensor. Without a native complex dtype the
    parts are stored as given, and copied only if they are not contiguous. ``z.dtype`` is the
    complex dtype and ``z.part_dtype`` the dtype of a part; both are bfloat16 for bfloat16 parts.

    Raises:
        ShapeError: The parts differ in shape.
        DTypeError: The parts differ in dtype, or one is not a real tensor.

    Example:
        >>> z = ComplexTensor(torch.tensor([3.0, 0.0]), torch.tensor([4.0, 1.0]))
        >>> z.abs()
        tensor([5., 1.])
        >>> (2j * z).to_torch_complex()
        tensor([-8.+6.j, -2.+0.j])
    """

    __slots__ = ("__weakref__", "_given", "_native", "_parts")
    # NumPy scalars defer binary operators to the ComplexTensor, as they do for a Tensor.
    __array_priority__ = 1000

    _native: Tensor | None
    _parts: Parts | None
    # The parts that autograd tracks and that were joined; unset in most tensors.
    _given: Parts

    def __init__(self, real: Tensor | ComplexTensor, imag: Tensor | None = None) -> None:
        if isinstance(real, ComplexTensor) and imag is None:
            self._native, self._parts = real._native, real._parts
            return
        if not isinstance(real, Tensor):
            raise DTypeError(f"ComplexTensor: real must be a tensor, got {type(real).__name__}")
        if imag is None:
            if real.is_complex():
                self._hold(real)
                return
            imag = torch.zeros_like(real)
        check_parts(real, imag)
        if real.requires_grad or imag.requires_grad:
            self._given = Parts(real, imag)
        if not real.is_floating_point():
            real, imag = (part.to(torch.get_default_dtype()) for part in (real, imag))
        real, imag = real.resolve_neg(), imag.resolve_neg()
        native = interleaved(real, imag)
        if native is not None:
            self._hold(native)
        elif real.dtype in NATIVE and has_complex(real.device):
            self._native, self._parts = torch.complex(real, imag), None
        else:
            self._native, self._parts = None, Parts(real.contiguous(), imag.contiguous())

    def _hold(self, native: Tensor) -> None:
        """Store a native complex tensor, or its parts if torch cannot compute with its dtype."""
        native = native.resolve_conj()  # so that its parts are ordinary views
        if native.dtype in PART:
            self._native, self._parts = native, None
        else:
            self._native, self._parts = None, Parts(*torch.view_as_real(native).unbind(-1))

    # -- conversions -------------------------------------------------------------------------------

    @classmethod
    def from_torch_complex(cls, z: Tensor) -> ComplexTensor:
        """Return ``z`` as a ComplexTensor that shares its memory."""
        if not (isinstance(z, Tensor) and z.is_complex()):
            kind = str(z.dtype) if isinstance(z, Tensor) else type(z).__name__
            raise DTypeError(f"from_torch_complex: z must be a complex tensor, got {kind}")
        made = cls.__new__(cls)
        made._hold(z)
        return made

    @classmethod
    def from_polar(cls, magnitude: Tensor, phase: Tensor) -> ComplexTensor:
        """Return ``magnitude * exp(1j * phase)``; the two broadcast against each other."""
        for name, value in (("magnitude", magnitude), ("phase", phase)):
            if not isinstance(value, Tensor) or value.is_complex():
                kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise DTypeError(f"from_polar: {name} must be a real tensor, got {kind}")
        return cls(magnitude * torch.cos(phase), magnitude * torch.sin(phase))

    @classmethod
    def of_native(cls, native: Tensor) -> ComplexTensor:
        """Return a tensor that stores a complex64 or complex128 tensor."""
        made = cls.__new__(cls)
        # Without a conjugate bit the parts are ordinary views.
        made._native, made._parts = native.resolve_conj(), None
        return made

    @classmethod
    def _of(cls, parts: Parts) -> ComplexTensor:
        """Return a tensor that stores ``parts`` without copying, even if they are views."""
        made = cls.__new__(cls)
        made._native, made._parts = None, parts
        return made

    def to_torch_complex(self) -> Tensor:
        """Return a native complex tensor: the stored one if there is one, else a new one.

        Parts of float16 become complex32. Bfloat16 has no complex dtype and becomes complex64.
        """
        if self._native is not None:
            return self._native
        re, im = self._split()
        if re.dtype == torch.bfloat16:
            re, im = re.float(), im.float()
        return torch.complex(re, im)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array; it shares memory if a native complex tensor is stored."""
        return self._widened().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the values for ``numpy.asarray``."""
        array = self._widened().detach().resolve_conj().numpy()
        return np.array(array, dtype=dtype, copy=True if copy else None)

    def tolist(self) -> Any:
        """Return nested lists of Python complex numbers."""
        return self._widened().tolist()

    def item(self) -> complex:
        """Return the only element as a Python complex number."""
        return complex(self._widened().item())

    def _split(self) -> Parts:
        if self._parts is not None:
            return self._parts
        native = self._native
        assert native is not None
        return Parts(native.real, native.imag)

    def _widened(self) -> Tensor:
        """Return a native complex tensor that torch can compute with."""
        if self._native is not None:
            return self._native
        re, im = self._split()
        if re.dtype in HALVES:
            re, im = re.float(), im.float()
        if not has_complex(re.device):
            raise DTypeError(
                f"ComplexTensor: torch has no complex dtypes on {re.device}, and this function is "
                "not implemented on separate parts; move the tensor to the CPU first"
            )
        return torch.complex(re, im)

    # -- attributes --------------------------------------------------------------------------------

    @property
    def real(self) -> Tensor:
        """The real part; writing into it changes this tensor.

        After ``backward`` its ``grad`` is the real part of ``grad`` of this tensor, or that of the
        real part that this tensor was made of.
        """
        return self._with_gradient(0)

    @real.setter
    def real(self, value: Tensor | float) -> None:
        self._split().re[...] = value

    @property
    def imag(self) -> Tensor:
        """The imaginary part; writing into it changes this tensor. ``grad`` is as of ``real``."""
        return self._with_gradient(1)

    @imag.setter
    def imag(self, value: Tensor | float) -> None:
        self._split().im[...] = value

    def _with_gradient(self, place: int) -> Tensor:
        """Return a part, a new view of a native tensor, with the gradient that backward stored."""
        part, native = self._split()[place], self._native
        if native is None or not native.requires_grad or torch.compiler.is_compiling():
            return part
        if native.is_leaf or native.retains_grad:
            if native.grad is not None:
                part.grad = native.grad.imag if place else native.grad.real
            return part
        given = getattr(self, "_given", None)
        if given is not None and given[place].is_leaf and given[place].grad is not None:
            part.grad = given[place].grad
        return part

    @property
    def _first(self) -> Tensor:
        """The native complex tensor, or the real part: properties such as ``shape`` read it."""
        return self._native if self._native is not None else self._split().re

    @property
    def shape(self) -> torch.Size:
        """The shape."""
        return self._first.shape

    @property
    def dtype(self) -> torch.dtype:
        """The complex dtype, or the dtype of a part if there is none, as for bfloat16."""
        first = self._first.dtype
        return COMPLEX.get(first, first)

    @property
    def part_dtype(self) -> torch.dtype:
        """The dtype of each part."""
        first = self._first.dtype
        return PART.get(first, first)

    @property
    def device(self) -> torch.device:
        """The device."""
        return self._first.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._first.ndim

    @property
    def requires_grad(self) -> bool:
        """Whether autograd tracks either part."""
        return any(tensor.requires_grad for tensor in self._tensors())

    @property
    def grad(self) -> ComplexTensor | None:
        """The gradient accumulated by ``backward``, in torch's convention for complex tensors."""
        native = self._native
        if native is not None:
            # Torch warns when ``grad`` of a non-leaf without retain_grad is read.
            grad = native.grad if native.is_leaf or native.retains_grad else None
            return None if grad is None else ComplexTensor.from_torch_complex(grad)
        re, im = self._split()
        if re.grad is None and im.grad is None:
            return None
        return ComplexTensor(
            torch.zeros_like(re) if re.grad is None else re.grad,
            torch.zeros_like(im) if im.grad is None else im.grad,
        )

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or its entry ``dim``."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """Return the number of elements."""
        return self._first.numel()

    @property
    def is_native(self) -> bool:
        """Whether one native complex tensor is stored instead of two parts."""
        return self._native is not None

    def is_complex(self) -> bool:
        """Return True."""
        return True

    def is_floating_point(self) -> bool:
        """Return False, as torch does for complex tensors."""
        return False

    def __len__(self) -> int:
        """Return the size of the first dimension."""
        return len(self._first)

    def __iter__(self) -> Iterator[ComplexTensor]:
        """Yield the entries along the first dimension."""
        return iter(self.unbind())

    def __bool__(self) -> bool:
        """Return whether the only element is nonzero."""
        return bool(self._widened())

    def __complex__(self) -> complex:
        """Return the only element."""
        return self.item()

    def __repr__(self) -> str:
        """Return shape, dtype and values."""
        shown_here = self if has_complex(self.device) else self.to("cpu")
        values = repr(shown_here._widened().detach())
        shown = values.removeprefix("tensor(").removesuffix(")").replace("\n ", "\n        ")
        tracked = ", requires_grad=True" if self.requires_grad else ""
        return f"ComplexTensor({shown}, shape={tuple(self.shape)}, dtype={self.dtype}{tracked})"

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the constructor and arguments for pickle and copy, which preserve the form."""
        return rebuilt, self._tensors()

    def _tensors(self) -> tuple[Tensor, ...]:
        """Return the stored tensors: one native tensor, or two parts."""
        return (self._native,) if self._native is not None else tuple(self._split())

    # -- elements, devices, gradients --------------------------------------------------------------

    def __getitem__(self, key: Any) -> ComplexTensor:
        """Return the entries at ``key``, as a view if torch returns a view."""
        if self._native is not None:
            return ComplexTensor.from_torch_complex(self._native[key])
        re, im = self._split()
        return ComplexTensor._of(Parts(re[key], im[key]))

    def __setitem__(self, key: Any, value: ComplexTensor | Tensor | Number) -> None:
        """Assign ``value`` at ``key``, converted to the dtype of this tensor."""
        if isinstance(value, (ComplexTensor, Tensor)):
            value = ComplexTensor(value).to(self.part_dtype)
        if self._native is not None:
            self._native[key] = to_native(value)
            return
        re, im = self._split()
        re[key], im[key] = split(to_parts(value))

    def copy_(self, source: ComplexTensor | Tensor | Number) -> ComplexTensor:
        """Copy ``source``, broadcast to this shape, into this tensor and return it."""
        shape = getattr(source, "shape", ())
        ends = zip(reversed(shape), reversed(self.shape), strict=False)
        if len(shape) > self.ndim or any(size not in (1, own) for size, own in ends):
            raise ShapeError(
                f"ComplexTensor: values of shape {tuple(shape)} do not fit in place into a tensor "
                f"of shape {tuple(self.shape)}"
            )
        self[...] = source
        return self

    def to(self, *args: Any, **kwargs: Any) -> ComplexTensor:
        """Return the tensor converted to another dtype or moved to another device.

        Takes the arguments of ``Tensor.to``. A complex dtype selects the dtype of its parts.
        """
        args = tuple(map(_as_part, args))
        kwargs = {name: _as_part(value) for name, value in kwargs.items()}
        if self._native is not None and all(map(keeps_native, (*args, *kwargs.values()))):
            args = tuple(NATIVE.get(value, value) for value in args)
            kwargs = {name: NATIVE.get(value, value) for name, value in kwargs.items()}
            return ComplexTensor.from_torch_complex(self._native.to(*args, **kwargs))
        re, im = self._split()
        return ComplexTensor._fitting(re.to(*args, **kwargs), im.to(*args, **kwargs))

    @classmethod
    def _fitting(cls, re: Tensor, im: Tensor) -> ComplexTensor:
        """Return a tensor of these parts, stored as a native complex tensor if possible."""
        if re.dtype in NATIVE and has_complex(re.device):
            return cls.from_torch_complex(torch.complex(re, im))
        return cls._of(Parts(re, im))

    def cpu(self) -> ComplexTensor:
        """Return the tensor on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> ComplexTensor:
        """Return the tensor on a CUDA device."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def share_memory_(self) -> ComplexTensor:
        """Move the values to shared memory and return this tensor."""
        for tensor in self._tensors():
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        return self

    def requires_grad_(self, requires_grad: bool = True) -> ComplexTensor:
        """Set whether autograd tracks this tensor, and return it; see ``z.grad``."""
        for tensor in self._tensors():
            tensor.requires_grad_(requires_grad)
        return self

    def backward(self, gradient: ComplexTensor | Tensor | None = None, **options: Any) -> None:
        """Compute the gradients of the leaves of this tensor's graph.

        Args:
            gradient: Gradient with respect to this tensor, in torch's convention for complex
                tensors.
            **options: Options of ``Tensor.backward``.
        """
        given: tuple[Tensor, ...] | None = None
        if gradient is not None:
            wanted = ComplexTensor(gradient).to(self.part_dtype)
            given = (wanted.to_torch_complex(),) if self.is_native else tuple(wanted._split())
        torch.autograd.backward(self._tensors(), given, **options)

    def retain_grad(self) -> None:
        """Store the gradient of this tensor even if it is not a leaf."""
        for tensor in self._tensors():
            tensor.retain_grad()

    def _evaluate(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return evaluate(ComplexTensor, function, args, kwargs)

    def _operate(self, function: Callable[..., Any], a: Any, b: Any) -> Any:
        # The two common cases, without a search through nested arguments.
        if isinstance(a, ComplexTensor) and isinstance(b, ComplexTensor):
            if a._native is not None and b._native is not None:
                return from_native(ComplexTensor, function(a._native, b._native), None)
            if a._parts is not None and b._parts is not None:
                result = RULES[function.__name__](function, a._parts, b._parts)
                if result is not NotImplemented:
                    return from_parts(ComplexTensor, result)
        return evaluate(ComplexTensor, function, (a, b), {})

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Compute a torch function whose arguments include a ComplexTensor."""
        return evaluate(ComplexTensor, function, args, kwargs or {})


def rebuilt(*tensors: Tensor) -> ComplexTensor:
    """Return the ComplexTensor of one native tensor or of two parts."""
    made = ComplexTensor.__new__(ComplexTensor)
    made._native, made._parts = (tensors[0], None) if len(tensors) == 1 else (None, Parts(*tensors))
    return made


def complex_matmul(a: ComplexTensor | Tensor, b: ComplexTensor | Tensor) -> ComplexTensor:
    """Return the matrix product of ``a`` and ``b``, with the shapes of ``torch.matmul``.

    Args:
        a: A ComplexTensor, or a native real or complex tensor.
        b: The second factor, of the same dtype. Float32 and float64 are multiplied as native
            complex matrices if the device supports them, other cases by four real products.

    Raises:
        ShapeError: The contracted dimensions differ, or the batches do not broadcast.
        DTypeError: An operand is not a tensor, or the two differ in dtype.
    """
    no_kernel("complex_matmul")
    z, w = (_operand(name, x) for name, x in (("a", a), ("b", b)))
    if z.dtype != w.dtype:
        raise DTypeError(f"complex_matmul: a and b must have one dtype, got {z.dtype}, {w.dtype}")
    check_product(z.shape, w.shape)
    if z._native is not None and w._native is not None:
        return ComplexTensor.from_torch_complex(torch.matmul(z._native, w._native))
    product = evaluate(ComplexTensor, torch.matmul, (z, w), {})
    assert isinstance(product, ComplexTensor)
    return product


# -- arguments -------------------------------------------------------------------------------------


def _as_part(value: Any) -> Any:
    """Return the argument of ``Tensor.to`` for a part: complex dtypes and tensors become real."""
    if isinstance(value, ComplexTensor):
        return value.real
    if isinstance(value, Tensor) and value.is_complex():
        return value.real
    return torch.float16 if value is torch.complex32 else PART.get(value, value)


def _operand(name: str, x: ComplexTensor | Tensor) -> ComplexTensor:
    if isinstance(x, ComplexTensor):
        return x
    check_tensor("complex_matmul", name, x)
    return ComplexTensor(x)
