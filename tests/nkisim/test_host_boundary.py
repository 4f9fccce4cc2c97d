"""What crosses between the host and a kernel: arrays, scalars, objects, results and exceptions."""

import inspect
from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
import nkisim.typing as nt
from each_case import each_case
from tiles import loaded, stored

TYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int32": np.int32,
    "uint32": np.uint32,
    "int16": np.int16,
    "uint16": np.uint16,
    "int8": np.int8,
    "uint8": np.uint8,
}


@nkisim.jit
def copied(source):
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=source)
    return out


@nkisim.jit
def doubled(source):
    tile = loaded(source)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    return stored(tile)


# Arrays in and out


@nkisim.jit
def copied_as(source, dtype, shape):
    assert source.dtype == dtype
    assert str(source.dtype) == str(dtype)
    assert source.shape == shape
    assert source.buffer == nl.hbm
    out = nl.ndarray(source.shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=source)
    return out


@each_case("name", sorted(TYPES))
@each_case("shape", [(), (1,), (7,), (3, 5), (2, 3, 4), (2, 1, 3, 1, 2)])
def test_numpy_arrays_of_every_type_and_rank(name, shape):
    dtype = np.dtype(TYPES[name])
    drawn = np.random.default_rng(0).integers(0, 256, (*shape, dtype.itemsize)).astype(np.uint8)
    data = drawn.view(dtype).reshape(shape)
    got = nkisim.simulate(copied_as)(data, getattr(nl, name), shape)
    assert type(got) is np.ndarray
    assert got.dtype == dtype
    assert got.shape == shape
    assert got.tobytes() == data.tobytes()
    assert not np.shares_memory(got, data)


@each_case("dtype", [np.float64, np.int64, np.uint64, np.complex64, object, "U4"])
def test_types_unknown_to_the_device_are_refused(dtype):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(copied)(np.zeros((2, 2), dtype))
    assert caught.value.rule_id == "D001"
    assert str(np.dtype(dtype)) in str(caught.value)


def test_truth_values_come_back_as_such():
    data = np.array([[True, False, True]])
    got = nkisim.simulate(copied_as)(data, nl.bool_, (1, 3))
    assert got.dtype == np.bool_
    np.testing.assert_array_equal(got, data)


@nkisim.jit
def bytes_as_truth(source):
    out = nl.ndarray(source.shape, dtype=nl.bool_, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out.view(nl.uint8), src=source)
    return out


def test_any_byte_but_zero_is_true():
    got = nkisim.simulate(bytes_as_truth)(np.array([[0, 1, 2, 255]], np.uint8))
    # Looked at byte by byte, since NumPy itself may take such a byte for a truth value.
    assert got.view(np.uint8).tolist() == [[0, 1, 1, 1]]


def test_a_kernel_called_on_the_host_is_simulated():
    source = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(doubled(source), nkisim.simulate(doubled)(source))


def test_any_layout_of_the_host_array():
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    swapped = base.astype(base.dtype.newbyteorder())
    for view in (base.T, base[::2, 1::3], base[::-1], np.asfortranarray(base), swapped):
        np.testing.assert_array_equal(nkisim.simulate(copied)(view), view)
    nkisim.simulate(overwritten)(swapped, np.full((2, 8), 3, np.float32))
    np.testing.assert_array_equal(swapped[:4], [base[0], [3] * 8, [3] * 8, base[3]])


def test_read_only_and_broadcast_arrays():
    row = np.arange(5, dtype=np.float32)
    wide = np.broadcast_to(row, (4, 5))
    assert not wide.flags.writeable
    np.testing.assert_array_equal(nkisim.simulate(doubled)(wide), 2 * wide)
    np.testing.assert_array_equal(row, np.arange(5))


@nkisim.jit
def overwritten(target, source):
    nisa.dma_copy(dst=target[1:3, :], src=source)
    return target


@nkisim.jit
def overwritten_without_return(target, source):
    nisa.dma_copy(dst=target[1:3, :], src=source)
    return stored(loaded(source))


