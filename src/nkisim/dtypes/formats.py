"""The number formats of kernels: recognition and promotion.

A ``DType`` is the format's NKI name with its layout attached. It is a ``str``, as in
``nki.language``, so it compares and hashes like the plain name and NumPy takes it as a dtype.

NumPy has no type for the x4 packs and tfloat32. Their names are entered in NumPy's own name table
(where ml_dtypes enters ``bfloat16``) as the storage type tagged with dtype metadata, so
``np.zeros(shape, nl.float8_e4m3fn_x4)`` works and ``as_dtype`` recognises the array again. The tag
survives slices, copies and reshapes. Functions that compute a new dtype (``np.concatenate``,
``np.stack``) drop it and return a plain uint32, uint16 or float32 array; ``array.view(dtype)`` tags
it again.
"""

from __future__ import annotations

from typing import Literal, cast

import ml_dtypes
import numpy as np

Kind = Literal["float", "int", "uint", "bool", "packed"]

#: Key of the dtype metadata that names the NKI format of a tagged NumPy dtype.
_TAG = "nki_dtype"


class DType(str):
    """The name of a number format, with its size and storage.

    Attributes:
        bits: Bits of one element; for an x4 pack, of the whole pack.
        itemsize: Bytes of one element in device memory.
        kind: ``"float"``, ``"int"``, ``"uint"``, ``"bool"`` or ``"packed"``.
        numpy: NumPy type that stores one element; plain, without a tag.
        max_finite: Largest finite value of a float format, else None.
    """

    __slots__ = ("bits", "itemsize", "kind", "max_finite", "numpy")

    bits: int
    itemsize: int
    kind: Kind
    numpy: np.dtype[np.generic]
    max_finite: float | None

    def __new__(
        cls, name: str, kind: Kind, storage: type[np.generic], max_finite: float | None = None
    ) -> DType:
        """Return the format ``name`` stored as the NumPy scalar type ``storage``."""
        self = super().__new__(cls, name)
        self.numpy = np.dtype(storage)
        self.itemsize = self.numpy.itemsize
        self.bits = 8 * self.itemsize
        self.kind = kind
        self.max_finite = max_finite
        return self

    @property
    def is_float(self) -> bool:
        """Whether elements are single floating-point numbers."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether elements are signed or unsigned integers; bool is not one."""
        return self.kind in ("int", "uint")

    def __reduce__(self) -> tuple[object, tuple[str]]:
        # Copies and unpickled kernels must get the single instance, attributes included.
        return _named, (str(self),)


def _named(name: str) -> DType:
    return DTYPES[name]


bool_ = DType("bool", "bool", np.uint8)
int8 = DType("int8", "int", np.int8)
uint8 = DType("uint8", "uint", np.uint8)
int16 = DType("int16", "int", np.int16)
uint16 = DType("uint16", "uint", np.uint16)
int32 = DType("int32", "int", np.int32)
uint32 = DType("uint32", "uint", np.uint32)
# Only scalars have this dtype, from NKI 0.7.0 on.
int64 = DType("int64", "int", np.int64)
# Largest finite value: (2 - 2^-fraction bits) * 2^largest exponent, less one step for e4m3fn, whose
# last pattern is NaN.
float8_e4m3 = DType("float8_e4m3", "float", ml_dtypes.float8_e4m3, 240.0)
float8_e4m3fn = DType("float8_e4m3fn", "float", ml_dtypes.float8_e4m3fn, 448.0)
float8_e5m2 = DType("float8_e5m2", "float", ml_dtypes.float8_e5m2, 57344.0)
# Powers of two: eight exponent bits, neither sign nor zero, 0xFF is NaN. NKI documents it from
# 0.5.0 on.
float8_e8m0fnu = DType("float8_e8m0fnu", "float", ml_dtypes.float8_e8m0fnu, 2.0**127)
float16 = DType("float16", "float", np.float16, 65504.0)
bfloat16 = DType("bfloat16", "float", ml_dtypes.bfloat16, (2 - 2.0**-7) * 2.0**127)
tfloat32 = DType("tfloat32", "float", np.float32, (2 - 2.0**-10) * 2.0**127)
float32 = DType("float32", "float", np.float32, (2 - 2.0**-23) * 2.0**127)
float8_e4m3fn_x4 = DType("float8_e4m3fn_x4", "packed", np.uint32)
float8_e5m2_x4 = DType("float8_e5m2_x4", "packed", np.uint32)
float4_e2m1fn_x4 = DType("float4_e2m1fn_x4", "packed", np.uint16)

