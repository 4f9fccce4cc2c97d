"""Memory of dead tiles is used again, and never while something still looks at it."""

import threading

import numpy as np
import pytest

from nkisim import recycling
from nkisim.memory import Storage
from nkisim.recycling import Buffer, take

SIZE = 1 << 16


@pytest.fixture(autouse=True)
def own_pool(monkeypatch):
    """A pool of this test's own, empty."""
    pool = recycling._Pool()
    monkeypatch.setattr(recycling, "_pool", pool)
    return pool


def address(array):
    return array.__array_interface__["data"][0]


def test_a_dead_storage_leaves_its_memory_to_the_next():
    storage = Storage.fresh(128, SIZE // 128)
    where = address(storage.data)
    del storage
    assert address(Storage.fresh(64, SIZE // 64).data) == where


def test_memory_with_a_living_view_is_not_used_again(own_pool):
    storage = Storage.fresh(128, SIZE // 128)
    view = np.ndarray((4, 4), np.float32, storage.data, 8, (16, 4))
    view[...] = 7
    del storage
    assert not own_pool.free.get(SIZE)
    other = Storage.fresh(128, SIZE // 128)
    other.data[...] = 0
    assert (view == 7).all()


def test_decoded_copies_are_used_again_after_a_write():
    storage = Storage.fresh(128, 512)
    copy = storage.new_decoded("key", (128, 128))
    where = address(copy)
    assert storage.decoded("key") is copy
    del copy
    storage.version += 1
    assert storage.decoded("key") is None
    assert address(take(SIZE)) == where


def test_a_decoded_copy_that_is_held_is_not_used_again(own_pool):
    storage = Storage.fresh(128, 512)
    copy = storage.new_decoded("key", (128, 128))
    storage.version += 1
    assert storage.decoded("key") is None
    assert not own_pool.free.get(SIZE)
    assert copy.shape == (128, 128)


def test_borrowed_memory_is_never_kept(own_pool):
    lent = np.zeros(SIZE, np.uint8)
    Storage(lent, SIZE)
    Buffer(lent[:])
    assert not own_pool.free


@pytest.mark.parametrize("size", [0, 8, recycling.LEAST - 1, recycling._MOST + 1])
def test_small_and_large_memory_is_not_kept(size, own_pool):
    Buffer(take(size))
    assert not own_pool.free
    assert own_pool.nbytes == 0


def test_what_is_kept_has_a_limit(own_pool):
    count = recycling._KEPT_BYTES // recycling._MOST
    buffers = [Buffer(take(recycling._MOST)) for _ in range(count + 3)]
    buffers.clear()
    assert own_pool.nbytes == recycling._KEPT_BYTES
    assert len(own_pool.free[recycling._MOST]) == count


def test_threads_never_hold_the_same_memory():
    clashes = []

    def work(mark):
        for _ in range(2000):
            buffer = Buffer(take(SIZE))
            buffer.data[:8] = mark
            if not (buffer.data[:8] == mark).all():
                clashes.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes


@pytest.mark.parametrize("size", [recycling.LEAST, SIZE, SIZE + 4, recycling._MOST + 1])
def test_tiles_begin_with_a_cache_line(size):
    buffer = Buffer(take(size))
    assert buffer.data.nbytes == size
    assert address(buffer.data) % 64 == 0
    del buffer
    assert address(take(size)) % 64 == 0