@each_case("kernel", [overwritten, overwritten_without_return])
@each_case("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
def test_inputs_that_the_kernel_writes_are_updated_in_place(kernel, dtype):
    target, source = np.zeros((4, 3), dtype), np.ones((2, 3), dtype)
    want = target.copy()
    want[1:3] = 1
    got = nkisim.simulate(kernel)(target, source)
    np.testing.assert_array_equal(target, want)
    if kernel is overwritten:
        np.testing.assert_array_equal(got, want)
        assert got.dtype == dtype
    np.testing.assert_array_equal(source, 1)


def test_an_update_reaches_a_strided_host_array():
    base = np.zeros((4, 6), np.float32)
    nkisim.simulate(overwritten)(base[:, ::2], np.ones((2, 3), np.float32))
    want = np.zeros((4, 6), np.float32)
    want[1:3, ::2] = 1
    np.testing.assert_array_equal(base, want)


def test_inputs_that_the_kernel_only_reads_are_left_alone():
    source = np.ones((4, 3), np.float32)
    source.flags.writeable = False
    np.testing.assert_array_equal(nkisim.simulate(doubled)(source), 2)


def test_a_written_read_only_input_comes_back_in_the_result_only():
    target = np.zeros((4, 3), np.float32)
    target.flags.writeable = False
    got = nkisim.simulate(overwritten)(target, np.ones((2, 3), np.float32))
    assert got[1:3].min() == 1
    assert target.max() == 0


class Foreign:
    """An array of another library, which offers one protocol."""

    def __init__(self, data, protocol):
        self.shape = data.shape
        for name in protocol:
            setattr(type(self), name, staticmethod(getattr(data, name)))


@pytest.mark.parametrize("protocol", [("__array__",), ("__dlpack__", "__dlpack_device__")])
def test_arrays_of_other_libraries(protocol):
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    kind = type("Other", (Foreign,), {})
    got = nkisim.simulate(copied)(kind(data, protocol))
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, data)


# torch


def test_torch_tensors_come_back_as_torch_tensors():
    torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
    names = ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]
    names += ["int32", "int16", "int8", "uint8", "uint16", "uint32", "bool"]
    for name in names:
        data = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
        for given in (data, data.T, data[:, ::2], data[0], data[0, 0]):
            got = nkisim.simulate(copied)(given)
            assert isinstance(got, torch.Tensor)
            assert got.dtype == data.dtype
            assert got.shape == given.shape
            assert torch.equal(got.to(torch.float32), given.to(torch.float32))


def test_torch_results_are_torch_in_any_structure_and_need_no_gradient():
    torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
    data = torch.ones((2, 2), requires_grad=True)
    got = nkisim.simulate(structured)(data, "list")
    assert all(isinstance(part, torch.Tensor) for part in got)
    assert not any(part.requires_grad for part in got)
    assert [float(part[0, 0].item()) for part in got] == [2.0, 3.0]


@nkisim.jit
def converted(source, dtype):
    tile = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=loaded(source))
    return stored(tile)


def test_float8_without_a_twin_in_torch_comes_back_as_the_nearest():
    torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
    # Every finite float8_e4m3 is a float8_e4m3fn; infinity has no place there.
    data = torch.tensor([[0.0, -0.0, 1.125, -240.0, 2.0**-9, float("inf"), float("nan")]])
    got = nkisim.simulate(converted)(data, nl.float8_e4m3)
    assert got.dtype == torch.float8_e4m3fn
    assert torch.equal(got.to(torch.float32)[:, :5], data[:, :5])
    assert torch.signbit(got.to(torch.float32)[0, 1])
    assert got.to(torch.float32)[:, 5:].isnan().all()


def test_torch_types_unknown_to_the_device_are_refused():
    torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
    for name in ("float64", "int64", "complex64", "float8_e4m3fnuz", "float8_e8m0fnu"):
        with pytest.raises(nkisim.NkiValidationError) as caught:
            nkisim.simulate(copied)(torch.empty((2, 2), dtype=getattr(torch, name)))
        assert caught.value.rule_id == "D001"
        assert name in str(caught.value)


