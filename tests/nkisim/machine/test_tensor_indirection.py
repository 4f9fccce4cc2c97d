"""Tensor indirection of NKI 0.5: gathers and scatters by offsets, NumPy one element at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim import NkiValidationError

RUN = {"nki": "0.6", "target": "gen4"}


def places(index, count, group):
    """Offset i of each partition: row i mod group, column i div group of its own group's rows."""
    found = np.zeros((len(index), count), int)
    for p in range(len(index)):
        for i in range(count):
            found[p, i] = index[p // group * group + i % group, i // group]
    return found


def gathered(data, index, count, group=16):
    at = places(index, count, group)
    return np.array([[data[p, o] for o in at[p]] for p in range(len(data))])


def scattered(before, values, index, group=16):
    after, at = before.copy(), places(index, values.shape[1], group)
    for p in range(len(before)):
        for i, o in enumerate(at[p]):
            after[p, o] = values[p, i]
    return after


def loaded(source, buffer=nl.sbuf):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    if buffer == nl.sbuf:
        return tile
    other = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    nisa.tensor_copy(dst=other, src=tile, engine=nisa.engine.vector)
    return other


def stored(tile):
    if tile.buffer == nl.psum:
        copy = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.vector)
        tile = copy
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def drawn(seed, rows, columns, offsets, kind=np.float32, distinct=False):
    """Data, and an index whose groups hold offsets below ``columns``."""
    rng = np.random.default_rng(seed)
    data = rng.integers(-99, 99, (rows, columns)).astype(kind)
    index = rng.integers(0, columns, (rows, offsets)).astype(np.uint16)
    if distinct:
        for first in range(0, rows, 16):
            picked = rng.permutation(columns)[: 16 * offsets]
            index[first : first + 16] = picked.reshape(offsets, 16).T
    return data, index


@given(
    seed=st.integers(0, 99),
    groups=st.sampled_from([1, 2, 4, 8]),
    columns=st.integers(1, 40),
    width=st.integers(1, 3),
    data=st.data(),
)
def test_copies_gather_and_scatter(seed, groups, columns, width, data):
    rows = 16 * groups
    count = data.draw(st.integers(1, 16 * width))
    array, index = drawn(seed, rows, columns, width)
    buffer = data.draw(st.sampled_from([nl.sbuf, nl.psum]))

    def gather(x, i):
        tile, out = loaded(x, buffer), nl.ndarray((rows, count), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=out, src=tile.indirect(loaded(i), count))
        return stored(out)

    got = nkisim.simulate(gather, **RUN)(array, index)
    np.testing.assert_array_equal(got, gathered(array, index, count))

    wide, index = drawn(seed, rows, 16 * width, width, distinct=True)
    values = -np.arange(1, 1 + rows * count, dtype=np.float32).reshape(rows, count)

    def scatter(x, v, i):
        tile = loaded(x, buffer)
        nisa.tensor_copy(
            dst=tile.indirect(loaded(i), count), src=loaded(v), engine=nisa.engine.vector
        )
        return stored(tile)

    got = nkisim.simulate(scatter, **RUN)(wide, values, index)
    np.testing.assert_array_equal(got, scattered(wide, values, index))


@nkisim.jit
def instruction(x, y, i, name):
    """One instruction on 16 gathered columns of x, its result scattered into a tile of ones."""
    tile, other, index = loaded(x), loaded(y), loaded(i)
    result = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(result, value=1.0)
    src, dst = tile.indirect(index, 16), result.indirect(index, 16)
    column = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(column, value=3.0)
    if name == "tensor_tensor":
        nisa.tensor_tensor(dst=dst, data1=src, data2=other, op=nl.add)
    elif name == "tensor_scalar":
        nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=column)
    elif name == "activation":
        nisa.activation(dst=dst, op=nl.relu, data=src, scale=2.0)
    elif name == "tensor_copy_predicated":
        mask = nl.ndarray(y.shape, dtype=nl.uint8, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mask, data=other, op0=nl.greater, operand0=0.0)
        nisa.tensor_copy_predicated(dst=dst, src=other, predicate=mask)
    elif name == "tensor_scalar_cumulative":
        nisa.tensor_scalar_cumulative(dst=dst, src=src, op0=nl.add, op1=nl.add, imm0=1.0)
    elif name == "tensor_scalar_reduce":
        sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar_reduce(
            dst=dst, data=src, op0=nl.add, operand0=1.0, reduce_op=nl.add, reduce_res=sums
        )
        return stored(result), stored(sums)
    elif name == "activation_reduce":
        sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=dst, op=nl.relu, data=src, reduce_op=nl.add, reduce_res=sums)
        return stored(result), stored(sums)
    elif name == "tensor_reduce":
        one = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=one, op=nl.add, data=src, axis=1)
        return stored(one)
    return stored(result)


