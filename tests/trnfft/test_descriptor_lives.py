"""When a descriptor is prepared and tried, who shares it, and when it is freed or refused."""

from __future__ import annotations

import ctypes
import math
import weakref

import pytest
import torch
from torch.utils.data import DataLoader

import trnfft
from trnfft import _descriptors, _eager
from trnfft._descriptors import MAY_KEEP, kept_for
from trnfft._kept import CALLS, KEPT, Form
from trnsci.core.testing import random_tensor

from .keeping import assert_kept, entry, known, native, same, wrong_in_threads

pytestmark = [
    pytest.mark.skipif(not MAY_KEEP, reason="torch computes by MKL on x86-64 Linux only"),
    pytest.mark.usefixtures("nothing_is_kept"),
]


def test_what_seldom_comes_is_not_prepared(computed):
    x = random_tensor(4, 8)
    for _ in range(CALLS - 1):
        trnfft.rfft(x)
    kept = entry("rfft", x)
    assert kept.open
    assert kept.prepared is None
    trnfft.rfft(x)
    assert not kept.open
    assert kept.prepared is not None
    assert len(computed) == 1


def test_a_trial_draws_no_numbers_of_the_user():
    before = torch.get_rng_state()
    known("rfft", random_tensor(4, 8))
    assert torch.equal(torch.get_rng_state(), before)


def test_numbers_of_threads_have_descriptors_of_their_own(computed):
    before = torch.get_num_threads()
    x = random_tensor(16, 256)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert_kept(computed, "rfft", x)
    finally:
        torch.set_num_threads(before)
    assert kept_for.cache_info().currsize == 2


def test_threads_share_a_descriptor():
    inputs = [random_tensor(16, 64, dtype=torch.complex64, seed=seed) for seed in range(4)]
    wanted = [torch.fft.fft2(x) for x in inputs]
    assert not wrong_in_threads(trnfft.fft2, inputs, wanted)


class Transformed(torch.utils.data.Dataset):
    """Transforms that are computed where they are asked for."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        x = random_tensor(4, 8, dtype=torch.complex64, seed=index)
        return x, trnfft.fft(x), entry("fft", x).prepared is not None


def test_a_forked_worker_computes_by_what_its_parent_kept():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as many as a worker has
    try:
        known("fft", random_tensor(4, 8, dtype=torch.complex64))
        loader = DataLoader(
            Transformed(), batch_size=None, num_workers=1, multiprocessing_context="fork"
        )
        for x, result, kept in loader:
            assert kept
            assert torch.equal(result, torch.fft.fft(x))
    finally:
        torch.set_num_threads(before)


class Library:
    """MKL's functions, with some of them in another way."""

    def __init__(self, **others):
        self.others, self.found = others, _descriptors._library()

    def __getattr__(self, name):
        return self.others.get(name) or getattr(self.found, name)

    def __getitem__(self, name):
        return self.others.get(name) or self.found[name]


@pytest.fixture
def library(monkeypatch):
    """What puts functions in place of MKL's."""

    def put(**others):
        changed = Library(**others)
        monkeypatch.setattr(_descriptors, "_library", lambda: changed)
        return changed

    return put


def test_the_least_recently_used_descriptor_is_freed(library, computed):
    freed = []
    free = _descriptors._library().DftiFreeDescriptor

    def noted(reference):
        freed.append(reference)
        return free(reference)

    library(DftiFreeDescriptor=noted)
    first, other = random_tensor(3, 8), random_tensor(4, 8)
    known("rfft", first)
    known("rfft", other)
    held, dropped = entry("rfft", other).prepared, weakref.ref(entry("rfft", first).prepared)
    for batch in range(5, 5 + KEPT):
        trnfft.rfft(random_tensor(batch, 8))
    assert kept_for.cache_info().currsize == KEPT
    assert dropped() is None
    assert len(freed) == 1  # and the one that is in use is not
    assert same(held.of(other), torch.fft.rfft(other))
    del held
    assert len(freed) == 1  # nor is the one of the last call
    known("rfft", random_tensor(2, 8))
    assert len(freed) == 2