def test_a_negated_view_of_torch_is_read_as_what_it_means():
    torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
    for dtype in (torch.float32, torch.bfloat16):
        lazy = torch.view_as_complex(torch.ones((2, 3, 2))).conj().imag
        assert lazy.is_neg()
        got = nkisim.simulate(converted)(lazy, str(dtype).removeprefix("torch."))
        assert torch.equal(got, -torch.ones((2, 3), dtype=dtype))


def test_torch_inputs_are_updated_in_place():
    torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
    for dtype in (torch.float32, torch.bfloat16):
        target, source = torch.zeros((4, 3), dtype=dtype), torch.ones((2, 3), dtype=dtype)
        got = nkisim.simulate(overwritten)(target, source)
        assert target[1:3].min() == 1
        assert target[0].max() == 0
        assert torch.equal(got, target)


# Everything else that an argument can be


class Mode(Enum):
    plain = 1
    negated = 2


@dataclass
class Config(nl.NKIObject):
    scale: float
    names: tuple = ("a", "b")
    tensor: object = None


@nkisim.jit
def many_arguments(source, flag, count, factor, text, nothing, pair, mode, dtype, config, last=1):
    assert flag is True
    assert count == 3
    assert factor == 0.5
    assert text == "text"
    assert nothing is None
    assert pair == (1, (2, "x"))
    assert mode == Mode.negated
    assert dtype == nl.bfloat16
    assert config.scale == 2.0
    assert config.names == ("a", "b")
    assert last == 7
    return doubled_by(source, config.scale)


def doubled_by(source, scale):
    tile = loaded(source)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    return stored(tile)


def test_other_arguments_pass_unchanged():
    source = np.ones((4, 3), np.float32)
    arguments = (True, 3, 0.5, "text", None, (1, (2, "x")), Mode.negated, nl.bfloat16, Config(2.0))
    np.testing.assert_array_equal(nkisim.simulate(many_arguments)(source, *arguments, last=7), 2)
    names = list(inspect.signature(many_arguments).parameters)[1:-1]
    by_name = dict(zip(names, arguments, strict=True))
    got = nkisim.simulate(many_arguments)(source=source, last=7, **by_name)
    np.testing.assert_array_equal(got, 2)


@nkisim.jit
def sum_of(tensors):
    total = loaded(tensors[0])
    for i in range(1, len(tensors)):
        nisa.tensor_tensor(dst=total, data1=total, data2=loaded(tensors[i]), op=nl.add)
    return stored(total)


def test_arrays_inside_tuples_and_lists():
    arrays = tuple(np.full((4, 3), value, np.float32) for value in (1, 2, 3))
    np.testing.assert_array_equal(nkisim.simulate(sum_of)(arrays), 6)
    report = nkisim.check(sum_of)(list(arrays))
    np.testing.assert_array_equal(report.outputs, 6)
    assert "A018" in report.codes


@nkisim.jit
def with_default(source, scale=3.0):
    return doubled_by(source, scale)


def test_defaults_and_wrong_arguments():
    source = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(nkisim.simulate(with_default)(source), 3)
    np.testing.assert_array_equal(nkisim.simulate(with_default)(scale=4.0, source=source), 4)
    with pytest.raises(TypeError, match="other"):
        nkisim.simulate(with_default)(source, other=1)


# Results


@nkisim.jit
def structured(source, kind):
    first, second = doubled_by(source, 2.0), doubled_by(source, 3.0)
    if kind == "tuple":
        return first, second
    if kind == "list":
        return [first, second]
    if kind == "one":
        return (first,)
    return first


def test_results_have_the_kernels_own_structure():
    source = np.ones((2, 2), np.float32)
    run = nkisim.simulate(structured)
    assert type(run(source, "array")) is np.ndarray
    for kind, expected in (("tuple", tuple), ("list", list), ("one", tuple)):
        got = run(source, kind)
        assert type(got) is expected
        assert [float(a[0, 0]) for a in got] == [2.0, 3.0][: len(got)]


# Annotations


@nkisim.jit
def annotated(x: nt.tensor[4, 3], y: nt.tensor[2, 3]):
    return stored(loaded(x))