MEANING = {
    "tensor_tensor": lambda x, y: x + y,
    "tensor_scalar": lambda x, y: x * 3,
    "activation": lambda x, y: np.maximum(2 * x, 0),
    "tensor_scalar_cumulative": lambda x, y: np.cumsum(x + 1, axis=1),
    "tensor_copy_predicated": lambda x, y: np.where(y > 0, y, 1),
    "tensor_scalar_reduce": lambda x, y: (x + 1, (x + 1).sum(axis=1, keepdims=True)),
    "activation_reduce": lambda x, y: (np.maximum(x, 0), np.maximum(x, 0).sum(1, keepdims=True)),
}


@each_case("name", sorted(MEANING))
def test_instructions_compute_on_the_selected_elements(name):
    x, index = drawn(1, 32, 40, 1, distinct=True)
    y = np.random.default_rng(2).integers(-9, 9, (32, 16)).astype(np.float32)
    want = MEANING[name](gathered(x, index, 16), y)
    want, *sums = want if isinstance(want, tuple) else (want,)
    got = nkisim.simulate(instruction, **RUN)(x, y, index, name)
    got, *reduced = got if isinstance(got, tuple) else (got,)
    np.testing.assert_array_equal(got, scattered(np.ones((32, 40), np.float32), want, index))
    for result, expected in zip(reduced, sums, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_reductions_over_the_selected_elements():
    x, index = drawn(3, 32, 40, 1)
    got = nkisim.simulate(instruction, **RUN)(x, x[:, :16], index, "tensor_reduce")
    np.testing.assert_array_equal(got, gathered(x, index, 16).sum(axis=1, keepdims=True))


@nkisim.jit
def product(a, b, i, j, k, accumulate):
    """Products of gathered columns, added up in scattered columns of PSUM."""
    left, right = loaded(a), loaded(b)
    index, other, places = loaded(i), loaded(j), loaded(k)
    total = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.psum)
    zeros = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(zeros, value=0.0)
    nisa.tensor_copy(dst=total, src=zeros, engine=nisa.engine.vector)
    for step in range(2):
        nisa.nc_matmul(
            dst=total.indirect(places, 32),
            stationary=left.indirect(index, 32),
            moving=right.indirect(other, 32),
            accumulate=accumulate[step],
        )
    return stored(total)


@each_case("accumulate, times", [((False, True), 2), ((False, False), 1), ((None, None), 2)])
def test_matmuls_gather_operands_and_scatter_sums(accumulate, times):
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-4, 4, (32, 40)).astype("bfloat16") for _ in range(2))
    i, j = (rng.integers(0, 40, (32, 1)).astype(np.int16) for _ in range(2))
    k = rng.permutation(64)[:32].reshape(32, 1).astype(np.int16)
    got = nkisim.simulate(product, **RUN)(a, b, i, j, k, accumulate)
    left, right = (gathered(v.astype(np.float32), n, 32, 32) for v, n in ((a, i), (b, j)))
    want = scattered(np.zeros((32, 64), np.float32), times * (left.T @ right), k, 32)
    np.testing.assert_array_equal(got, want)


