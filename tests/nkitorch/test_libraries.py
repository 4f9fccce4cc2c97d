"""The libraries on tensors of the simulated device: their kernels run, with the same results."""

from contextlib import ExitStack
from importlib import import_module

import pytest
import torch

from each_case import each_case
from trnfft import ComplexTensor
from trnsci.core.backend import device
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError
from trnsci.core.examples import function_of

LIBRARIES = ("trnblas", "trnfft", "trnsolver", "trnsparse", "trntensor")


def library_of(name):
    import_module(f"{name}.examples")
    return import_module(f"{name}._library").LIBRARY


def moved(value, to):
    if isinstance(value, dict):
        return {key: moved(part, to) for key, part in value.items()}
    if hasattr(value, "_fields"):  # factors
        return type(value)(*(moved(part, to) for part in value))
    if type(value) in (tuple, list):
        return type(value)(moved(part, to) for part in value)
    return value.to(to) if hasattr(value, "to") else value


def tensors(value):
    if isinstance(value, ComplexTensor) or (
        isinstance(value, torch.Tensor) and value.is_complex()
    ):  # a chip has no complex dtypes, and so transforms return the class there
        return [value.real, value.imag]
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value if isinstance(value, (tuple, list)) else vars(value).values()
    return [tensor for part in parts if hasattr(part, "__dict__") for tensor in tensors(part)]


def called(function, args, options):
    """Return the tensors of the result, and the names of the kernels that ran."""
    before = counts()
    result = function(*args, **options)
    return tensors(result), dict((counts() - before).launches)


def calls():
    for library in LIBRARIES:
        for name in library_of(library).examples():
            yield library, name


@each_case(("library", "name"), calls())
def test_the_device_selects_the_simulator(library, name):
    found = library_of(library)
    args, options = found.examples()[name]
    function = function_of(library, name)
    with ExitStack() as stack:
        for each in LIBRARIES:  # they call each other; a draw has no operand
            stack.enter_context(library_of(each).backend("simulator"))
        expected, launches = called(function, args, options)
    assert expected
    there, on_device = called(function, moved(args, "neuron"), moved(options, "neuron"))
    assert on_device == launches
    assert {tensor.device.type for tensor in there} == {"neuron"}
    for tensor, other in zip(there, expected, strict=True):
        assert torch.equal(tensor.cpu(), other)


def test_other_settings_win():
    found = library_of("trnblas")
    import trnblas

    a = torch.ones(3, 3, device="neuron")
    with found.backend("pytorch"):
        _, launches = called(trnblas.gemm, (1.0, a, a), {})
    assert launches == {}
    _, launches = called(trnblas.gemm, (1.0, a.cpu(), a.cpu()), {})
    assert launches == {}
    with pytest.raises(BackendError, match="nki>=0"):
        trnblas.set_backend("nki")
    assert not trnblas.HAS_NKI


def test_it_is_no_chip(tmp_path, monkeypatch):
    (tmp_path / "neuron0").touch()
    monkeypatch.setattr(device, "_NODES", str(tmp_path / "neuron*"))
    device.forget_device()
    try:
        assert device.neuron_device() is None
    finally:
        device.forget_device()