def test_annotated_shapes_are_enforced():
    x, y = np.ones((4, 3), np.float32), np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(nkisim.simulate(annotated)(x, y), x)
    for wrong in (np.ones((3, 3), np.float32), np.ones((2, 3, 1), np.float32)):
        with pytest.raises(nkisim.NkiValidationError) as caught:
            nkisim.simulate(annotated)(x, wrong)
        assert caught.value.rule_id == "L064"
        assert "2, 3" in str(caught.value)
        assert str(wrong.shape) in str(caught.value)


def identity(annotation):
    """Return a kernel whose argument is annotated with a string, as postponed annotations are."""

    def kernel(x):
        return stored(loaded(x))

    kernel.__annotations__["x"] = annotation
    return nkisim.jit(kernel)


def test_a_postponed_annotation_is_enforced():
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(identity("nt.tensor[2, 3]"))(np.ones((4, 3), np.float32))
    assert caught.value.rule_id == "L064"


@each_case(
    "annotation",
    ["Unimported", "np.absent", "int[3]", "rows by columns", "1 / 0", "{}['key']", "int('x')"],
)
def test_a_postponed_annotation_for_readers_demands_nothing(annotation):
    x = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(nkisim.simulate(identity(annotation))(x), x)


@pytest.mark.parametrize("items", ["1.5", "..., ...", "nl.float32, nl.int8"])
def test_a_wrong_postponed_annotation_is_not_lost(items):
    with pytest.raises(TypeError, match=r"nt\.tensor takes"):
        nkisim.simulate(identity(f"nt.tensor[{items}]"))(np.ones((4, 3), np.float32))


# Exceptions


@nkisim.jit
def refuses(source, how):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf, name="tile")
    nisa.dma_copy(dst=tile, src=source)
    if how == "assert":  # written out, because pytest rewrites the assert statements of this file
        raise AssertionError("[NCC_INKI016] Kernel validation exception: no")
    if how == "value":
        raise ValueError("as written")
    return stored(tile)


def test_the_kernels_own_assertions_reach_the_caller():
    source = np.ones((4, 3), np.float32)
    for run in (nkisim.simulate(refuses), nkisim.simulate(refuses, strictness="strict")):
        with pytest.raises(AssertionError) as caught:
            run(source, "assert")
        assert type(caught.value) is AssertionError
        assert str(caught.value) == "[NCC_INKI016] Kernel validation exception: no"


def test_other_exceptions_reach_the_caller():
    with pytest.raises(ValueError, match=r"\Aas written\Z"):
        nkisim.simulate(refuses)(np.ones((4, 3), np.float32), "value")


def test_an_exception_leaves_nothing_behind():
    source = np.ones((4, 3), np.float32)
    sim = nkisim.simulate(refuses)
    for how in ("assert", "value"):
        with pytest.raises((AssertionError, ValueError)):
            sim(source, how)
        with pytest.raises(nkisim.NkiValidationError) as caught:
            nl.ndarray((4, 3), dtype=nl.float32, buffer=nl.sbuf)
        assert caught.value.rule_id == "L063"
    np.testing.assert_array_equal(sim(source, "nothing"), source)
    assert sim.report.ok
    # The name of the tile is free again: it is the same kernel, not a second tensor.
    assert "M033" not in sim.report.codes


def test_instructions_outside_a_kernel_are_refused():
    calls = [
        lambda: nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf),
        lambda: nisa.memset(dst=None, value=0.0),
        lambda: nisa.dma_copy(dst=np.ones(2, np.float32), src=np.ones(2, np.float32)),
    ]
    for call in calls:
        with pytest.raises(nkisim.NkiValidationError) as caught:
            call()
        assert caught.value.rule_id == "L063"


# Dtypes on the host


@each_case("name", sorted(TYPES))
def test_a_dtype_is_a_numpy_dtype_a_name_and_a_key(name):
    dtype = getattr(nl, name)
    assert np.zeros(3, dtype).dtype == TYPES[name]
    assert str(dtype).split(".")[-1] == name
    assert {dtype: 1}[getattr(nl, name)] == 1
    assert (dtype == "float8e4") is False
    raw = bytes(range(12))
    assert np.frombuffer(raw, dtype=dtype).tobytes() == raw