@nkisim.jit
def scaled_product(a, b, i, j, k, select):
    packs, scales = [], []
    for source in (a, b):
        tile = loaded(source)
        words = (source.shape[0], source.shape[1] // 4)
        pack = nl.ndarray(words, dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scale = nl.ndarray(words, dtype=nl.float8_e8m0fnu, buffer=nl.sbuf)
        nisa.quantize_mx(dst=pack, src=tile, dst_scale=scale)
        packs.append(pack)
        scales.append(scale)
    index, other, third = loaded(i), loaded(j), loaded(k)
    if select:
        packs = [packs[0].indirect(index, 16), packs[1].indirect(other, 16)]
        scales = [scales[0].indirect(index, 16), scales[1].indirect(third, 16)]
    if select == "data":
        scales[1] = nl.ndarray((32, 16), dtype=nl.float8_e8m0fnu, buffer=nl.sbuf)
        nisa.memset(scales[1], value=1.0)
    total = nl.ndarray((packs[0].shape[1], packs[1].shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(
        dst=total,
        stationary=packs[0],
        moving=packs[1],
        stationary_scale=scales[0],
        moving_scale=scales[1],
    )
    return stored(total)


def test_scaled_matmuls_gather_data_and_scales_together():
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 4, (32, 96)).astype("bfloat16") for _ in range(2))
    i, j = (rng.integers(0, 24, (32, 1)).astype(np.int16) for _ in range(2))
    run = nkisim.simulate(scaled_product, **RUN)
    whole, part = run(a, b, i, j, j, False), run(a, b, i, j, j, True)
    np.testing.assert_array_equal(part, whole[i[:16, 0]][:, j[:16, 0]])
    with pytest.raises(NkiValidationError, match="different offsets") as caught:
        run(a, b, i, j, i, True)
    assert caught.value.finding.rule.id == "S026"
    with pytest.raises(NkiValidationError, match="differ in tensor indirection") as caught:
        run(a, b, i, j, j, "data")
    assert caught.value.finding.rule.id == "S026"


def test_exponential_is_that_of_a_dense_copy():
    def kernel(x, i):
        tile, index = loaded(x), loaded(i)
        dense = nl.ndarray((32, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=dense, src=tile.indirect(index, 16))
        results = []
        for src in (dense, tile.indirect(index, 16)):
            out = nl.ndarray((32, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.exponential(dst=out, src=src, max_value=1.0)
            results.append(stored(out))
        return tuple(results)

    x, index = drawn(6, 32, 40, 1)
    want, got = nkisim.simulate(kernel, **RUN)(x / 64, index)
    np.testing.assert_array_equal(got, want)
    assert len(np.unique(got)) > 2


@pytest.mark.parametrize("values", [True, False])
def test_runs_without_values_and_profiles(values):
    x, index = drawn(7, 32, 40, 1, distinct=True)
    y = np.ones((32, 16), np.float32)
    run = nkisim.simulate(instruction, values=values, strictness="check", **RUN)
    run(x, y, index, "tensor_tensor")
    assert {f.rule.id for f in run.report.findings} & {"M001", "S021", "S004"} == set()
    assert nkisim.profile(instruction, **RUN)(x, y, index, "tensor_tensor") is not None


# -- state of the selected elements


def findings(kernel, *arrays, **options):
    report = nkisim.check(kernel, **(RUN | options))(*arrays)
    return {finding.rule.id for finding in report.findings}


@each_case("written, clean", [(range(8), False), (range(4), True)])
def test_only_the_selected_elements_must_have_been_written(written, clean):
    """The first half of a tile is written; offsets select in it, or beyond it."""

    def kernel(i):
        tile = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(tile[:, 0:4], value=1.0)
        out = nl.ndarray((16, 4), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=out, src=tile.indirect(loaded(i), 4))
        return stored(out)

    index = np.resize(np.array(list(written))[::-1], (16, 1)).astype(np.int32)
    assert ("M001" in findings(kernel, index)) != clean


def test_scattered_elements_are_written_and_others_not():
    def kernel(i):
        tile = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.sbuf)
        ones = nl.ndarray((16, 4), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(ones, value=1.0)
        nisa.tensor_copy(dst=tile.indirect(loaded(i), 4), src=ones)
        return stored(tile[:, 0:4])

    for first, clean in ((0, True), (1, False)):
        index = np.resize(np.arange(first, first + 4), (16, 1)).astype(np.int32)
        assert ("M001" in findings(kernel, index)) != clean


def test_offsets_out_of_bounds_stop():
    def kernel(x, i):
        out = nl.ndarray((16, 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=out, src=loaded(x).indirect(loaded(i), 4))
        return stored(out)

    for wrong in (8, -1):
        index = np.full((16, 1), wrong, np.int32)
        with pytest.raises(NkiValidationError) as caught:
            nkisim.simulate(kernel, **RUN)(np.ones((16, 8), np.float32), index)
        assert caught.value.finding.rule.id == "M036"


# -- what is refused


def refusal(body, **options):
    """The rule of a kernel with a tile, an index of two columns, a dense tile and a column."""

    def kernel(x):
        tile = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, value=1.0)
        index = nl.ndarray((32, 2), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(index, value=1)
        dense = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dense, value=1.0)
        body(tile, index, dense)
        return x

    with pytest.raises(NkiValidationError) as caught:
        nkisim.simulate(kernel, **(RUN | {"strictness": "strict"} | options))(
            np.ones((2, 2), np.float32)
        )
    return caught.value.finding.rule.id


def copy(tile, index, dense):
    nisa.tensor_copy(dst=dense, src=tile.indirect(index, 8))


def copy_of(view):
    nisa.tensor_copy(dst=nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.sbuf), src=view)


REFUSED = {
    "too many": ("S025", lambda t, i, d: copy_of(t.indirect(i, 40))),
    "all of two groups": ("S025", lambda t, i, d: copy_of(t.indirect(i))),
    "no offsets": ("A025", lambda t, i, d: t.indirect(i, 0)),
    "more than index": ("A025", lambda t, i, d: t.indirect(i, 65)),
    "rows": ("S025", lambda t, i, d: t.indirect(i[0:16], 8)),
    "floats": ("S025", lambda t, i, d: t.indirect(d, 8)),
    "no tensor": ("S025", lambda t, i, d: t.indirect(3)),
    "strided": ("A025", lambda t, i, d: t[:, ::2].indirect(i, 8)),
    "twice": ("S025", lambda t, i, d: t.indirect(i, 8).indirect(i, 8)),
    "sliced": ("S025", lambda t, i, d: t.indirect(i, 8)[:, 0:4]),
    "reshaped": ("S025", lambda t, i, d: t.indirect(i, 8).reshape((32, 2, 4))),
    "permuted": ("S025", lambda t, i, d: t.indirect(i, 8).permute((0, 1))),
    "ap": ("S025", lambda t, i, d: t.indirect(i, 8).ap([[8, 32], [1, 8]])),
    "view": ("S025", lambda t, i, d: t.indirect(i, 8).view(nl.int32)),
    "second operand": (
        "S026",
        lambda t, i, d: nisa.tensor_tensor(dst=d, data1=d, data2=t.indirect(i, 8), op=nl.add),
    ),
    "other instruction": ("S026", lambda t, i, d: nisa.memset(t.indirect(i, 8), value=1.0)),
    "dma": ("S026", lambda t, i, d: nisa.dma_copy(dst=d, src=t.indirect(i, 8))),
    "engine": (
        "A034",
        lambda t, i, d: nisa.tensor_copy(dst=d, src=t.indirect(i, 8), engine=nisa.engine.gpsimd),
    ),
}


def matmul(moving=None, stationary=None, dtype=nl.bfloat16, **others):
    """A body that multiplies tiles of a type, some of them selected."""

    def body(tile, index, dense):
        first = others.get("tile_position", (0, 0))[0]
        made = [nl.ndarray((first + 32, 8), dtype=dtype, buffer=nl.sbuf) for _ in range(2)]
        made = [one[first:] for one in made]
        for one in made:
            nisa.memset(one, value=1.0)
        left = made[0].indirect(index, 8) if stationary else made[0]
        right = made[1].indirect(index, 8) if moving else made[1]
        kind = dtype if others.get("is_transpose") else nl.float32
        total = nl.ndarray((8, 8), dtype=kind, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=left, moving=right, **others)

    return body


def scattered_by_scalar(tile, index, dense):
    total = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.psum)
    nisa.tensor_copy(dst=total.indirect(index, 8), src=dense, engine=nisa.engine.scalar)


REFUSED |= {
    "transposed moving": ("S026", matmul(moving=True, is_transpose=True)),
    "array tile": (
        "S026",
        matmul(stationary=True, tile_position=(32, 0), tile_size=(32, 128)),
    ),
    "float32 operand": ("S026", matmul(stationary=True, dtype=nl.float32)),
    "scalar engine into psum": ("S026", scattered_by_scalar),
}


def test_matmuls_of_the_same_kind_are_accepted():
    tile = {"tile_position": (0, 0), "tile_size": (32, 128)}
    for body in (matmul(stationary=True), matmul(moving=True, **tile)):
        with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
            refusal(body, strictness="simulate")


@each_case("name", sorted(REFUSED))
def test_refused(name):
    rule, body = REFUSED[name]
    assert refusal(body) == rule


def test_only_gen4_has_it():
    for target in ("gen2", "gen3"):
        assert refusal(copy, target=target) == "A033"


def test_earlier_versions_have_no_such_view():
    for version in ("0.3", "0.4"):
        assert refusal(copy, nki=version) == "A025"


def placed(first, beside, start=32):
    """The rule of a copy whose index and source are placed at partitions."""

    def kernel(x):
        tile = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf, address=(beside, 0))
        index = nl.ndarray((32, 1), dtype=nl.int32, buffer=nl.sbuf, address=(first, 64))
        out = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf, address=(start, 128))
        nisa.memset(tile, value=1.0)
        nisa.memset(index, value=1)
        nisa.tensor_copy(dst=out, src=tile.indirect(index, 8))
        return x

    return findings(kernel, np.ones((2, 2), np.float32))


def test_placed_tiles_start_beside_their_index():
    assert "S004" not in placed(32, 32)
    assert "S004" in placed(64, 32)
    assert "S004" not in placed(64, 64, 0)
