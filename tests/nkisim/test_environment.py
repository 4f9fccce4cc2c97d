"""The environment variables that NKI documents: the target, and how exact low precision is."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

THIRD = np.float32(1 / 3)


def thirds(x):
    """Keep a third in a narrow tile, and return it narrow and wide."""
    narrow = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=narrow, data=nl.load(x), op0=nl.multiply, operand0=1 / 3)
    as_bf16 = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    as_f32 = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=as_bf16, src=narrow)
    nisa.dma_copy(dst=as_f32, src=narrow)
    return as_bf16, as_f32


@pytest.mark.parametrize("value", [None, "1"])
def test_bfloat16_is_bfloat16_unless_told_otherwise(monkeypatch, value):
    monkeypatch.delenv("NKI_PRECISE_FP", raising=False)
    if value is not None:
        monkeypatch.setenv("NKI_PRECISE_FP", value)
    narrow, wide = nkisim.simulate(thirds)(np.ones((2, 4), np.float32))
    assert narrow.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(wide, np.full((2, 4), THIRD).astype(ml_dtypes.bfloat16))


def test_imprecise_mode_keeps_float32_in_narrow_tiles(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    narrow, wide = nkisim.simulate(thirds)(np.ones((2, 4), np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_array_equal(narrow, np.full((2, 4), THIRD))
    np.testing.assert_array_equal(wide, narrow)


def test_imprecise_mode_takes_and_multiplies_narrow_inputs(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    def product(a, b):
        total = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=nl.load(a), moving=nl.load(b))
        tile = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=total)
        out = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    a = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    b = np.arange(18).reshape(3, 6).astype(ml_dtypes.float8_e4m3)
    # Small integers: every product and sum is exact.
    wanted = a.astype(np.float32).T @ b.astype(np.float32)
    np.testing.assert_array_equal(nkisim.simulate(product)(a, b), wanted)


def test_imprecise_mode_says_why_it_cannot_reinterpret(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    def reinterpret(x):
        nl.load(x).view(nl.uint16)
        return x

    with pytest.raises(ValueError, match="NKI_PRECISE_FP=1"):
        nkisim.simulate(reinterpret)(np.ones((2, 4), ml_dtypes.bfloat16))


def test_an_option_goes_before_the_variable(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    narrow, _ = nkisim.simulate(thirds, precise_fp=True)(np.ones((2, 4), np.float32))
    assert narrow.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("trn1", "gen2"),
        ("inf2", "gen2"),
        ("gen2", "gen2"),
        ("trn2", "gen3"),
        ("gen3", "gen3"),
        ("trn3", "gen4"),
        ("gen4", "gen4"),
        ("TRN2", "gen3"),
        ("", "gen3"),
    ],
)
def test_the_target_is_read_at_each_call(monkeypatch, name, generation):
    seen = []

    def kernel(x):
        seen.append(nisa.get_nc_version().name)
        return x

    simulation = nkisim.simulate(kernel)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", name)
    simulation(np.ones((1, 1), np.float32))
    assert seen == [generation]
    assert simulation.report.target == generation


def test_an_unknown_target_names_what_is_accepted(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    with pytest.raises(ValueError, match=r"NEURON_PLATFORM_TARGET_OVERRIDE.*trn9.*trn1.*gen4"):
        nkisim.simulate(thirds)(np.ones((4, 4), np.float32))
    with pytest.raises(ValueError, match=r"target.*gen7"):
        nkisim.simulate(thirds, target="gen7")


@pytest.mark.parametrize("options", [{"strictness": "lax"}, {"ranks": 0}])
def test_an_unknown_option_value_names_what_is_accepted(options):
    with pytest.raises(ValueError, match="accepted"):
        nkisim.simulate(thirds, **options)
