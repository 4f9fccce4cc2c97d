"""Arguments have the caller's bytes until something is written to them; the caller's stay."""

from __future__ import annotations

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

SHAPE = (128, 128)


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal(SHAPE, np.float32)


def tile(shape=SHAPE):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def loaded(x):
    made = tile()
    nisa.dma_copy(dst=made, src=x)
    return made


def stored(made):
    out = nl.ndarray(made.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=made)
    return out


def borrowed(tensor, x):
    return np.shares_memory(tensor._storage.data, x)


def doubled(made, part=slice(None)):
    nisa.tensor_scalar(dst=made[part], data=made[part], op0=nl.multiply, operand0=2.0)


@pytest.mark.parametrize("shape", [(), (1, 1), (4, 4), SHAPE, (2, 3, 4)], ids=str)
def test_an_argument_is_copied_when_it_is_written(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    before, seen = x.copy(), []

    def kernel(a):
        seen.append(borrowed(a, x))
        b = nl.ndarray(shape, dtype=nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(dst=b, src=a)
        seen.append(borrowed(a, x))
        nisa.dma_copy(dst=a, src=b)
        seen.append(borrowed(a, x))
        x[...] = -1  # nobody does that; here it shows whose bytes are read
        return a

    out = nkisim.simulate(kernel)(x)
    assert seen == [True, True, False]
    np.testing.assert_array_equal(out, before)
    np.testing.assert_array_equal(x, before)


def test_a_tile_never_has_the_callers_bytes(x):
    seen = []

    def kernel(a):
        made = loaded(a)
        seen.append(borrowed(made, x))
        return stored(made)

    out = nkisim.simulate(kernel)(x)
    assert seen == [False]
    assert not np.shares_memory(out, x)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("part", [slice(None), slice(0, 32)], ids=["whole", "part"])
def test_a_write_goes_to_a_copy(x, part):
    before = x.copy()

    def kernel(a):
        made = loaded(a)
        view = made[0:64, 3:7]
        other = tile((64, 4))
        nisa.tensor_copy(dst=other, src=view)
        doubled(made, part)
        nisa.tensor_tensor(dst=other, data1=other, data2=view, op=nl.subtract)
        return stored(made), stored(other), stored(loaded(a))

    whole, difference, again = nkisim.simulate(kernel)(x)
    want = before.copy()
    want[part] *= 2
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(again, before)
    np.testing.assert_array_equal(whole, want)
    np.testing.assert_array_equal(difference, (before - want)[0:64, 3:7])


def test_an_argument_that_is_written_reaches_the_caller_at_the_end(x):
    before, seen = x.copy(), []

    def kernel(a):
        view = a[0:64, 3:7]  # made, and read, while the bytes are the caller's
        old, new = tile((64, 4)), tile((64, 4))
        nisa.dma_copy(dst=old, src=view)
        early = loaded(a)
        twice = loaded(a)
        doubled(twice)
        nisa.dma_copy(dst=a, src=twice)
        nisa.dma_copy(dst=new, src=view)
        nisa.tensor_tensor(dst=new, data1=new, data2=old, op=nl.subtract)
        late = loaded(a)
        seen.append(np.array_equal(x, before))
        return stored(early), stored(late), a, stored(new)

    early, late, out, change = nkisim.simulate(kernel)(x)
    assert seen == [True]
    np.testing.assert_array_equal(change, before[0:64, 3:7])
    np.testing.assert_array_equal(early, before)
    for written in (late, out, x):
        np.testing.assert_array_equal(written, 2 * before)


def test_a_kernel_that_stops_leaves_the_callers_arrays_alone(x):
    before = x.copy()

    def kernel(a):
        made = loaded(a)
        doubled(made)
        nisa.dma_copy(dst=a, src=made)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        nkisim.simulate(kernel)(x)
    np.testing.assert_array_equal(x, before)


def test_what_was_seen_before_a_load_sees_it(x, capsys):
    def kernel(a):
        made = tile()
        view = made.reshape((128, 4, 32))
        print(view)
        nisa.dma_copy(dst=made, src=a)
        out = nl.ndarray((128, 4, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=view)
        return out

    np.testing.assert_array_equal(nkisim.simulate(kernel)(x).reshape(SHAPE), x)
    assert "--" in capsys.readouterr().out  # masked: nothing was written yet


def test_a_tile_is_loaded_again_and_again(x):
    y = x + 1

    def kernel(a, b):
        made, outs = tile(), []
        for source in (a, b, a):
            nisa.dma_copy(dst=made, src=source)
            outs.append(stored(made))
        return tuple(outs)

    for found, want in zip(nkisim.simulate(kernel)(x, y), (x, y, x), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.T,
        lambda x: x[:, ::-1],
        lambda x: x.astype(">f4"),
        lambda x: np.broadcast_to(x[0], SHAPE),
        lambda x: np.ma.masked_array(x, x > 0),
        lambda x: x.view(np.matrix),
    ],
    ids=["transposed", "reversed", "big endian", "repeated", "masked", "matrix"],
)
def test_arrays_of_every_kind_come_in(x, make):
    array = make(x)
    want = np.asarray(array).astype(np.float32)

    def kernel(a):
        made = loaded(a)
        doubled(made)
        return stored(made)

    np.testing.assert_array_equal(nkisim.simulate(kernel)(array), 2 * want)
    np.testing.assert_array_equal(np.asarray(array), want)


def test_an_array_that_cannot_be_written_stays_as_it_is(x):
    x.setflags(write=False)
    before = x.copy()

    def kernel(a):
        made = loaded(a)
        doubled(made)
        return stored(made), stored(loaded(a))

    twice, once = nkisim.simulate(kernel)(x)
    np.testing.assert_array_equal(twice, 2 * before)
    np.testing.assert_array_equal(once, before)
    np.testing.assert_array_equal(x, before)


def test_a_register_goes_to_a_copy():
    x = np.zeros(SHAPE, np.int32)

    def kernel(a):
        made = nl.ndarray(SHAPE, dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=made, src=a)
        nisa.register_store(dst=made[2:3, 5:6], src=nisa.register_alloc(7))
        out = nl.ndarray(SHAPE, dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=made)
        return out

    out = nkisim.simulate(kernel)(x)
    assert out[2, 5] == 7
    assert out.sum() == 7
    assert not x.any()
