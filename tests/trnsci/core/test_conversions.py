"""Tensors as arrays and back: the same memory, the same bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from trnsci.core.numbers.conversions import (
    array_of,
    dtype_name,
    read_only_array_of,
    real_dtype,
    tensor_of,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int32])
def test_an_array_is_the_tensors_memory(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    array = array_of(tensor.mT)
    assert array.shape == (3, 2)
    array[2, 1] = 9
    assert tensor[1, 2] == 9


def test_what_is_still_to_be_done_is_done():
    tensor = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    np.testing.assert_array_equal(array_of(tensor.conj()), [1 - 2j, 3 + 1j])
    np.testing.assert_array_equal(array_of(tensor.conj().imag), [-2, 1])


def test_what_a_kernel_gets_cannot_be_written_to():
    tensor = torch.ones(3, 2)
    for given in (tensor, tensor.mT, tensor.bfloat16()):
        array = read_only_array_of(given)
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 2


def test_bfloat16_keeps_every_bit_pattern_both_ways():
    bits = np.arange(1 << 16, dtype=np.uint16)
    tensor = tensor_of(bits.view(ml_dtypes.bfloat16))
    assert tensor.dtype is torch.bfloat16
    np.testing.assert_array_equal(array_of(tensor).view(np.uint16), bits)


def test_a_tensor_never_shares_memory_that_is_read_only():
    array = np.zeros(3)
    array.flags.writeable = False
    tensor_of(array)[0] = 1
    assert array[0] == 0


def test_names_of_dtypes():
    assert dtype_name(torch.bfloat16) == dtype_name("bfloat16") == "bfloat16"


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128])
def test_real_dtypes(dtype):
    assert real_dtype(dtype) is dtype.to_real()
    assert real_dtype(torch.bfloat16) is torch.bfloat16
