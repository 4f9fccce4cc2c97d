"""``NkiTensor`` as a Python object: printing, comparing, assigning, and what it refuses."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.language as nl
from each_case import each_case
from tiles import loaded, stored


@nkisim.jit
def shows_itself(source):
    tile = loaded(source)
    print("printed", tile)
    print(f"formatted {tile}")
    nl.device_print("prefix", tile)
    nl.device_print("argument", source)
    return stored(tile)


def test_tensors_print_their_shape_type_memory_and_values(capsys):
    source = np.array([[1.5, -2.25], [1000, 7]], np.float32).astype(ml_dtypes.bfloat16)
    nkisim.check(shows_itself)(source)
    text = capsys.readouterr().out
    printed = text[text.index("printed") : text.index("formatted")]
    for piece in ("(2, 2)", "bfloat16", "sbuf", "1.5", "-2.25", "1000", "7"):
        assert piece in printed
    assert "1.5" in text[text.index("prefix") : text.index("argument")]
    assert "-2.25" in text[text.index("argument") :]
    assert "prefix" in text


@nkisim.jit
def compared_with_none(source):
    tile = loaded(source)
    assert (tile == None) is False  # noqa: E711
    assert (tile != None) is True  # noqa: E711
    assert tile is not None
    return stored(tile)


def test_a_tensor_is_not_none():
    source = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(nkisim.check(compared_with_none)(source).outputs, source)


OPERATORS = [
    lambda t, n: t + t,
    lambda t, n: t + 1.0,
    lambda t, n: 1.0 - t,
    lambda t, n: n * t,
    lambda t, n: t / n,
    lambda t, n: np.float32(2) ** t,
    lambda t, n: t // 2,
    lambda t, n: t % 2,
    lambda t, n: t & 1,
    lambda t, n: t << 1,
    lambda t, n: t > 0,
    lambda t, n: n > t,
    lambda t, n: -t,
    lambda t, n: abs(t),
    lambda t, n: sum([t, t]),
    lambda t, n: np.exp(t),
    lambda t, n: np.add(n, t),
]


@nkisim.jit
def operated(source, operator):
    operator(loaded(source), np.ones((2, 2), np.float32))
    return stored(loaded(source))


@each_case("operator", OPERATORS)
def test_tensors_have_no_operators(operator):
    with pytest.raises(TypeError, match=r"unsupported operand.*'NkiTensor'") as caught:
        nkisim.simulate(operated)(np.ones((2, 2), np.float32), operator)
    assert caught.value.rule_id == "L027"
    assert caught.value.finding.line == operator.__code__.co_firstlineno


def test_tensors_in_place_and_as_matrices():
    with pytest.raises(TypeError) as caught:
        nkisim.simulate(operated)(np.ones((2, 2), np.float32), lambda t, n: t @ t)
    assert caught.value.rule_id == "L026"

    def in_place(tensor, _):
        tensor += 1.0

    with pytest.raises(TypeError, match="unsupported operand"):
        nkisim.simulate(operated)(np.ones((2, 2), np.float32), in_place)


@nkisim.jit
def assigned(source):
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    tile[...] = loaded(source)
    out[0:1, :] = tile[1:2, :]
    out[1:2, :] = tile[0:1, :]
    return out


def test_subscript_assignment_copies_with_a_finding():
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    report = nkisim.check(assigned)(source)
    assert "L028" in report.codes
    np.testing.assert_array_equal(report.outputs, source[::-1])
