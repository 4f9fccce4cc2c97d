"""Messages between processes: what arrives, what cannot be sent, and what is no message."""

import json
import socket
import struct

import numpy as np
import pytest

from nkisim.dtypes import DTYPES, as_dtype, bfloat16
from nkisim.judging import wire
from nkisim.judging.child import Limits

from ...each_case import each_case

KINDS = sorted({d.numpy.name for d in DTYPES.values()} | {"bool", "float64", "complex64", ">i2"})


def received(value, raw=b""):
    """Return what arrives of a value, or of raw bytes; little is sent, or the channel is full."""
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(5)
        if raw:
            here.sendall(raw)
        else:
            wire.send(here, value)
        here.close()
        return wire.receive(there)


@each_case("dtype", KINDS)
@each_case("shape", [(), (1,), (3, 5), (2, 0, 3)])
def test_arrays_arrive_with_their_bits(shape, dtype):
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    for sent in (value, value.T):
        found = received([sent, sent])[1]
        assert (found.dtype, found.shape) == (sent.dtype, sent.shape)
        assert (found.tobytes(), found.flags.writeable) == (sent.tobytes(), True)


def test_other_values_arrive_as_they_are():
    sent = {"a": [1, (2.5, None)], (1, "b"): {True: "text"}, 3: [], "e": ()}
    assert received(sent) == sent
    for dtype in (bfloat16, np.float32, np.dtype(np.uint8)):
        assert received(dtype) is as_dtype(dtype)  # and not its name
    repeated = np.broadcast_to(np.float32(2.5), (1000, 1000))  # of it, one element is sent
    first, two, one, number = received([repeated, repeated[:2, 0], repeated[:1, 0], np.float32(7)])
    assert (np.array_equal(first, repeated), first.strides) == (True, (0, 0))
    assert ([*two], two.strides) == ([2.5, 2.5], (0,))
    assert (one.flags.writeable, number) == (True, 7)


@each_case("value", [object(), {1}, object, np.array(["a"]), np.array([None]), b"bytes", [1j]])
def test_other_values_are_not_sent(value):
    with pytest.raises(TypeError, match=r"an (object|array) of"):
        received(value)


def array(dtype="<f4", shape=(2,), repeats=False):
    return {"array": dtype, "shape": shape, "repeats": repeats}


@each_case(
    "text, size",
    [
        *[(text, 0) for text in ("{", '{"list": [' * 10000 + "]}" * 10000)],
        *[(value, 8) for value in ({"list": 3}, {"shape": [2]}, {"dtype": "f99"}, [1])],
        *[(array(shape=shape), 8) for shape in ((-1,), (2.0,), 3)],
        *[(array(dtype), 16) for dtype in ("O", "none", "<c16")],
        *[(value, 7) for value in (array(), {"list": [array(shape=()), array(shape=(1,))]})],
        *[(array(shape=shape, repeats=True), 3) for shape in ((2,), (2**40, 2))],
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_message(text, size):
    text = (text if isinstance(text, str) else json.dumps(text)).encode()
    with pytest.raises(ValueError, match=r"no message|an array|double quotes|dtype"):
        received(None, struct.pack("<QQ", len(text), size) + text + bytes(size))


def test_sizes_up_to_the_limit(monkeypatch):
    assert Limits().memory >= wire.MOST_BYTES  # what no child could hold
    few = np.arange(10, dtype=np.float32)
    most = len(json.dumps(array("float32", [10]))) + few.nbytes
    repeated = np.broadcast_to(np.float64(1), 100)
    for value, limit in ((few, most), (repeated, repeated.nbytes)):
        monkeypatch.setattr(wire, "MOST_BYTES", limit)
        assert np.array_equal(received(value), value)
        monkeypatch.setattr(wire, "MOST_BYTES", limit - 1)
        with pytest.raises(ValueError, match=rf"a message of {limit} bytes|an array of float64"):
            received(value)
    with pytest.raises(EOFError):
        received(None, b"12")
