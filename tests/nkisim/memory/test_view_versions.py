"""Tensors in each NKI version: members, signatures, indices, ``reshape`` and ``ap``."""

import inspect
import json
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim import NkiValidationError

from .harness_views import follow, numbered, shape_after

DOCUMENTED = {
    version: json.loads((files("nkisim.versions") / f"{version}.json").read_text())["nki.language"][
        "classes"
    ]["NkiTensor"]
    for version in ("0.4.0", "0.5.0", "0.6.0")
}


@nkisim.jit
def read_view(source, steps, buffer):
    tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    nisa.dma_copy(dst=tensor, src=source)
    view = follow(tensor, steps)
    out = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=view)
    return out


def rule_of(shape, steps, buffer=nl.sbuf, nki="0.6"):
    """The rule that a chain of methods breaks."""
    with pytest.raises(NkiValidationError) as caught:
        shape_after(shape, steps, buffer, nki)
    return caught.value.finding.rule.id


# indices, reshape and ap


@each_case(
    "index, old, new",
    [
        (3, (4, 6), (1, 4, 6)),
        ((3, 0), (1, 6), (1, 6)),
        ((3, 0, 2), (1, 1), (1, 1)),
        ((slice(None), 0, 2), (8, 1), (8, 1)),
        ((3, ..., slice(0, 2)), (4, 2), (1, 4, 2)),
        ((slice(None), 0), (8, 6), (8, 6)),
    ],
)
def test_an_integer_keeps_the_partition_dimension_from_0_5_on(index, old, new):
    step = [("__getitem__", index)]
    for version, expected in (("0.3", old), ("0.4", old), ("0.5", new), ("0.6", new)):
        assert shape_after((8, 4, 6), step, nki=version) == expected


def test_integers_remove_dimensions_of_hbm():
    for version, last in (("0.3", ()), ("0.5", ()), ("0.6", (1,))):
        assert shape_after((8, 4), [("__getitem__", 3)], nl.shared_hbm, version) == (4,)
        assert shape_after((8, 4), [("__getitem__", (3, 1))], nl.shared_hbm, version) == last


def findings_of(steps, nki, shape=(8, 24)):
    def kernel(x):
        follow(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf), steps)
        return x

    report = nkisim.check(kernel, nki=nki)(np.ones((2, 2), np.float32))
    return {finding.rule.id for finding in report.findings}


@each_case(
    "steps, rule, until",
    [
        ([("__getitem__", (slice(None), slice(0, 12))), ("reshape", (8, 3, 4))], "S016", "0.4"),
        ([("__getitem__", (slice(None), slice(0, 12))), ("ap", [[24, 8], [1, 4]])], "S020", "0.4"),
        ([("__getitem__", (slice(None), -1))], "S010", "0.5"),
        ([("reshape", (8, 4, 6)), ("__getitem__", 3)], "S015", "0.4"),
    ],
)
def test_what_later_versions_allow_is_found_before_them(steps, rule, until):
    for version in ("0.3", "0.4", "0.5", "0.6"):
        assert (rule in findings_of(steps, version)) == (version <= until), version


def test_ap_adds_the_start_of_the_view():
    """Steps count elements of the memory; the offset is added to the view's."""
    data = numbered((8, 24))
    flat = data.reshape(-1)
    cut = ("__getitem__", (slice(2, 8), slice(4, 24)))
    for offset, first in (((), 2 * 24 + 4), ((0,), 2 * 24 + 4), ((5,), 2 * 24 + 9)):
        for buffer in (nl.sbuf, nl.shared_hbm):
            steps = (cut, ("ap", ((24, 3), (2, 4)), *offset))
            got = nkisim.simulate(read_view, nki="0.6")(data, steps, buffer)
            expected = [[flat[first + 24 * i + 2 * j] for j in range(4)] for i in range(3)]
            np.testing.assert_array_equal(got, expected)


def test_ap_of_another_type_starts_at_the_same_byte():
    data = numbered((8, 24))
    steps = (("slice", 1, 6, 24), ("ap", ((48, 8), (1, 4)), None, None, None, 0, nl.int16))
    got = nkisim.simulate(read_view, nki="0.6")(data, steps, nl.sbuf)
    np.testing.assert_array_equal(got, data.view(np.int16)[:, 12:16])
    assert (
        rule_of(
            (8, 24),
            [
                ("view", nl.int16),
                ("slice", 1, 1, 9),
                ("ap", [[24, 8], [1, 2]], None, None, None, 0, nl.int32),
            ],
        )
        == "S019"
    )


@given(st.data())
def test_reshape_of_a_part_is_numpys_where_no_copy_is_needed(data):
    rows, a, b = (data.draw(st.integers(1, 6)) for _ in range(3))
    array = numbered((rows, a, b))
    start, end = sorted((data.draw(st.integers(0, a - 1)), data.draw(st.integers(1, a))))
    if start == end:
        return
    part = array[:, start:end]
    got = nkisim.simulate(read_view, nki="0.5")(
        array, (("slice", 1, start, end), ("reshape", (rows, (end - start) * b))), nl.sbuf
    )
    np.testing.assert_array_equal(got, part.reshape(rows, -1))


