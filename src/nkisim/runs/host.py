"""The host boundary: arguments become HBM tensors, results become the caller's kind of array.

torch is never imported. The torch module is taken from a torch tensor, whose memory is accessed
through NumPy.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nkisim.diagnostics import Place, declare, defined_at, flag
from nkisim.dtypes import DTYPES, DType, as_dtype
from nkisim.machine import Core
from nkisim.machine.accesses import confirm_garbage, with_sentinel
from nkisim.memory import (
    Lifetime,
    MemoryRegion,
    NkiTensor,
    is_hbm,
    require_dtype,
)
from nkisim.objects import parts_of, rebuilt
from nkisim.source import with_parameters
from nkisim.typing import AnnotationError, TensorSpec, tensor
from nkisim.versions.rules import held, is_off

ANNOTATION = declare(
    "L064",
    "annotation-mismatch",
    "An argument does not have the shape or dtype that its nt.tensor annotation demands.",
    "the front end refuses the call",
    meaningless=True,
)
LIST_ARGUMENT = declare(
    "A018",
    "list-argument",
    "A kernel argument, or the default of one, is a list.",
    "0.3.0 takes tuples only",
)
KEYWORD_ONLY = declare(
    "A016",
    "keyword-only-parameter",
    "A kernel's signature has a keyword-only separator.",
    "the 0.3.0 compiler does not support * in kernel signatures",
)
NO_TENSOR_ARGUMENT = declare(
    "L066",
    "no-tensor-argument",
    "A kernel is called without any tensor.",
    "the front end needs at least one tensor argument",
)
NOT_RETURNED = declare(
    "M029",
    "argument-not-returned",
    "A kernel writes an argument that it does not return.",
    "whether the caller sees the write depends on the framework",
    severity="warning",
)

# torch dtypes without a NumPy equivalent are passed as integers of the same width.
_TORCH_BITS = {
    "bfloat16": "int16",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "float8_e8m0fnu": "uint8",
}
# torch has no float8_e4m3. Its finite values have the same bits in float8_e4m3fn, which has no
# infinity: that becomes NaN.
_TORCH_NEAREST = {"float8_e4m3": "float8_e4m3fn"}


@dataclass(eq=False)
class HostBoundary:
    """Converts the arguments and the results of one call."""

    _function: Callable[..., Any]
    _parameters: list[inspect.Parameter]
    _core: Core
    _region: MemoryRegion
    _inputs: list[tuple[str, Any, NkiTensor]] = field(default_factory=list)
    _given_away: set[Lifetime] = field(default_factory=set)
    _torch_device: Any = None
    _uses_torch: bool = False

    # -- in ----------------------------------------------------------------------------------------

    def bring_in(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments with every array replaced by an HBM tensor."""
        names = argument_names(self._parameters, len(args))
        met: dict[int, Any] = {}
        positional = [
            rebuilt(value, self._convert, name, met)
            for name, value in zip(names, args, strict=True)
        ]
        named = {name: rebuilt(v, self._convert, name, met) for name, v in kwargs.items()}
        self._check_signature(dict(zip(names, args, strict=True)) | kwargs)
        given = dict(zip(names, positional, strict=True)) | named
        self._check_annotations(given)
        if not self._inputs and given:
            flag(
                NO_TENSOR_ARGUMENT,
                f"kernel {kernel_name(self._function)} is called without a tensor argument",
                seen=", ".join(given),
                fix="pass at least one array",
                place=definition_place(self._function),
            )
        return positional, named

    def _convert(self, name: str, value: Any) -> Any:
        """Return an array as a tensor, and any other value unchanged."""
        found = array_of(name, value)
        if found is None:
            return value
        array, dtype = found
        if _is_torch(value):
            self._uses_torch = True
            self._torch_device = value.device
        kept = value if _is_torch(value) or isinstance(value, np.ndarray) else None
        return self._tensor(name, kept, array, dtype)

    def _tensor(
        self, name: str, original: Any, array: np.ndarray, dtype: DType | None
    ) -> NkiTensor:
        found = self._core.memory.argument(
            array,
            self._region,
            name,
            dtype or as_dtype(array.dtype.newbyteorder("=")),
            lent=self._core.plain and array.flags.carray,
        )
        self._inputs.append((name, original, found))
        return found

    def _check_signature(self, given: dict[str, Any]) -> None:
        defaults = {p.name: p.default for p in self._parameters}
        for name, value in (defaults | given).items():
            if isinstance(value, list):
                flag(
                    LIST_ARGUMENT,
                    f"argument {name} is a list",
                    operand=name,
                    seen="list",
                    allowed="a tuple",
                    fix=f"pass a tuple for {name}",
                    place=definition_place(self._function),
                    severity=held("A018").level,
                )
        only = [p.name for p in self._parameters if p.kind is p.KEYWORD_ONLY]
        if only and not is_off("A016"):
            flag(
                KEYWORD_ONLY,
                f"kernel {kernel_name(self._function)} has keyword-only parameters: "
                f"{', '.join(only)}",
                seen=", ".join(only),
                fix="remove the * and put parameters with defaults last",
                place=definition_place(self._function),
            )

    def _check_annotations(self, given: dict[str, Any]) -> None:
        extents: dict[str, int] = {}
        for name, spec in tensor_annotations(self._function).items():
            value = given.get(name)
            if not isinstance(value, NkiTensor):
                continue
            wrong = spec.mismatch(value.shape, value.dtype, extents)
            if wrong:
                flag(
                    ANNOTATION,
                    f"argument {name} has {wrong}",
                    operand=name,
                    seen=f"{value.dtype} {value.shape}",
                    allowed=spec,
                    fix="pass an array of the annotated shape, or correct the annotation",
                    place=definition_place(self._function),
                )

    @property
    def arguments(self) -> list[tuple[str, NkiTensor]]:
        """The argument tensors, with their names."""
        return [(name, found) for name, _, found in self._inputs]

    def inputs_are_finite(self) -> bool:
        """Return whether no argument had NaN or infinity, before the kernel wrote to it."""
        for name, original, found in self._inputs:
            array = found._elements
            if found.life.first_use >= 0 and original is not None:
                array = _from_torch(name, original)[0] if _is_torch(original) else original
            if found.dtype.is_float and not np.isfinite(array).all():
                return False
        return True

    # -- out ---------------------------------------------------------------------------------------

    def carry_out(self, result: Any) -> Any:
        """Update the inputs that were written; return the results as the caller's kind of array."""
        self._update_inputs(result)
        return rebuilt(result, self._export) if self._core.values else None

    def _update_inputs(self, result: Any) -> None:
        returned = {t.life for t in tensors_of(result)}
        for name, original, found in self._inputs:
            if found.life.first_use < 0 or original is None:
                continue
            lost = isinstance(original, np.ndarray) and not original.flags.writeable
            if self._core.values and not lost:
                _assign(original, found)
            if found.life not in returned:
                confirm_garbage(found, f"argument {name}, which the caller sees")
                flag(
                    NOT_RETURNED,
                    f"the kernel writes argument {name} and does not return it"
                    + ("; the array is read-only, so the write is lost" if lost else ""),
                    operand=name,
                    seen=found.describe(),
                    fix="return the argument, or write to a tensor in nl.shared_hbm and return "
                    "that",
                    place=definition_place(self._function),
                )

    def _exported(self, tensor: NkiTensor) -> np.ndarray:
        """Return a result's elements, without a copy if nothing else uses the tensor."""
        hidden = tensor._storage.unwritten(tensor.region)
        alone = tensor.whole and not tensor.origin.is_argument and is_hbm(tensor.buffer)
        if hidden is None and alone and tensor.life not in self._given_away:
            self._given_away.add(tensor.life)
            return tensor._elements
        return np.array(with_sentinel(tensor, hidden))

    def _export(self, _: str, result: Any) -> Any:
        if not isinstance(result, NkiTensor):
            return result
        array = self._exported(result)
        if result.dtype.kind == "bool":
            array = array.astype(bool)
        return _to_torch(array, result.dtype, self._torch_device) if self._uses_torch else array