#: The unsigned integer of as many bytes, for bit patterns.
UNSIGNED: dict[int, np.dtype[np.generic]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}

#: Every format by its NKI name.
DTYPES: dict[str, DType] = {
    str(d): d
    for d in (
        bool_,
        int8,
        uint8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float8_e4m3,
        float8_e4m3fn,
        float8_e5m2,
        float8_e8m0fnu,
        float16,
        bfloat16,
        tfloat32,
        float32,
        float8_e4m3fn_x4,
        float8_e5m2_x4,
        float4_e2m1fn_x4,
    )
}

_ALIASES = DTYPES | {"bool_": bool_, "float8e4": float8_e4m3, "float8e5": float8_e5m2}

_TAGGED = (tfloat32, float8_e4m3fn_x4, float8_e5m2_x4, float4_e2m1fn_x4)

_BY_NUMPY: dict[np.dtype[np.generic], DType] = {
    d.numpy: d for d in DTYPES.values() if d not in _TAGGED and d is not bool_
} | {np.dtype(np.bool_): bool_}


def _register_names() -> None:
    """Register names that NumPy has no type for as tagged storage types."""
    # The stubs allow only types as values; np.dtype() accepts a dtype too.
    names = cast(dict[str, object], np.sctypeDict)
    for d in _TAGGED:
        names[str(d)] = np.dtype(d.numpy, metadata={_TAG: str(d)})


_register_names()


def as_dtype(obj: object) -> DType | None:
    """Return the format that ``obj`` names or holds, or None if the device has no such format.

    Args:
        obj: A ``DType``, a format name (``float8e4``, ``float8e5`` and ``bool_`` included), a NumPy
            dtype, a NumPy or ml_dtypes scalar type, or anything with a ``dtype`` of these kinds.
    """
    if isinstance(obj, DType):
        return obj
    if isinstance(obj, np.dtype):
        if obj.metadata is not None and _TAG in obj.metadata:
            return DTYPES[obj.metadata[_TAG]]
        return _BY_NUMPY.get(obj)
    if isinstance(obj, str):
        return _ALIASES.get(obj)
    if isinstance(obj, type):
        if issubclass(obj, (np.generic, bool)):
            return _BY_NUMPY.get(np.dtype(obj))
        return None
    inner = getattr(obj, "dtype", None)
    # A dtype that carries itself as its dtype would recurse for ever.
    return None if inner is None or inner is obj else as_dtype(inner)


def promote(a: DType, b: DType) -> DType:
    """Return the format of an ``nl`` operation on operands of formats ``a`` and ``b``.

    A float wins over an integer. Of two floats or two integers the wider wins; where neither holds
    the values of the other the result is the next format that holds both: float16 with bfloat16
    gives float32, two different 8-bit floats give bfloat16, int8 with uint8 gives int16, and a
    signed type with uint32 gives float32, since the device has no 64-bit integers. Zero and one fit
    every format, so bool never widens the other operand.

    Raises:
        TypeError: One format is an x4 pack and the other is not the same pack.
    """
    if a is b:
        return a
    if "packed" in (a.kind, b.kind):
        raise TypeError(f"promote: x4 packs do not mix with other formats, got {a} and {b}")
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_float:
        return _promote_floats(a, b)
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return {8: int16, 16: int32, 32: float32}[unsigned.bits]


def _promote_floats(a: DType, b: DType) -> DType:
    if a.bits == b.bits:
        # tfloat32 is stored in 32 bits, so (tfloat32, float32) lands here as well.
        return bfloat16 if a.bits == 8 else float32
    return a if a.bits > b.bits else b
