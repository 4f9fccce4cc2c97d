"""What torch makes of arguments that nobody looked at is what looking at them gives."""

import os
import threading

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import trnfft
from trnfft import ComplexTensor, _direct
from trnfft._library import LIBRARY
from trnfft._precision import MODE
from trnsci.core.device import neuron_device
from trnsci.core.standing import asked_again
from trnsci.core.testing import random_tensor

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = tuple(f"{name}{many}" for many in "2n" for name in ONE)
OF_REAL = ("rfft", "ihfft", "rfft2", "ihfft2", "rfftn", "ihfftn")


@pytest.fixture(autouse=True)
def nobody_chose(monkeypatch):
    """Settings as in a fresh process, whatever blocks other tests opened."""
    neuron_device()
    with monkeypatch.context() as patched:
        for setting in (LIBRARY._requested, MODE):
            patched.setattr(setting, "scoped", False)
        asked_again()
        assert _direct._PLAIN.answer
        yield
    asked_again()


class Tagged(torch.Tensor):
    """A tensor that keeps its class through operations."""


def of_every_kind():
    """Inputs by name: dtypes, shapes, layouts, kinds, and what is no tensor."""
    x, z = random_tensor(3, 4, 6), random_tensor(3, 4, 6, dtype=torch.complex64)
    found = {str(dtype): x.to(dtype) for dtype in (torch.float32, torch.float64)}
    found |= {str(dtype): z.to(dtype) for dtype in (torch.complex64, torch.complex128)}
    narrow = (torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    found |= {str(dtype): (4 * x).abs().to(dtype) for dtype in narrow}
    found |= {f"empty {shape}": torch.zeros(shape) for shape in ((0,), (0, 4), (4, 0))}
    found["complex empty"] = torch.zeros(2, 0, 3, dtype=torch.complex64)
    found |= {"0-d": torch.tensor(2.0), "vector": x[0, 0], "long vector": random_tensor(300)}
    found |= {"complex vector": z[0, 0], "one bin": z[:, :, :1], "matrix": x[0]}
    found |= {
        "strided": x[:, ::2, ::3],
        "turned": z.mT,
        "conjugate": z.conj(),
        "negated": z.conj().imag,
    }
    found |= {"tracked": x.clone().requires_grad_(), "parameter": torch.nn.Parameter(z.clone())}
    found["subclass"] = x.clone().as_subclass(Tagged)
    found |= {"native": ComplexTensor(z), "native vector": ComplexTensor(z[0, 0])}
    found["parts"] = ComplexTensor(x.bfloat16(), x.bfloat16())
    found |= {"array": np.ones((2, 4), np.float32), "list": [1.0, 2.0], "none": None, "number": 3.0}
    return found


INPUTS = of_every_kind()

ARGUMENTS_OF_ONE = (
    *((), (8,), (1,), (3,), (0,), (-1,), (True,), (2.0,), ("4",)),
    *((None, 0), (None, 1), (None, -3), (None, 3), (None, True), (None, None), (None, (0,))),
    *((None, -1, norm) for norm in ("backward", "forward", "ortho", "", "Ortho", "none", 1, b"")),
    *((5, 0, "ortho"), (torch.tensor(4),), (np.int64(4), np.int64(-1))),
)
ARGUMENTS_OF_SEVERAL = (
    *((), ((4, 4),), ([2, 5],), ((-1, 4),), ((0, 4),), ((-2, 4),), (3,), ((3,),), ((2, 2, 2, 2),)),
    *((None, (0, 1)), (None, (1, 0)), (None, [-1, -3]), (None, (0, 0)), (None, (0, -3))),
    *((None, ()), (None, (0, 5)), (None, 0), (None, (1,)), (None, None), ((), ()), ((4,), (0, 1))),
    *((None, (-2, -1), norm) for norm in ("backward", "forward", "ortho", "", "Ortho", 1)),
    *(((4, 4), None, "ortho"), ((True, 2),), ((2.0, 2),), ((np.int64(4), 4),), ((None, 4),)),
)


CALLS = {name: ARGUMENTS_OF_ONE if name in ONE else ARGUMENTS_OF_SEVERAL for name in ONE + SEVERAL}


def outcome(function, *args, **kwargs):
    """The kind, the form and the bits of a result, or what was raised."""
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    parts = result._tensors() if isinstance(result, ComplexTensor) else (result,)
    form = [(part.is_conj(), part.requires_grad, bits_of(part)) for part in parts]
    return type(result), result.dtype, tuple(result.shape), form


def bits_of(tensor):
    """The bytes of a tensor."""
    values = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    stored = values.clone(memory_format=torch.contiguous_format).untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(stored).numpy().tobytes()


def assert_looking_changes_nothing(name, kinds, calls):
    function = getattr(trnfft, name)
    for kind in kinds:
        for args in calls:
            got = outcome(function, INPUTS[kind], *args)
            assert got == outcome(function.__wrapped__, INPUTS[kind], *args), (kind, args)


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_looking_at_the_arguments_changes_nothing(name):
    plain = "torch.float32" if name in OF_REAL else "torch.complex64"
    assert_looking_changes_nothing(name, [plain], CALLS[name])
    assert_looking_changes_nothing(name, INPUTS, [()])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_looking_at_the_arguments_of_any_input_changes_nothing(name):
    assert_looking_changes_nothing(name, INPUTS, CALLS[name])


def test_the_parts_of_the_inverse_of_a_real_tensor_are_ordinary():
    # torch leaves the conjugation of this result for later, and its imaginary part a negation.
    got = trnfft.ifft(random_tensor(3, 8))
    assert not got.to_torch_complex().is_conj()
    assert not got.imag.is_neg()


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_integers_follow_the_default_dtype(name):
    function, x = getattr(trnfft, name), torch.arange(24).reshape(2, 3, 4)
    for dtype in (torch.float64, torch.float16):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            assert outcome(function, x) == outcome(function.__wrapped__, x)
        finally:
            torch.set_default_dtype(before)


class Calls(TorchFunctionMode):
    """The torch functions that are called inside."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def called(function, *args, **kwargs):
    with Calls() as calls:
        function(*args, **kwargs)
    return [name for name in calls.names if name not in ("__get__", "resolve_conj")]


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_torch_is_called_once_and_nothing_else_is(name):
    function = getattr(trnfft, name)
    z = random_tensor(3, 4, 6, dtype=torch.complex64)
    torchs = f"fft_{name}"
    for x in (z.real.clone(),) if name in OF_REAL else (z, ComplexTensor(z), z.to("meta")):
        assert called(function, x) == [torchs]
        assert called(function, input=x, dim=0 if name in ONE else (0, 1)) == [torchs]
        assert called(function, x, norm="ortho") == [torchs]


@pytest.mark.parametrize(
    ("block", "name"), [(trnfft.precision, "double"), (trnfft.backend, "simulator")]
)
def test_after_a_block_torch_is_called_as_before(block, name):
    x = random_tensor(2, 8)
    with block(name):
        assert called(trnfft.rfft, x) != ["fft_rfft"]
    assert not _direct._PLAIN.answer
    assert called(trnfft.rfft, x) == ["fft_rfft"]
    assert called(trnfft.rfft2, x) == ["fft_rfft2"]


class TestWhatKeepsTorchFromBeingCalledDirectly:
    """Each of these is found out by the next call."""

    x = random_tensor(2, 8)

    def error(self):
        """The distance from the transform in float64; zero where float64 was computed in."""
        exact = torch.fft.rfft(self.x.double()).to(torch.complex64)
        return (trnfft.rfft(self.x).to_torch_complex() - exact).abs().max().item()

    def test_the_precision_of_a_block(self):
        plain = self.error()
        assert plain > 0
        with trnfft.precision("double"):
            assert self.error() == 0
        assert self.error() == plain

    def test_the_precision_of_a_block_while_another_thread_chooses(self):
        with trnfft.precision("double"):
            other = threading.Thread(target=trnfft.set_precision, args=("fp32",))
            other.start()
            other.join()
            assert self.error() == 0

    def test_the_precision_of_the_process(self):
        plain = self.error()
        trnfft.set_precision("double")
        try:
            assert self.error() == 0
        finally:
            trnfft.set_precision("fp32")
        assert self.error() == plain

    @pytest.mark.parametrize("name", ["TRNFFT_USE_SIMULATOR", "TRNSCI_USE_SIMULATOR"])
    def test_a_variable_without_meaning(self, monkeypatch, name):
        trnfft.rfft(self.x)
        monkeypatch.setenv(name, "sure")
        with pytest.raises(ValueError, match=name):
            trnfft.rfft(self.x)
        with pytest.raises(ValueError, match=name):
            trnfft.rfft2(self.x)

    def test_another_mapping_for_the_environment(self, monkeypatch):
        trnfft.rfft(self.x)
        monkeypatch.setattr(os, "environ", {"TRNSCI_USE_SIMULATOR": "sure"})
        for function in (trnfft.rfft, trnfft.rfft2):
            with pytest.raises(ValueError, match="TRNSCI_USE_SIMULATOR"):
                function(self.x)


def test_out_is_written_to():
    x = random_tensor(3, 8)
    out = ComplexTensor(torch.zeros(3, 5, dtype=torch.complex64))
    assert trnfft.rfft(x, out=out) is out
    assert torch.equal(out.to_torch_complex(), torch.fft.rfft(x))
    out = torch.zeros(3, 8, dtype=torch.complex64)
    assert trnfft.fft2(torch.complex(x, x), out=out) is out
    assert torch.equal(out, torch.fft.fft2(torch.complex(x, x)))