def array_of(name: str, value: Any) -> tuple[np.ndarray, DType | None] | None:
    """Return an array argument as a NumPy array, with its dtype where NumPy may not have it.

    None for a value that is no array.
    """
    if isinstance(value, np.ndarray):
        return value, None
    if value is None or isinstance(value, (bool, int, float, str)):
        return None
    if _is_torch(value):
        return _from_torch(name, value)
    if isinstance(value, (type, np.generic, np.dtype)):
        return None
    if hasattr(value, "__array__") and hasattr(value, "shape"):
        return np.asarray(value), None
    return (np.from_dlpack(value), None) if hasattr(value, "__dlpack__") else None


def tensors_of(result: Any) -> list[NkiTensor]:
    """Return the tensors in a kernel's return value."""
    if isinstance(result, NkiTensor):
        return [result]
    return [tensor for _, part in parts_of(result) for tensor in tensors_of(part)]


def _assign(original: Any, found: NkiTensor) -> None:
    """Write a tensor back into the caller's array."""
    array = found._elements
    if isinstance(original, np.ndarray):
        original[...] = array if array.dtype == original.dtype else array.astype(original.dtype)
        return
    torch = sys.modules["torch"]
    with torch.no_grad():
        original.copy_(_to_torch(np.array(array), found.dtype, original.device))


