"""Messages between two processes: plain values and raw arrays, never pickles.

Neither side executes what the other sends: a message is JSON, followed by the bytes of its arrays.
Of an array that repeats one element, as ``numpy.broadcast_to`` makes, only that element is sent.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.dtypes import DTYPES, DType, as_dtype, bool_

MOST_BYTES = 1 << 32
"""Bytes of a message, above which it is refused."""

_PLAIN = (bool, int, float, str, type(None))
_HEADER = struct.Struct("<QQ")


def send(channel: socket.socket, value: Any) -> None:
    """Send a value.

    Raises:
        TypeError: It holds something that is neither plain nor an array.
    """
    arrays: list[np.ndarray] = []
    text = json.dumps(_packed(value, arrays)).encode()
    bodies = [np.ascontiguousarray(array).tobytes() for array in arrays]
    channel.sendall(_HEADER.pack(len(text), sum(map(len, bodies))) + text)
    for body in bodies:
        channel.sendall(body)


def receive(channel: socket.socket) -> Any:
    """Return the next value.

    Raises:
        EOFError: The other side has closed the channel.
        TimeoutError: The channel's timeout passed.
        ValueError: The bytes are no message.
    """
    length, size = _HEADER.unpack(_exactly(channel, _HEADER.size))
    if length + size > MOST_BYTES:
        raise ValueError(f"a message of {length + size:,} bytes")
    text, data = _exactly(channel, length), _exactly(channel, size)
    try:
        return _unpacked(json.loads(text), _Reader(data).take)
    except (KeyError, IndexError, TypeError, RecursionError) as error:
        raise ValueError(f"no message: {error}") from error


def _exactly(channel: socket.socket, count: int) -> bytearray:
    found = bytearray(count)
    view, filled = memoryview(found), 0
    while filled < count:
        got = channel.recv_into(view[filled:])
        if not got:
            raise EOFError
        filled += got
    return found


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (DType, np.dtype, type)) and (named := as_dtype(value)) is not None:
        return {"dtype": str(named)}  # before texts, of which a DType is one
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        known = as_dtype(value.dtype)
        if known is None and value.dtype.kind not in "biufc":
            raise TypeError(f"an array of {value.dtype}")
        # The device's bool is a byte to NumPy.
        name = value.dtype.str if known in (None, bool_) else str(known)
        repeats = value.size > 1 and not any(value.strides)
        arrays.append(value.reshape(-1)[:1] if repeats else value)
        return {"array": name, "shape": list(value.shape), "repeats": repeats}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_packed(part, arrays) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[_packed(k, arrays), _packed(v, arrays)] for k, v in value.items()]}
    raise TypeError(f"an object of {type(value).__name__}")


def _unpacked(value: Any, take: Callable[[np.dtype, tuple[int, ...]], np.ndarray]) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if "array" in value:
        known = DTYPES.get(value["array"])
        dtype = np.dtype(value["array"]) if known is None else known.numpy
        shape = tuple(value["shape"])
        if not value["repeats"]:
            return take(dtype, shape)
        if math.prod(shape) * dtype.itemsize > MOST_BYTES:
            raise ValueError(f"an array of {dtype} {shape}")
        return np.broadcast_to(take(dtype, ()), shape)
    if "dtype" in value:
        return DTYPES[value["dtype"]]
    if "dict" in value:
        return {_unpacked(k, take): _unpacked(v, take) for k, v in value["dict"]}
    parts = [_unpacked(part, take) for part in value["tuple" if "tuple" in value else "list"]]
    return tuple(parts) if "tuple" in value else parts


class _Reader:
    """The bytes behind a message's text, taken one array after the other."""

    def __init__(self, data: bytearray) -> None:
        self._data, self._at = data, 0

    def take(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Return the next array, which owns its elements' place in the message."""
        if dtype.hasobject or any(type(extent) is not int or extent < 0 for extent in shape):
            raise ValueError(f"an array of {dtype} {shape}")
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if self._at + count * dtype.itemsize > len(self._data):
            raise ValueError("an array without its elements")
        found = np.frombuffer(self._data, dtype, count, self._at).reshape(shape)
        self._at += count * dtype.itemsize
        return found
