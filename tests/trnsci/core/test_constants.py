"""Tables are made once, kept by device and dtype, and poisoned by nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from trnsci.core.numbers.constants import Constants


@pytest.fixture
def made():
    return []


@pytest.fixture
def tables(made):
    def make(size):
        made.append(size)
        return np.arange(size, dtype=np.float64), np.ones((size, size))

    return Constants(make)


def test_a_table_is_made_once_for_each_device_and_dtype(tables, made):
    first = tables(3)
    assert tables(3) is first
    assert [t.dtype for t in first] == [torch.float32] * 2
    assert tables(3, "cpu", torch.bfloat16)[0].dtype is torch.bfloat16
    assert tables(3, "meta")[0].device.type == "meta"
    assert made == [3, 3, 3]
    tables.clear()
    assert tables(3) is not first


@pytest.mark.parametrize(
    "surroundings",
    [
        FakeTensorMode,
        torch.inference_mode,
        lambda: torch.device("meta"),
        lambda: torch.autograd.forward_ad.dual_level(),
    ],
)
def test_what_is_in_force_while_a_table_is_made_does_not_reach_it(tables, surroundings):
    with surroundings():
        tables(3)
    table, _ = tables(3)
    assert type(table) is torch.Tensor
    assert table.device.type == "cpu"
    assert not table.is_inference()
    assert table.tolist() == [0, 1, 2]
    x = torch.ones(3, requires_grad=True)
    (x * table).sum().backward()
    assert x.grad.tolist() == [0, 1, 2]


def test_a_table_made_under_a_transform_is_a_plain_one(tables):
    torch.vmap(lambda x: x * tables(2)[0])(torch.ones(4, 2))
    torch.func.grad(lambda x: (x * tables(2)[0]).sum())(torch.ones(2))
    assert not torch._C._functorch.is_functorch_wrapped_tensor(tables(2)[0])


def test_the_tables_not_used_for_longest_are_dropped():
    made = []

    def make(size):
        made.append(size)
        return (np.zeros(size, np.float32),)

    tables = Constants(make, most_bytes=100)
    tables(10), tables(12), tables(10), tables(5)  # 40 + 48 + 20 bytes: 12 goes
    tables(10), tables(5)
    assert made == [10, 12, 5]
    tables(12)
    assert made == [10, 12, 5, 12]
    tables(1000)  # too large for all others, and kept itself
    assert tables(1000)[0].numel() == 1000
    assert made == [10, 12, 5, 12, 1000]
    tables(12)
    assert made == [10, 12, 5, 12, 1000, 12]


def test_the_memory_may_be_full_and_is_empty_when_cleared():
    made = []

    def make(size):
        made.append(size)
        return (np.zeros(size, np.float32),)

    tables = Constants(make, most_bytes=100)
    for _ in range(2):
        for size in (15, 10, 15, 10):  # 60 + 40 bytes
            tables(size)
        assert made == [15, 10]
        tables.clear()
        made.clear()


def test_tables_may_take_256_mib_unless_it_is_said(tables):
    assert tables._most_bytes == 256 * 2**20