def argument_names(parameters: list[inspect.Parameter], count: int) -> list[str]:
    """Return the names of the first ``count`` positional arguments of a call."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [p.name for p in parameters if p.kind in positional]
    return known[:count] + [f"argument {i}" for i in range(len(known), count)]


_MOST_PARTS = 4
_LONGEST_VALUE = 40


def described(value: Any) -> str:
    """Return an argument as text: an array by dtype and shape, a number or a string as it is."""
    if isinstance(value, (bool, int, float, str, np.generic)) or value is None:
        text = repr(value.item() if isinstance(value, np.generic) else value)
        return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
    if isinstance(value, type):
        return value.__name__
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        name = str(as_dtype(dtype) or dtype).removeprefix("torch.")
        return f"{name}[{','.join(map(str, shape))}]"
    if type(value) in (tuple, list, dict):
        parts = [described(part) for _, part in parts_of(value)[:_MOST_PARTS]]
        return f"({', '.join([*parts, *(['...'] if len(value) > _MOST_PARTS else [])])})"
    return type(value).__name__


def digest(value: Any) -> str:
    """Return a hash of the arrays, numbers and strings in a value, and of the types of the rest."""
    from hashlib import blake2b

    found = blake2b(digest_size=16)
    _hash(value, found.update)
    return found.hexdigest()


def _hash(value: Any, update: Callable[[bytes], object]) -> None:
    parts = parts_of(value)
    for path, part in parts:
        update(path.encode())
        _hash(part, update)
    if parts:
        return
    update(described(value).encode())
    if _is_torch(value):
        value = _from_torch("", value)[0]
    if isinstance(value, (np.ndarray, np.generic)):
        update(value.tobytes())
    elif isinstance(value, (bool, int, float, str)):
        update(repr(value).encode())


def kernel_name(function: Callable[..., Any]) -> str:
    """Return the name of a kernel function, or of the class of a callable object."""
    return getattr(function, "__name__", type(function).__name__)


def definition_place(function: Callable[..., Any]) -> Place:
    """Return the file and line of a kernel's definition."""
    written = inspect.unwrap(function) if hasattr(function, "__wrapped__") else function
    code = getattr(written, "__code__", None) or getattr(type(written).__call__, "__code__", None)
    return Place("<unknown>", 0) if code is None else defined_at(code)


def kernel_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a kernel, or an empty list if Python has no signature for it."""
    try:
        called = with_parameters(function)
        return list(inspect.signature(called, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):
        return []


def tensor_annotations(function: Callable[..., Any]) -> dict[str, TensorSpec]:
    """Return the ``nt.tensor`` annotations of a kernel, evaluated if they are strings."""
    try:
        raw = inspect.get_annotations(function)
    except Exception:  # names that only type checkers can resolve
        return {}
    found = {}
    for name, value in raw.items():
        if isinstance(value, str):
            try:
                value = _evaluated(value, getattr(function, "__globals__", {}))
            except AnnotationError:
                raise
            except Exception:
                # Text, or names that only type checkers can resolve: without effect.
                continue
        if value is tensor:
            value = TensorSpec()
        if isinstance(value, TensorSpec):
            found[name] = value
    return found


def _evaluated(annotation: str, names: dict[str, Any]) -> Any:
    """Evaluate an annotation that is a string, independently of the others."""
    holder = type("holder", (), {"__annotations__": {"only": annotation}})
    return inspect.get_annotations(holder, globals=names, locals={}, eval_str=True)["only"]


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _from_torch(name: str, value: Any) -> tuple[np.ndarray, DType]:
    """Return a torch tensor as a NumPy array, and its dtype, which NumPy may not have."""
    torch = sys.modules["torch"]
    dtype = require_dtype(str(value.dtype).removeprefix("torch."), f"argument {name}")
    host = value.detach().cpu().resolve_neg()
    bits = _TORCH_BITS.get(str(dtype))
    if bits is None:
        return host.numpy(), dtype
    return host.contiguous().view(getattr(torch, bits)).numpy().view(dtype.numpy), dtype


def _to_torch(array: np.ndarray, dtype: DType, device: Any) -> Any:
    """Return a NumPy array as a torch tensor of the same dtype, or the nearest that torch has."""
    torch = sys.modules["torch"]
    name = _TORCH_NEAREST.get(str(dtype), str(dtype))
    bits = _TORCH_BITS.get(name)
    if bits is None or array.dtype != dtype.numpy:
        plain = torch.from_numpy(array)
    else:
        stored = array.astype(DTYPES[name].numpy, copy=False)
        plain = torch.from_numpy(stored.view(np.dtype(bits))).view(getattr(torch, name))
    return plain.to(device)
