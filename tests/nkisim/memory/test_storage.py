"""When a storage takes all of its bytes for written."""

import pytest

from nkisim.memory.storage import Storage
from nkisim.memory.written_map import runs_of

# Two rows of 16 bytes; views of them in float32, as byte start, shape and byte strides.
HALF, OTHER_HALF = (0, (2, 2), (16, 4)), (8, (2, 2), (16, 4))
WHOLE = (0, (2, 4), (16, 4))


def mark(storage, view):
    storage.mark_written(view[0], runs_of(*view, 4))


@pytest.fixture
def storage():
    return Storage.fresh(2, 16)


def test_bytes_written_twice_count_once(storage):
    """After two writes of one half as many bytes came as there are, and half are missing."""
    for _ in range(3):
        mark(storage, HALF)
        assert not storage.complete
    mark(storage, OTHER_HALF)
    assert storage.complete


def test_parts_make_a_whole(storage):
    mark(storage, OTHER_HALF)
    assert not storage.complete
    mark(storage, HALF)
    assert storage.complete


def test_one_dense_write_is_enough(storage):
    mark(storage, WHOLE)
    assert storage.complete


def test_nothing_is_missing_where_there_is_nothing():
    assert Storage.fresh(0, 16).complete
    assert Storage.fresh(2, 16, written=True).complete
    assert not Storage.fresh(2, 16).complete