# attributes and descriptions


def described(tensor):
    return tensor.shape, tensor.strides, tensor.offset, tensor.ndim, tensor.size


def test_strides_and_offset_place_every_element():
    """Element (i, j, ...) lies at offset + sum of strides * index of the flattened tensor."""

    def kernel(x):
        for buffer in (nl.sbuf, nl.psum, nl.shared_hbm):
            tensor = nl.ndarray((8, 4, 6), dtype=nl.float32, buffer=buffer)
            assert described(tensor) == ((8, 4, 6), (24, 6, 1), 0, 3, 192)
            part = tensor[2:6, 1, ::2].expand_dim(1).permute((0, 2, 1))
            assert described(part) == ((4, 3, 1), (24, 2, part.strides[2]), 54, 3, 12)
            assert part.get_pattern() == [
                list(p) for p in zip(part.strides, part.shape, strict=True)
            ]
            assert tensor.slice(1, 1, 2).broadcast(1, 5).strides == (24, 0, 1)
        return x

    nkisim.simulate(kernel, nki="0.6")(np.ones((2, 2), np.float32))


def test_patterns_that_go_backwards_have_negative_strides():
    def kernel(x):
        tile = nl.ndarray((8, 5), dtype=nl.float32, buffer=nl.sbuf)
        assert tile.ap([[5, 8], [-1, 5]], offset=4).get_pattern() == [[5, 8], [-1, 5]]
        return x

    nkisim.simulate(kernel)(np.ones((2, 2), np.float32))


@each_case(
    "steps, on_chip, in_hbm",
    [
        ([], True, True),
        ([("permute", (0, 2, 1))], False, False),
        ([("slice", 0, 0, 4)], True, True),
        ([("slice", 0, 0, 4, 2)], True, False),
        ([("slice", 1, 0, 2)], True, False),
        ([("slice", 2, 0, 2)], False, False),
        ([("slice", 1, 1, 2), ("broadcast", 1, 3)], False, False),
        ([("reshape", (8, 24)), ("expand_dim", 2)], True, True),
        ([("slice", 1, 1, 2)], True, False),
    ],
)
def test_contiguous_views_are_dense_in_row_major_order(steps, on_chip, in_hbm):
    def kernel(x):
        for buffer, expected in ((nl.sbuf, on_chip), (nl.shared_hbm, in_hbm)):
            tensor = follow(nl.ndarray((8, 4, 6), dtype=nl.float32, buffer=buffer), steps)
            assert tensor.is_contiguous() == expected
        return x

    nkisim.simulate(kernel, nki="0.6")(np.ones((2, 2), np.float32))


def test_members_of_0_4():
    def kernel(x):
        tile = nl.load(x)
        assert tile.is_identity()
        assert tile.reshape((2, 4)).is_identity()
        assert tile.reshape(new_shape=(2, 4)).shape == tile.reshape(shape=(2, 4)).shape == (2, 4)
        assert not tile[:, 0:1].is_identity()
        assert not tile.ap([[4, 2], [1, 4]]).is_identity()
        np.testing.assert_array_equal(tile[:, 1:3].sim_value, [[2, 3], [6, 7]])
        assert tile.device_value is None
        return x

    data = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    nkisim.simulate(kernel, nki="0.4")(data)
    for call in (("reshape",), ("reshape", (2, 4), (2, 4))):
        assert rule_of((2, 4), [call], nki="0.4") == "A025"


# versions


@pytest.mark.parametrize("version", list(DOCUMENTED))
def test_tensors_have_the_documented_members(version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    methods = {
        name: parameters
        for name, parameters in DOCUMENTED[version]["methods"].items()
        if not name.startswith("__")
    }
    for name, parameters in methods.items():
        assert shown(inspect.signature(getattr(nl.NkiTensor, name))) == parameters, name
    for name in DOCUMENTED[version]["attributes"]:
        assert hasattr(nl.NkiTensor, name), name


def shown(signature):
    """The parameters in the form of the record, without annotations."""
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(plain))[1:-1]


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "0.5.0", "0.6.0"])
def test_members_of_other_versions_raise_with_the_remedy(version):
    ours = {*DOCUMENTED.get(version, {}).get("methods", ())}
    ours |= {*DOCUMENTED.get(version, {}).get("attributes", ())}
    others = {name for content in DOCUMENTED.values() for kind in content.values() for name in kind}
    basic = {"ap", "reshape", "view", "get_pattern", "shape", "dtype", "buffer", "name"}
    basic |= {"ndim", "size", "offset", "strides"}
    missing = {name for name in others - ours - basic if not name.startswith("__")}
    assert missing

    def kernel(x):
        tile = nl.load(x)
        for name in sorted(missing):
            assert not hasattr(tile, name)
            assert name not in dir(tile)
        return getattr(tile, name)

    with pytest.raises(AttributeError, match=f"does not exist in NKI {version}") as caught:
        nkisim.simulate(kernel, nki=version)(np.ones((2, 2), np.float32))
    assert caught.value.finding.rule.id == "A025"
    assert caught.value.finding.fix
