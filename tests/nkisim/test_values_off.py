"""Runs without values: the same findings about shapes, memory and cores, and no outputs."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl


def gemm(a_t, b, fill=True):
    k_size, m_size = a_t.shape
    n_size = b.shape[1]
    out = nl.ndarray((m_size, n_size), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((m_size, n_size), dtype=nl.float32, buffer=nl.psum)
    for k in range(0, k_size, 128):
        left, right = nl.load(a_t[k : k + 128]), nl.load(b[k : k + 128])
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=k > 0)
    tile = nl.ndarray((m_size, n_size), dtype=nl.float32, buffer=nl.sbuf)
    if fill:
        nisa.tensor_copy(dst=tile, src=total)
    else:
        nisa.tensor_copy(dst=tile[:, 1:], src=total[:, 1:])
    nisa.dma_copy(dst=out, src=tile)
    return out


def inputs():
    return np.ones((256, 64), ml_dtypes.bfloat16), np.ones((256, 512), ml_dtypes.bfloat16)


def test_a_clean_kernel_is_clean_and_returns_nothing():
    simulation = nkisim.simulate(gemm, values=False)
    assert simulation(*inputs()) is None
    assert simulation.report.findings == []


def test_arguments_are_neither_read_nor_written():
    def overwrite(x):
        nisa.dma_copy(dst=x, src=nl.zeros(x.shape, dtype=x.dtype))
        return x

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    nkisim.check(overwrite, values=False)(x)
    np.testing.assert_array_equal(x, np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("values", [True, False])
def test_unwritten_memory_is_found(values):
    report = nkisim.check(gemm, values=values)(*inputs(), fill=False)
    assert report.codes == {"M001"}
    assert "64 of 32768" in report.findings[0].message


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("target", ["gen3", "gen4"])
def test_accumulation_groups_are_followed(values, target):
    def misuse(a_t, b):
        total = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(dst=total, value=0.0)
        left, right = nl.load(a_t[0:128]), nl.load(b[0:128])
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=True)
        first = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=first, src=total)
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
        nisa.tensor_copy(dst=first, src=total)
        out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=first)
        return out

    expected = {"M004", "M043"} if target == "gen3" else {"M043"}
    assert nkisim.check(misuse, values=values, target=target)(*inputs()).codes == expected


@pytest.mark.parametrize("values", [True, False])
def test_static_rules_and_capacity_are_checked(values):
    def greedy(x):
        tiles = [nl.load(x) for _ in range(3)]
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for tile in tiles:
            nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.zeros((128, 30000), np.float32)
    assert "M008" in nkisim.check(greedy, values=values)(x).codes

    def mismatch(x):
        tile = nl.load(x)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile[:, 0:2], op=nl.add)
        return x

    assert nkisim.check(mismatch, values=values)(np.zeros((4, 4), np.float32)).codes == {"S007"}


@pytest.mark.parametrize("values", [True, False])
def test_cores_still_meet_and_miss_each_other(values):
    def racy(x):
        core, half = nl.program_id(0), x.shape[0] // 2
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[core * half : (core + 1) * half], nl.load(x[core * half : (core + 1) * half]))
        if core == 0:
            nl.load(out[half : 2 * half])
        nisa.core_barrier(data=out, cores=(0, 1))
        return out

    x = np.zeros((8, 4), np.float32)
    chosen = {"values": values, "schedule_seed": 1, "detect": ("races",)}
    codes = nkisim.check(nkisim.jit(racy)[2], **chosen)(x).codes
    # Which of the three depends on who comes first; one of them always does.
    assert codes <= {"C007", "C012", "M005"}
    assert codes


def test_a_value_that_decides_the_program_is_asked_for():
    def loop(x):
        register = nisa.register_alloc()
        nisa.register_load(register, x)
        return x

    with pytest.raises(ValueError, match="values=True"):
        nkisim.simulate(loop, values=False)(np.ones((1, 1), np.int32))


@pytest.mark.parametrize("values", [True, False])
def test_rows_that_are_scattered_by_index_count_as_written(values):
    def scatter(x, rows):
        tile, index = nl.load(x), nl.load(rows)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        view = out.ap([[x.shape[1], x.shape[0]], [1, x.shape[1]]], vector_offset=index)
        nisa.dma_copy(dst=view, src=tile)
        return out

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    order = np.arange(8, dtype=np.uint32)[::-1].reshape(8, 1)
    report = nkisim.check(scatter, values=values)(x, np.ascontiguousarray(order))
    assert report.findings == []
    if values:
        np.testing.assert_array_equal(report.outputs, x[::-1])
