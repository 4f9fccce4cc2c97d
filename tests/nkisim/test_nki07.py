"""NKI 0.7.0: its names, scalars, grids, loops, split collectives and kinds of dependencies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.versions import names_of

NKI = {"nki": "0.7", "target": "gen3", "lnc": 1}
ONE = np.zeros((1, 1), np.int32)

# The rows of the release's pages: new names, and the parameters that differ from 0.6.0.
ATTRIBUTES = [
    *("buffer", "data", "dtype", "element_shape", "index_step_elements"),
    *("is_data_representable", "is_remainder", "shape", "tile_shape"),
]
V = "srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False"
FUNCTIONS = {
    "nki.language": {
        "tiles": "source, *, tile_shape=None",
        "blocks": "source, *, tile_shape=None, block_shape",
        "alloc_tiles": "*, tile_shape, element_shape, buffer, dtype, address=None, name=''",
        "alloc_blocks": "*, tile_shape, block_shape, element_shape, buffer, dtype, address=None, "
        "name=''",
        "empty_like": "x, dtype=None, buffer=None, name='', *, transpose_axes=None, address=None",
    },
    "nki.isa": {
        "scalar_load": "src",
        "scalar_store": "dst, value",
        "activation": "dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, "
        "reduce_cmd=reduce_cmd.idle, engine=engine.scalar, name=None",
        "activate2": "dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, "
        "reverse1=False, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, "
        "engine=engine.scalar, name=None",
        "topk": "val_dst, idx_dst, src, n, sorted=False, name=None",
    },
    "nki.collectives": {
        **dict.fromkeys(
            ("all_to_all_v_prepare", "all_gather_v_prepare"), f"{V}, priority=None, name=None"
        ),
        **dict.fromkeys(
            ("all_to_all_v_trigger", "all_gather_v_trigger"), "prepare_instr, name=None"
        ),
    },
}
CLASSES = {
    "nki.language": {"NkiGrid", "NkiTileGrid", "NkiBlockGrid"},
    "nki.isa": {"NkiScalar", "dependency"},
    "nki.collectives": {"rg_partition_op"},
}


@pytest.mark.parametrize("module", list(FUNCTIONS))
def test_the_release_differs_from_the_last_one_by_its_pages_only(module):
    before, after = names_of("0.6.0")[module], names_of("0.7.0")[module]
    assert after["functions"] == before["functions"] | FUNCTIONS[module]
    assert set(after["classes"]) - set(before["classes"]) == CLASSES[module]
    new = {*after["names"]} - {*before["names"]}
    assert new == ({"int64"} if module == "nki.language" else set())


def test_the_classes_have_the_members_of_the_pages():
    classes = names_of("0.7.0")["nki.language"]["classes"]
    for name in ("NkiGrid", "NkiTileGrid"):
        assert classes[name]["attributes"] == sorted(ATTRIBUTES)
    assert classes["NkiBlockGrid"]["attributes"] == sorted([*ATTRIBUTES, "block_shape"])
    enums = names_of("0.7.0")["nki.isa"]["classes"]["dependency"]
    assert enums["members"] == ["runtime", "schedule"]


@pytest.fixture(autouse=True)
def newest(monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.7")


def scalar_of(value, dtype=None):
    return nisa.NkiScalar(value, dtype)


def codes(kernel, *arrays, **options):
    return nkisim.check(kernel, **{**NKI, **options})(*arrays).codes


# -- scalars ---------------------------------------------------------------------------------------


@given(a=st.integers(-(2**31), 2**31 - 1), b=st.integers(-(2**31), 2**31 - 1))
def test_scalars_of_32_bits_wrap_as_the_integers_of_numpy(a, b):
    with np.errstate(over="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKISIM_NKI", "0.7")
        x, y = np.int32(a), np.int32(b)
        for wanted, found in (
            (x + y, scalar_of(a) + scalar_of(b)),
            (x - y, scalar_of(a) - b),
            (y - x, b - scalar_of(a)),
            (x * y, scalar_of(a) * scalar_of(b)),
            (-x, -scalar_of(a)),
        ):
            assert found.read() == int(wanted)


def test_the_products_of_the_documentation():
    assert (scalar_of(100000) * 100000).read() == 1410065408
    assert (scalar_of(2**31 - 1) + 1).read() == -(2**31)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKISIM_NKI", "0.7")
        assert (scalar_of(100000, nl.int64) * 100000).read() == 10**10


REFUSED = {
    "a division": ("L071", lambda s: s // 2),
    "a float": ("L071", lambda s: s + 1.0),
    "a shift": ("L071", lambda s: 1 << s),
    "another width": ("L071", lambda s: s + scalar_of(1, nl.int64)),
    "a wide comparison": ("L071", lambda s: scalar_of(1, nl.int64) < 2),
    "a used comparison": ("L071", lambda s: (s < 2) + 1),
    "a branch": ("L031", lambda s: 1 if s else 2),
    "an integer": ("L031", int),
    "a range": ("L031", range),
    "a wide bound": ("L072", lambda s: nl.fori_loop(0, scalar_of(4, nl.int64), print)),
    "an integer to store": ("A025", lambda s: nisa.scalar_store(tile_of(nl.int32), 3)),
    "another tile to store to": ("D053", lambda s: nisa.scalar_store(tile_of(nl.int64), s)),
    "an unsigned tile": ("D053", lambda s: nisa.scalar_load(tile_of(nl.uint32))),
    "a condition of a loop": ("A025", lambda s: nl.while_loop(s, lambda r: r)),
    "int64 arithmetic": (
        "D053",
        lambda s: nisa.tensor_copy(dst=tile_of(nl.int64), src=tile_of(nl.int64)),
    ),
    "a wide offset on chip": (
        "L072",
        lambda s: tile_of(nl.int32).ap([[1, 1], [1, 1]], scalar_offset=scalar_of(0, nl.int64)),
    ),
    "the old loop": ("L031", lambda s: list(nl.dynamic_range(3))),
}


def tile_of(dtype):
    tile = nl.ndarray((1, 1), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(tile, 1)
    return tile


@each_case("what", REFUSED)
def test_what_scalars_cannot_do(what):
    rule, use = REFUSED[what]

    def kernel(x):
        tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        use(nisa.scalar_load(tile))
        return x

    assert codes(kernel, ONE, source=False) == {rule}


def moved_rows(x, n):
    out = nl.zeros(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=count, src=n)
    bound = nisa.scalar_load(count)
    row = [[x.shape[1], 1], [1, x.shape[1]]]

    def body(i):
        tile = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap(row, scalar_offset=bound - 1 - i))
        nisa.dma_copy(dst=out.ap(row, scalar_offset=i), src=tile)

    nl.fori_loop(0, bound, body)
    return out


@each_case("count", [0, 1, 5, 8])
def test_a_counted_loop_runs_to_a_scalar(count):
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    wanted = np.zeros_like(x)
    wanted[:count] = x[:count][::-1]
    found = nkisim.simulate(moved_rows, **NKI)(x, np.full((1, 1), count, np.int32))
    np.testing.assert_array_equal(found, wanted)
    assert codes(moved_rows, x, np.full((1, 1), count, np.int32)) == set()


def test_a_stored_scalar_is_what_was_computed():
    def kernel(x):
        tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.scalar_store(tile, nisa.scalar_load(tile) * 3 - 4)
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    found = nkisim.simulate(kernel, **NKI)(np.full((1, 1), 7, np.int32))
    assert found.item() == 17


def test_the_old_front_end_refuses_scalars_and_keeps_the_old_loop(monkeypatch):
    def counted(x):
        for _ in nl.dynamic_range(2):
            pass
        return x

    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "custom")
    assert codes(moved_rows, np.ones((8, 8), np.float32), ONE, source=False) == {"A025"}
    assert codes(counted, ONE, source=False) == set()
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "tracer")
    assert codes(counted, ONE, source=False) == {"L031"}
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "other")
    with pytest.raises(ValueError, match=r"NKI_COMPILER_FRONTEND: got 'other', accepted: tracer"):
        nkisim.simulate(counted, **NKI)(ONE)


# -- grids -----------------------------------------------------------------------------------------


@given(
    shape=st.tuples(st.integers(1, 300), st.integers(1, 40)),
    tile=st.tuples(st.integers(1, 128), st.integers(1, 16)),
)
def test_tiles_cut_a_tensor_as_slices_do(shape, tile):
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        source, target = nl.tiles(a, tile_shape=tile), nl.tiles(out, tile_shape=tile)
        kept = nl.alloc_tiles(
            tile_shape=tile, element_shape=shape, buffer=nl.sbuf, dtype=nl.float32
        )
        assert (
            source.shape
            == kept.shape
            == tuple(-(-n // t) for n, t in zip(shape, tile, strict=True))
        )
        assert source.element_shape == shape
        for i in range(source.shape[0]):
            for j in range(source.shape[1]):
                cell = source[i, j]
                wanted = x[i * tile[0] : (i + 1) * tile[0], j * tile[1] : (j + 1) * tile[1]].shape
                assert cell.element_shape == cell.data.shape == kept[i, j].data.shape == wanted
                assert cell.is_remainder == (wanted != tile)
                nisa.dma_copy(dst=kept[i, j].data, src=cell.data)
        for i in range(source.shape[0]):
            nisa.dma_copy(dst=target[i].data, src=kept[i].data)
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKISIM_NKI", "0.7")
        np.testing.assert_array_equal(nkisim.simulate(kernel, **NKI)(x), x)


def in_kernel(use, x=None):
    """Return the findings of something done in a kernel."""

    def kernel(a):
        use(a)
        return a

    return codes(kernel, np.ones((512, 1024), np.float32) if x is None else x, source=False)


def test_blocks_group_tiles():
    def use(a):
        grid = nl.blocks(a, tile_shape=(128, 256), block_shape=(2, 2))
        assert (grid.shape, grid.block_shape, grid.tile_shape) == ((2, 2), (2, 2), (128, 256))
        block = grid[1, 0]
        assert block.data.shape == (256, 512)
        inner = nl.tiles(block)
        assert (inner.shape, inner[0, 1].data.shape) == ((2, 2), (128, 256))
        assert nl.tiles(grid).shape == (4, 4)
        assert not grid[::2].is_data_representable or grid.shape[0] <= 2
        like = nl.empty_like(grid, buffer=nl.sbuf)
        assert (type(like), like.shape, like.element_shape) == (type(grid), (2, 2), (512, 1024))

    assert in_kernel(use) == set()


WRONG_GRIDS = {
    "no tile shape": ("A025", lambda a: nl.tiles(a)),
    "a list": ("A025", lambda a: nl.tiles(a, tile_shape=[128, 256])),
    "one extent": ("S073", lambda a: nl.tiles(a, tile_shape=(128,))),
    "zero": ("S073", lambda a: nl.tiles(a, tile_shape=(128, 0))),
    "outside": ("S073", lambda a: nl.tiles(a, tile_shape=(128, 256))[4]),
    "strided": ("S073", lambda a: nl.tiles(a, tile_shape=(128, 256))[::2].data),
    "rows on chip": (
        "S073",
        lambda a: (
            nl.alloc_tiles(
                tile_shape=(128, 256), element_shape=(512, 256), buffer=nl.sbuf, dtype=nl.float32
            ).data
        ),
    ),
    "by position": ("A025", lambda a: nl.tiles(a, (128, 256))),
    "without data": (
        "A025",
        lambda a: nisa.dma_copy(
            dst=nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.sbuf),
            src=nl.tiles(a, tile_shape=(128, 256))[0, 0],
        ),
    ),
}


@each_case("what", WRONG_GRIDS)
def test_what_grids_cannot_be(what):
    rule, use = WRONG_GRIDS[what]
    assert in_kernel(use) == {rule}


# -- instructions and dependencies -----------------------------------------------------------------


@each_case("ascends", [False, True])
def test_topk_returns_its_lists_in_the_layout_of_the_source(ascends):
    k, rng = 20, np.random.default_rng(3)
    x = rng.permutation(32 * 8).reshape(32, 8).astype(np.float32)

    def kernel(a):
        tile = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        values = nl.zeros((32, k), dtype=nl.bfloat16, buffer=nl.sbuf)
        indices = nl.zeros((32, k), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.topk(values, indices, tile, 100, sorted=not ascends)
        out = nl.ndarray((32, k), dtype=nl.uint32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=indices)
        return out

    found = nkisim.simulate(kernel, **{**NKI, "target": "gen4"})(x)
    for group in range(2):
        listed = [x[16 * group + e % 16, e // 16] for e in range(100)]
        wanted = sorted(range(100), key=lambda e: -listed[e])[:k]
        wanted = wanted[::-1] if ascends else wanted
        assert [found[16 * group + j % 16, j // 16] for j in range(k)] == wanted


def test_groups_of_ranks_by_an_operation():
    made = ncc.ReplicaGroup.from_partition_op
    op = ncc.rg_partition_op
    assert made(8, op.bitwise_and, 0).groups == [list(range(8))]
    assert made(8, op.div, 4).groups == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert made(8, op.mod, 4).groups == [[0, 4], [1, 5], [2, 6], [3, 7]]


def split(x, meta, plan):
    source, target = (nl.zeros((8,), nl.float32, buffer=nl.private_hbm) for _ in range(2))
    group = ncc.ReplicaGroup([[0, 1]])
    handles = []
    for step in plan:
        if step == "prepare":
            handles.append(ncc.all_to_all_v_prepare([source], [target], group, meta))
        else:
            ncc.all_to_all_v_trigger(handles[0])
    return x, meta


@each_case(
    ("plan", "found"),
    [
        ("prepare trigger", set()),
        ("prepare", {"C038"}),
        ("prepare trigger trigger", {"C038"}),
        ("prepare prepare trigger", {"C038"}),
    ],
)
def test_a_prepared_collective_is_triggered_once(plan, found):
    meta = np.zeros((3, 2), np.uint32)
    options = {**NKI, "ranks": 2, "source": False, "ignore": ("C043", "C044", "C045")}
    arguments = [(ONE, meta, plan.split())] * 2
    assert nkisim.check(split, **options)(arguments).codes - {"A018"} == found


def test_only_runtime_edges_order_engines():
    def kernel(x, kind):
        first = nisa.memset(nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf), 1)
        second = nisa.memset(nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf), 2)
        edges.append(second.depends_on(first, kind=kind)._handle.core.edges.copy())
        return x

    for kind, count in ((None, 1), (nisa.dependency.runtime, 1), (nisa.dependency.schedule, 0)):
        edges = []
        nkisim.simulate(kernel, **NKI)(ONE, kind)
        assert len(edges[0]) == count


def test_a_kind_needs_0_7():
    def kernel(x):
        first = nisa.memset(nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf), 1)
        first.depends_on(kind="runtime")
        return x

    assert codes(kernel, ONE, source=False) == {"A025"}


@each_case("nki", ["0.6", "0.7"])
def test_reductions_take_three_free_dimensions(nki):
    def kernel(x):
        tile = nl.zeros((8, 2, 2, 2, 2), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar_reduce(
            dst=tile, data=tile, op0=nl.add, operand0=1.0, reduce_op=nl.add, reduce_res=total
        )
        return x

    found = nkisim.check(kernel, nki=nki, target="gen3", source=False)(ONE).codes
    assert ("S054" in found) == (nki == "0.7"), found