class TestWhereAnythingDiffers:
    """A descriptor that does not agree with torch is not used."""

    x = random_tensor(4, 8)

    def check(self):
        assert same(known("rfft", self.x), torch.fft.rfft(self.x))
        kept = entry("rfft", self.x)
        assert kept.prepared is None
        assert not kept.open

    def test_in_its_results(self, monkeypatch):
        monkeypatch.setattr(Form, "scale", lambda form, points: 1.0 + 2.0**-20)
        self.check()

    def test_in_the_last_bit_of_one_of_them(self, library):
        compute = _descriptors._library().DftiComputeForward

        def inexact(handle, source, target):
            status = compute(handle, source, target)
            last = ctypes.cast(target + 8 * 4 * 5 - 4, ctypes.POINTER(ctypes.c_uint32))
            last[0] ^= 1
            return status

        library(DftiComputeForward=inexact)
        self.check()

    def test_in_its_input(self, library):
        compute = _descriptors._library().DftiComputeForward

        def destructive(handle, source, target):
            status = compute(handle, source, target)
            ctypes.memset(source, 0, 4)
            return status

        library(DftiComputeForward=destructive)
        self.check()

    def test_and_its_input_is_the_users(self, library):
        compute = _descriptors._library().DftiComputeForward

        def destructive(handle, source, target):
            ctypes.memset(source, 0, 4)
            return compute(handle, source, target)

        library(DftiComputeForward=destructive)
        x = self.x.clone()
        known("rfft", x)
        assert torch.equal(x, self.x)

    @pytest.mark.parametrize("name", ["zeros", "impulse", "infinite"])
    def test_whatever_the_user_transforms(self, name, library):
        """Input whose transform takes no rounding is no trial."""
        compute, calls = _descriptors._library().DftiComputeForward, []

        def inexact(handle, source, target):
            status = compute(handle, source, target)
            first = ctypes.cast(target, ctypes.POINTER(ctypes.c_float))
            first[0] = first[0] * (1 + 2.0**-20)
            calls.append(first[0])
            return status

        library(DftiComputeForward=inexact)
        x = torch.zeros(4, 8)
        if name != "zeros":
            x[:, 0] = 2.0 if name == "impulse" else math.inf
        known("rfft", x)
        assert len(calls) == 1
        kept = entry("rfft", x)
        assert kept.prepared is None
        assert not kept.open

    @pytest.mark.parametrize(
        "function",
        ["DftiCreateDescriptor_s_1d", "DftiSetValue", "DftiCommitDescriptor", "DftiComputeForward"],
    )
    def test_because_mkl_refuses(self, function, library):
        library(**{function: lambda *args: 1})
        self.check()

    def test_and_where_there_is_no_library(self, monkeypatch):
        monkeypatch.setattr(_descriptors, "_PATH", "nowhere.so")
        assert _descriptors._library.__wrapped__() is None
        monkeypatch.setattr(_descriptors, "_library", lambda: None)
        self.check()

    def test_and_where_torch_has_no_mkl(self, monkeypatch):
        monkeypatch.setattr(_eager, "MAY_KEEP", False)
        assert _eager.host_transform("rfft", torch.fft.rfft) is torch.fft.rfft

    def test_in_a_second_step(self, library):
        x, calls = random_tensor(4, 5, dtype=torch.complex64), []
        compute = _descriptors._library().DftiComputeBackward

        def second_fails(*args):
            calls.append(args)
            return compute(*args) if len(calls) % 2 else 1

        library(DftiComputeBackward=second_fails)
        assert same(known("irfft2", x), torch.fft.irfft2(x))
        assert len(calls) == 2

    def test_later(self, library):
        """A computation that fails is torch's."""
        known("rfft", self.x)
        entry("rfft", self.x).prepared.compute = lambda *args: 1
        assert same(native(trnfft.rfft(self.x)), torch.fft.rfft(self.x))
