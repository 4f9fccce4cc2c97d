"""What can be allocated: sizes and addresses up to their limits, and what is said beyond them."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.arch import GEN2, GEN3, GEN4
from nkisim.diagnostics import RECORDER
from nkisim.language import MemoryRegion
from nkisim.memory import CoreMemory, allocation, layout
from nkisim.memory.allocation import SharedHbm
from nkisim.memory.requests import require_dtype, require_region, whole_shape

from ..harness_recorders import EachTime

# Bytes of a partition, and what of SBUF kernels may use.
SBUF = {GEN2: (196_608, 180_224), GEN3: (229_376, 212_984), GEN4: (262_144, 245_752)}
PSUM = 16_384

each_generation = pytest.mark.parametrize("generation", SBUF, ids=str)


@pytest.fixture
def findings():
    """What was found so far, as rule and message."""
    recorder = EachTime()
    token = RECORDER.set(recorder)
    yield lambda: recorder.heard
    RECORDER.reset(token)


def memory_of(generation=GEN3, **options):
    return CoreMemory(generation, **{"precise": True, **options})


def refused(rule, call):
    """The finding with which a call is refused."""
    with pytest.raises(nkisim.NkiValidationError) as caught:
        call()
    assert caught.value.rule_id == rule
    return caught.value.finding


# Sizes


@each_generation
@each_case("buffer", [nl.sbuf, nl.psum], ids=["sbuf", "psum"])
def test_partitions(generation, buffer):
    memory = memory_of(generation)
    assert memory.allocate((128, 4), nl.float32, buffer).shape == (128, 4)
    finding = refused("S001", lambda: memory.allocate((129, 4), nl.float32, buffer))
    assert finding.message == "nl.ndarray partition dimension 129 exceeds maximum 128"
    assert (finding.seen, finding.allowed) == ("129", "at most 128")


@each_generation
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum], ids=["sbuf", "psum"])
@pytest.mark.parametrize("dtype", [nl.uint8, nl.bfloat16, nl.float32], ids=str)
def test_bytes_of_a_partition(generation, buffer, dtype, findings):
    limit = PSUM if buffer is nl.psum else SBUF[generation][1]
    memory, columns = memory_of(generation), limit // dtype.itemsize
    for _ in range(2):  # the second is one that is known
        memory.allocate((1, columns), dtype, buffer)
    assert findings() == []
    for _ in range(2):
        memory.allocate((1, columns + 1), dtype, buffer)
    needed = (columns + 1) * dtype.itemsize
    text = f"tile (1, {columns + 1}) of {dtype} needs {needed} bytes per partition"
    assert findings() == [("M009", f"{text}, {buffer.value} has {limit} on {generation}")] * 2


def test_the_device_bytes_count_where_floats_are_kept_wide(findings):
    memory = memory_of(GEN3, precise=False)
    tile = memory.allocate((2, PSUM // 2), nl.bfloat16, nl.psum)
    assert (tile.itemsize, tile.form.strides, tile.origin.row_bytes) == (4, (2 * PSUM, 4), 2 * PSUM)
    assert findings() == []
    memory.allocate((2, PSUM // 2 + 1), nl.bfloat16, nl.psum)
    assert [rule for rule, _ in findings()] == ["M009"]


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.private_hbm, nl.shared_hbm])
def test_ranks(buffer, findings):
    memory = memory_of()
    for rank in range(1 if "hbm" in buffer.value else 2, 6):
        shape = (2,) * rank
        assert memory.allocate(shape, nl.float32, buffer).shape == shape
    assert findings() == []
    for _ in range(2):
        memory.allocate((2,) * 6, nl.float32, buffer)
    text = "nl.ndarray: shape (2, 2, 2, 2, 2, 2) has 6 dimensions"
    assert findings() == [("S065", text)] * 2


@pytest.mark.parametrize("shape", [(), (4,)])
def test_tiles_have_two_dimensions(shape):
    for buffer in (nl.sbuf, nl.psum):
        finding = refused("S002", lambda to=buffer: memory_of().allocate(shape, nl.float32, to))
        assert finding.message.endswith(f"got shape {shape}")
    assert memory_of().allocate(shape, nl.float32, nl.private_hbm).shape == shape


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.private_hbm])
def test_empty_tensors_are_found_every_time(buffer, findings):
    memory = memory_of()
    for _ in range(2):
        assert memory.allocate((4, 0), nl.float32, buffer).size == 0
    text = "nl.ndarray: shape (4, 0) has an empty dimension"
    assert findings() == [("S003", text)] * 2


# Addresses


@each_generation
@each_case("buffer", [nl.sbuf, nl.psum], ids=["sbuf", "psum"])
@each_case(
    ("partition", "rows", "before_end", "inside"),
    [
        (0, 128, 16, True),
        (96, 32, 16, True),
        (96, 33, 16, False),
        (0, 4, 15, False),
        (0, 4, 12, False),
        (-32, 4, 16, False),
        (128, 4, 16, False),
    ],
)
def test_an_address_lies_inside(generation, buffer, partition, rows, before_end, inside):
    limit = PSUM if buffer is nl.psum else SBUF[generation][0]
    address = (partition, limit - before_end)

    def place():
        return memory_of(generation).allocate((rows, 16), nl.uint8, buffer, address=address)

    if inside:
        tile = place()
        assert tile.start == partition * limit + limit - before_end
        assert (tile.start_partition, tile.free_byte_offset) == address
        assert tile.life.address == address
        return
    finding = refused("M014", place)
    assert finding.message == (
        f"address {address} with shape ({rows}, 16) ends at partition {partition + rows}, byte "
        f"{limit - before_end + 16}; {buffer.value} ends at partition 128, byte {limit}"
    )
    assert finding.allowed == f"inside 128 partitions of {limit} bytes"


def test_no_byte_before_the_first():
    place = lambda: memory_of().allocate((4, 4), nl.uint8, nl.sbuf, address=(0, -1))  # noqa: E731
    assert "ends at partition 4, byte 3;" in refused("M014", place).message


@pytest.mark.parametrize(
    ("dtype", "buffer", "grain"),
    [
        (nl.uint8, nl.sbuf, 1),
        (nl.bfloat16, nl.sbuf, 2),
        (nl.float32, nl.sbuf, 4),
        (nl.uint8, nl.psum, 4),
        (nl.bfloat16, nl.psum, 4),
        (nl.float32, nl.psum, 4),
    ],
)
def test_alignment(dtype, buffer, grain, findings):
    memory, expected = memory_of(), []
    for address in [*((0, offset) for offset in range(9)), *((p, 0) for p in range(0, 97, 8))]:
        memory.allocate((4, 4), dtype, buffer, address=address)
        if address[0] % 32 or address[1] % grain:
            text = f"address {address} is misaligned for {dtype} in {buffer.value}"
            expected.append(("M015", text))
    assert findings() == expected


# What a kernel asks for


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        (7, (7,)),
        (np.int32(7), (7,)),
        ([2, 3], (2, 3)),
        ((2, np.int64(3)), (2, 3)),
        ((True, 3), (1, 3)),
        ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)),
        ((), ()),
    ],
    ids=repr,
)
def test_shapes(shape, found, findings):
    made = whole_shape(shape, "nl.ndarray")
    assert made == found
    assert all(type(extent) is int for extent in made)
    assert findings() == []


@pytest.mark.parametrize("entry", [3.0, np.float32(3)], ids=repr)
def test_whole_floats_are_taken_with_a_finding(entry, findings):
    assert whole_shape((2, entry), "nl.zeros") == (2, 3)
    assert findings() == [("L019", "nl.zeros: shape entry 3.0 is a float")]


def test_shapes_that_are_none(findings):
    with pytest.raises(TypeError, match=r"nl.zeros: shape entry 2.5 is not an integer"):
        whole_shape((2.5,), "nl.zeros")
    with pytest.raises(ValueError, match=r"nl.zeros: negative extent in shape \(2, -1\)"):
        whole_shape((2, -1), "nl.zeros")
    assert [rule for rule, _ in findings()] == ["L019"]


def test_buffers_are_objects():
    assert require_region(nl.psum, "nl.ndarray") is MemoryRegion.psum
    finding = refused("A014", lambda: require_region("sbuf", "nl.ndarray"))
    assert (finding.seen, finding.fix) == ("'sbuf'", "buffer=nl.sbuf")
    finding = refused("A014", lambda: require_region(3, "nl.ndarray"))
    assert finding.message == "nl.ndarray: buffer must be a buffer object, got 3"
    assert finding.fix == "pass nl.sbuf, nl.psum or an nl HBM buffer"


def test_types_of_others_are_taken_with_a_finding(findings):
    assert require_dtype("float32", "nl.ndarray") == nl.float32
    assert findings() == []
    assert require_dtype(np.float32, "nl.ndarray") == nl.float32
    ((rule, message),) = findings()
    assert (rule, message.split(": ")[0]) == ("D045", "nl.ndarray")
    refused("D001", lambda: require_dtype(np.float64, "nl.ndarray"))


# Names


def test_a_name_is_used_once(findings):
    memory = memory_of()
    for name in ("a", "b", "", "", "a"):
        memory.allocate((4, 4), nl.float32, nl.sbuf, name)
    assert findings() == [("M033", "nl.ndarray: the name 'a' is used twice")]
    assert [life.name for life in memory.log] == ["a", "b", "", "", "a"]


# Arguments


@pytest.mark.parametrize("precise", [True, False])
@pytest.mark.parametrize("values", [True, False])
def test_an_argument_is_a_copy_that_is_written(precise, values):
    memory = memory_of(precise=precise, values=values)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = memory.argument(array, nl.shared_hbm, "x", nl.bfloat16)
    assert (tensor.shape, tensor.dtype, tensor.name) == ((2, 3), nl.bfloat16, "x")
    assert tensor.itemsize == (2 if precise else 4)
    assert tensor.form.strides == (3 * tensor.itemsize, tensor.itemsize)
    assert tensor.origin.is_argument
    assert tensor.origin.precise is precise
    assert tensor.storage.complete
    assert tensor.storage.pitch == tensor.origin.row_bytes == 6 * tensor.itemsize
    assert tensor.whole
    assert [life.name for life in memory.log] == ["x"]
    if values:
        np.testing.assert_array_equal(tensor.array.astype(np.float32), array)
        array[...] = 9
        assert tensor.array[0, 1] == 1
    assert memory.argument(array, nl.shared_hbm, "y").dtype == nl.float32


def test_a_new_tensor_is_unwritten():
    for buffer in MemoryRegion:
        for _ in range(2):
            tensor = memory_of().allocate((4, 6), nl.int16, buffer)
            assert not tensor.storage.complete
            assert not tensor.origin.is_argument
            assert (tensor.life.first_use, tensor.life.last_use) == (-1, -1)
            assert (tensor.storage.psum is not None) == (buffer is nl.psum)
            assert tensor.form.strides == (12, 2)
            assert tensor.origin.elements(2) == 24
            assert tensor.origin.elements(1) == 48


# What two cores share


class Followed:
    """Stands for what follows the accesses to a storage."""

    def __init__(self, *sizes, **options):
        self.made = sizes, options


def cores(count=2, **options):
    shared = SharedHbm(Followed)
    return shared, [memory_of(shared=shared, **options) for _ in range(count)]


def test_shared_tensors_are_matched_by_their_order():
    shared, (one, other) = cores()
    first, second = (one.allocate((2, n), nl.float32, nl.shared_hbm) for n in (3, 4))
    assert first.storage.shared.made == ((24,), {"values": True})
    again = other.allocate((2, 3), nl.float32, nl.shared_hbm)
    assert again.storage is first.storage
    assert (one.shared_count, other.shared_count) == (2, 1)
    assert shared.unmatched([2, 1]) == [second]
    assert shared.unmatched([2, 2]) == []
    assert shared.unmatched([2, 0]) == [first, second]


@pytest.mark.parametrize(
    ("shape", "dtype", "name"),
    [((2, 4), nl.float32, "a"), ((2, 3), nl.int32, "a"), ((2, 3), nl.float32, "b")],
)
def test_shared_tensors_that_differ(shape, dtype, name):
    _, (one, other) = cores()
    one.allocate((2, 3), nl.float32, nl.shared_hbm, "a")
    finding = refused("C004", lambda: other.allocate(shape, dtype, nl.shared_hbm, name))
    assert finding.message == (
        f"shared_hbm tensor 0 is {dtype} {shape} `{name}` here and float32 (2, 3) `a` on the other "
        "core"
    )


def test_a_twin_is_the_other_cores_tensor_of_the_same_line():
    _, memories = cores()
    made = [[m.allocate((2, n), nl.float32, nl.private_hbm) for n in (3, 4)] for m in memories]
    extra = memories[0].allocate((2, 3), nl.float32, nl.private_hbm)
    wider = memories[1].allocate((2, 9), nl.float32, nl.private_hbm)
    for number in range(2):
        assert memories[0].twin_of(made[0][number]) is made[1][number]
        assert memories[1].twin_of(made[1][number]) is made[0][number]
    assert memories[0].twin_of(extra) is None
    assert memories[1].twin_of(wider) is None
    alone = memory_of()
    assert alone.twin_of(alone.allocate((2, 3), nl.float32, nl.private_hbm)) is None


def test_arguments_of_two_cores_are_followed():
    _, (one, _) = cores(values=False)
    tensor = one.argument(np.zeros((2, 3), np.float32), nl.shared_hbm, "x")
    assert tensor.storage.shared.made == ((24,), {"written": True, "values": False})
    assert memory_of().argument(np.zeros(2, np.float32), nl.shared_hbm, "x").storage.shared is None


# -- bounded caches --------------------------------------------------------------------------------


def shapes_in_turn(x):
    """Allocate and slice tiles of many shapes, each in two rounds, and sum one element of each."""
    out = nl.ndarray((1, 40), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in [*range(1, 41), *range(1, 41)]:
        tile = nl.ndarray((4, i), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=float(i))
        nisa.dma_copy(dst=out[0:1, i - 1 : i], src=tile[0:1, i - 1 : i])
    return out


def test_forms_and_layouts_of_tiles_are_cached_up_to_a_bound(monkeypatch):
    x = np.zeros((1, 1), np.float32)
    want = nkisim.check(shapes_in_turn)(x)
    forms = {}
    monkeypatch.setattr(allocation, "_FORMS", forms)
    monkeypatch.setattr(allocation, "_MOST_FORMS", 7)
    monkeypatch.setattr(layout, "_LAYOUTS", {})
    monkeypatch.setattr(layout, "_MOST_LAYOUTS", 5)
    got = nkisim.check(shapes_in_turn)(x)
    assert 0 < max(map(len, forms.values())) <= 7
    assert 0 < len(layout._LAYOUTS) <= 5
    np.testing.assert_array_equal(got.outputs, np.arange(1, 41, dtype=np.float32)[None])
    assert [(f.rule.id, f.count) for f in got.findings] == [
        (f.rule.id, f.count) for f in want.findings
    ]


def test_a_layout_that_left_the_cache_never_shares_its_number_with_another(monkeypatch):
    monkeypatch.setattr(layout, "_LAYOUTS", {})
    monkeypatch.setattr(layout, "_MOST_LAYOUTS", 4)
    numbers = {}
    for i in [*range(10), *range(10)]:
        numbers.setdefault(layout.layout_id(("some", i)), set()).add(i)
    assert all(len(keys) == 1 for keys in numbers.values())
