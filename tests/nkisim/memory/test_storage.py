"""When a storage takes all of its bytes for written."""

import pytest

from nkisim.memory.storage import Storage

# Two rows of 16 bytes; views of them in float32, as byte start, shape and byte strides.
HALF, OTHER_HALF = (0, (2, 2), (16, 4)), (8, (2, 2), (16, 4))
WHOLE = (0, (2, 4), (16, 4))


@pytest.fixture
def storage():
    return Storage.fresh(2, 16)


def test_bytes_written_twice_count_once(storage):
    """After two writes of one half as many bytes came as there are, and half are missing."""
    for _ in range(3):
        storage.mark_written(*HALF, 4)
        assert not storage.complete
    storage.mark_written(*OTHER_HALF, 4)
    assert storage.complete


def test_parts_make_a_whole(storage):
    storage.mark_written(*OTHER_HALF, 4)
    assert not storage.complete
    storage.mark_written(*HALF, 4)
    assert storage.complete


def test_one_dense_write_is_enough(storage):
    storage.mark_written(*WHOLE, 4)
    assert storage.complete


def test_nothing_is_missing_where_there_is_nothing():
    assert Storage.fresh(0, 16).complete
    assert Storage.fresh(2, 16, written=True).complete
    assert not Storage.fresh(2, 16).complete
