"""A complex tensor for every dtype and device, also where torch has no complex numbers.

``ComplexTensor`` holds a native complex tensor wherever the dtype and the device have one, and two
real parts only elsewhere: bfloat16 and float16, and devices such as a NeuronCore. It computes in
the form in which it is held, so that neither a transform nor a product takes apart what torch keeps
together, and a tensor of parts never meets a complex dtype. Torch functions accept it through
``__torch_function__``; what the table in ``_complex_functions`` does not know is computed by torch
on a native complex tensor.
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
from trnsci.core.errors import DTypeError, ShapeError

__all__ = ["ComplexTensor", "complex_matmul", "rebuilt"]

COMPLEX = {torch.float16: torch.complex32, **NATIVE}


class ComplexTensor(ComplexMethods):
    """A complex tensor with the parts ``real`` and ``imag``.

    Args:
        real: The real part, of any floating dtype (integers become the default one); or, without
            ``imag``, a native complex tensor, which is shared and not copied.
        imag: The imaginary part, of the shape, dtype and device of ``real``; zero by default.

    Parts that are the two interleaved halves of one complex tensor are shared too. Others of
    float32 and float64 are joined, which copies them; where there are no complex numbers they are
    kept, and copied only where they are not contiguous. ``z.dtype`` is the complex dtype,
    ``z.part_dtype`` that of a part; bfloat16 has no complex dtype, and is both.

    Raises:
        ShapeError: The parts differ in shape.
        DTypeError: They differ in dtype, or one is not a tensor of real numbers.

    Example:
        >>> z = ComplexTensor(torch.tensor([3.0, 0.0]), torch.tensor([4.0, 1.0]))
        >>> z.abs()
        tensor([5., 1.])
        >>> (2j * z).to_torch_complex()
        tensor([-8.+6.j, -2.+0.j])
    """

    __slots__ = ("__weakref__", "_native", "_parts")
    # NumPy leaves operators between its scalars and a ComplexTensor to the latter, as to a Tensor.
    __array_priority__ = 1000

    _native: Tensor | None
    _parts: Parts | None

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
        """Keep a native complex tensor, or its parts where torch cannot compute with it."""
        native = native.resolve_conj()  # so that its parts are ordinary views
        if native.dtype in PART:
            self._native, self._parts = native, None
        else:
            self._native, self._parts = None, Parts(*torch.view_as_real(native).unbind(-1))

    # -- made from, and made into ------------------------------------------------------------------

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
    def _of(cls, parts: Parts) -> ComplexTensor:
        """Return a tensor that keeps ``parts`` as they are, views included."""
        made = cls.__new__(cls)
        made._native, made._parts = None, parts
        return made

    def to_torch_complex(self) -> Tensor:
        """Return the native complex tensor: the one this was made from, else a new one.

        Parts of float16 become complex32. Bfloat16 has no complex dtype and becomes complex64.
        """
        if self._native is not None:
            return self._native
        re, im = self._split()
        if re.dtype == torch.bfloat16:
            re, im = re.float(), im.float()
        return torch.complex(re, im)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array; it shares memory where the tensor was made from a native one."""
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
                f"ComplexTensor: torch has no complex numbers on {re.device}, and no rule computes "
                "this on the two parts; move the tensor to the CPU first"
            )
        return torch.complex(re, im)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def real(self) -> Tensor:
        """The real part; writing into it changes this tensor."""
        return self._split().re

    @real.setter
    def real(self, value: Tensor | float) -> None:
        self._split().re[...] = value

    @property
    def imag(self) -> Tensor:
        """The imaginary part; writing into it changes this tensor."""
        return self._split().im

    @imag.setter
    def imag(self, value: Tensor | float) -> None:
        self._split().im[...] = value

    @property
    def _first(self) -> Tensor:
        """A tensor with the shape, the device and the autograd state of this one."""
        return self._native if self._native is not None else self._split().re

    @property
    def shape(self) -> torch.Size:
        """The shape."""
        return self._first.shape

    @property
    def dtype(self) -> torch.dtype:
        """The complex dtype; that of a part where there is none, as for bfloat16."""
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
        """The gradient that ``backward`` left, in torch's convention for complex tensors."""
        native = self._native
        if native is not None:
            # Asking a tensor that keeps none makes torch warn.
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
        """Whether one native complex tensor is held, and not two parts."""
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
        """Return whether the only element is not zero."""
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
        """Return how pickle and copy make it again, in the form in which it is held."""
        return rebuilt, self._tensors()

    def _tensors(self) -> tuple[Tensor, ...]:
        """Return what is held: one native tensor, or two parts."""
        return (self._native,) if self._native is not None else tuple(self._split())

    # -- elements, devices, gradients --------------------------------------------------------------

    def __getitem__(self, key: Any) -> ComplexTensor:
        """Return the entries at ``key``; a view where torch returns one."""
        if self._native is not None:
            return ComplexTensor.from_torch_complex(self._native[key])
        re, im = self._split()
        return ComplexTensor._of(Parts(re[key], im[key]))

    def __setitem__(self, key: Any, value: ComplexTensor | Tensor | Number) -> None:
        """Store ``value`` at ``key``, in the dtype of this tensor."""
        if isinstance(value, (ComplexTensor, Tensor)):
            value = ComplexTensor(value).to(self.part_dtype)
        if self._native is not None:
            self._native[key] = to_native(value)
            return
        re, im = self._split()
        re[key], im[key] = split(to_parts(value))

    def copy_(self, source: ComplexTensor | Tensor | Number) -> ComplexTensor:
        """Store ``source``, broadcast to this shape, and return this tensor."""
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
        """Return it with another dtype of the parts or on another device.

        Takes the arguments of ``Tensor.to``; a complex dtype means that of its parts.
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
        """Return a tensor of these parts, held natively where that is possible."""
        if re.dtype in NATIVE and has_complex(re.device):
            return cls.from_torch_complex(torch.complex(re, im))
        return cls._of(Parts(re, im))

    def cpu(self) -> ComplexTensor:
        """Return it on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> ComplexTensor:
        """Return it on a CUDA device."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def share_memory_(self) -> ComplexTensor:
        """Move the values to memory that processes share, and return this tensor."""
        for tensor in self._tensors():
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        return self

    def requires_grad_(self, requires_grad: bool = True) -> ComplexTensor:
        """Let autograd track this tensor, and return it; ``z.grad`` has the gradient later."""
        for tensor in self._tensors():
            tensor.requires_grad_(requires_grad)
        return self

    def backward(self, gradient: ComplexTensor | Tensor | None = None, **options: Any) -> None:
        """Compute the gradients of what this tensor was made from.

        Args:
            gradient: That with respect to this tensor, in torch's convention for complex tensors.
            **options: Those of ``Tensor.backward``.
        """
        given: tuple[Tensor, ...] | None = None
        if gradient is not None:
            wanted = ComplexTensor(gradient).to(self.part_dtype)
            given = (wanted.to_torch_complex(),) if self.is_native else tuple(wanted._split())
        torch.autograd.backward(self._tensors(), given, **options)

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor, also where it is no leaf."""
        for tensor in self._tensors():
            tensor.retain_grad()

    def _evaluate(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return evaluate(ComplexTensor, function, args, kwargs)

    def _operate(self, function: Callable[..., Any], a: Any, b: Any) -> Any:
        # The two usual cases first, without a search through nested arguments.
        if isinstance(a, ComplexTensor) and isinstance(b, ComplexTensor):
            if a._native is not None and b._native is not None:
                return from_native(ComplexTensor, function(a._native, b._native), None)
            if a._parts is not None and b._parts is not None:
                result = RULES[function](function, a._parts, b._parts)
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
        """Compute a torch function of ComplexTensors, and of other tensors beside them."""
        return evaluate(ComplexTensor, function, args, kwargs or {})


def rebuilt(*tensors: Tensor) -> ComplexTensor:
    """Return the ComplexTensor that holds these: one native tensor, or two parts."""
    made = ComplexTensor.__new__(ComplexTensor)
    made._native, made._parts = (tensors[0], None) if len(tensors) == 1 else (None, Parts(*tensors))
    return made


def complex_matmul(a: ComplexTensor | Tensor, b: ComplexTensor | Tensor) -> ComplexTensor:
    """Return the matrix product of ``a`` and ``b``, with the shapes of ``torch.matmul``.

    Args:
        a: A ComplexTensor or a native tensor, real ones included.
        b: Another, of the same dtype. Float32 and float64 are multiplied as native complex
            matrices where the device has them, everything else by four real products.

    Raises:
        ShapeError: The contracted dimensions differ, or the batches do not broadcast.
        DTypeError: An operand is not a tensor, or the two differ in dtype.
    """
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
    """Return an argument of ``Tensor.to`` for a part: its dtype or tensor in place of a complex."""
    if isinstance(value, ComplexTensor):
        return value.real
    if isinstance(value, Tensor) and value.is_complex():
        return value.real
    return torch.float16 if value is torch.complex32 else PART.get(value, value)


def _operand(name: str, x: ComplexTensor | Tensor) -> ComplexTensor:
    if isinstance(x, ComplexTensor):
        return x
    if not isinstance(x, Tensor):
        raise DTypeError(f"complex_matmul: {name} must be a tensor, got {type(x).__name__}")
    return ComplexTensor(x)
