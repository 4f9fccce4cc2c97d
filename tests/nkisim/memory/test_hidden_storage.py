"""What a tensor holds is not shown to a kernel's own code: only instructions read and write."""

import numpy as np
import pytest

import nkisim
from tiles import hbm, loaded, stored

LOOKS = {
    "array": lambda t: t.array,
    "storage": lambda t: t.storage,
    "getattr": lambda t: getattr(t, "arr" + "ay"),
    "asarray": lambda t: np.asarray(t, np.float32),
    "copyto": lambda t: np.copyto(t, 1.0),
    "memoryview": lambda t: memoryview(t),
    "bits": lambda t: t.bits,
    "data": lambda t: t.data,
    "owner": lambda t: t.owner,
    "dlpack": lambda t: np.from_dlpack(t),
}


def product_of_bytes(a, b):
    out = hbm((a.shape[1], b.shape[1]))
    out.array[...] = a.array.T @ b.array
    return out


ONE = np.ones((128, 128), np.float32)


@pytest.mark.parametrize("run", [nkisim.simulate, nkisim.profile, nkisim.jit])
def test_a_product_of_the_bytes_is_an_error_at_each_entry_point(run):
    with pytest.raises((nkisim.NkiValidationError, nkisim.ProfileError), match=r"\.array"):
        run(product_of_bytes)(ONE, ONE)


def test_and_a_finding_of_a_check():
    report = nkisim.check(product_of_bytes)(ONE, ONE)
    assert report.outputs is None
    assert "A025" in report.codes


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("memory", ["argument", "tile", "output"])
def test_no_way_of_looking_works_inside_of_a_kernel(look, memory):
    seen = []

    def kernel(a):
        tile, out = loaded(a), hbm(a.shape)
        seen.append(LOOKS[look]({"argument": a, "tile": tile, "output": out}[memory]))
        return stored(tile)

    with pytest.raises(Exception):  # noqa: B017, PT011 - which one depends on the look
        nkisim.simulate(kernel)(ONE)
    assert not seen


def test_a_watcher_and_code_after_the_run_see_everything():
    held, kept = [], []

    def watch(event):
        held.append(event.writes[0][1].array.copy())

    def kernel(a):
        kept.append(a)
        return stored(loaded(a))

    nkisim.simulate(kernel, watchers=(watch,))(ONE)
    assert all((array == 1).all() for array in held)
    assert len(held) == 2
    assert (kept[0].array == 1).all()
    assert kept[0].storage.complete


def test_an_exception_ends_the_hiding():
    kept = []

    def kernel(a):
        kept.append(a)
        raise KeyError("of the kernel")

    with pytest.raises(KeyError):
        nkisim.simulate(kernel)(ONE)
    assert (kept[0].array == 1).all()
