"""``float8_e8m0fnu``, powers of two: conversions from their definition, and MX scales."""

from bisect import bisect_left
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim import NkiValidationError
from nkisim.dtypes import decode, encode, float8_e8m0fnu
from nkisim.dtypes.convert import holds

NAN = 0xFF
EVERY = np.arange(256, dtype=np.uint8)
POWERS = [Fraction(2) ** (byte - 127) for byte in range(NAN)]


def nearest(value: np.float32) -> int:
    """The byte of a number: the nearest power of two, the larger of two, or NaN."""
    if not np.isfinite(value) or value <= 0:
        return NAN
    exact = Fraction(float(value))
    if exact >= Fraction(3, 2) * POWERS[-1]:
        return NAN
    above = bisect_left(POWERS, exact)
    near = [byte for byte in (above - 1, above) if 0 <= byte < NAN]
    return max(near, key=lambda byte: (-abs(POWERS[byte] - exact), byte))


def test_every_byte_is_a_power_of_two():
    values = decode(EVERY.view(ml_dtypes.float8_e8m0fnu), float8_e8m0fnu)
    assert [Fraction(float(value)) for value in values[:NAN]] == POWERS
    assert np.isnan(values[NAN])
    np.testing.assert_array_equal(encode(values, float8_e8m0fnu).view(np.uint8), EVERY)


SPECIAL = [0, 1 << 31, 1, 0x0040_0000, 0x003F_FFFF, 0x0060_0000, 0x005F_FFFF, 0x3FC0_0000]
SPECIAL += [0x3FBF_FFFF, 0x7F3F_FFFF, 0x7F40_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000]


@pytest.mark.parametrize("fast", ["0", "1"])
@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20))
def test_numbers_become_the_nearest_power_of_two(bits, fast):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKISIM_FAST", fast)
        values = np.array([*SPECIAL, *bits], np.uint32).view(np.float32)
        got = encode(values, float8_e8m0fnu).view(np.uint8)
        assert got.tolist() == [nearest(value) for value in values]


def test_only_positive_numbers_fit():
    assert [holds(float8_e8m0fnu, value) for value in (1.0, 2.0**-127, 2.0**127)] == [True] * 3
    assert [holds(float8_e8m0fnu, value) for value in (0, -1.0, 1.75 * 2.0**127)] == [False] * 3


@nkisim.jit
def copied(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    same = nl.ndarray(source.shape, dtype=nl.float8_e8m0fnu, buffer=nl.sbuf)
    nisa.tensor_copy(dst=same, src=tile)
    wide = nl.ndarray(source.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=same)
    kept = nl.ndarray(source.shape, dtype=nl.float8_e8m0fnu, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=kept, src=same)
    values = nl.ndarray(source.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=values, src=wide)
    return kept, values


@pytest.mark.parametrize("precise", [True, False])
@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_host_arrays_keep_their_bits(version, precise):
    stored = EVERY.reshape(16, 16).view(ml_dtypes.float8_e8m0fnu)
    kept, values = nkisim.simulate(copied, nki=version, precise_fp=precise)(stored)
    assert kept.dtype == ml_dtypes.float8_e8m0fnu
    np.testing.assert_array_equal(kept.view(np.uint8), stored.view(np.uint8))
    np.testing.assert_array_equal(values, stored.astype(np.float32))


def test_tensors_of_torch_keep_their_bits():
    torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
    stored = torch.arange(256, dtype=torch.uint8).reshape(16, 16).view(torch.float8_e8m0fnu)
    kept, _ = nkisim.simulate(copied, nki="0.6")(stored)
    assert kept.dtype == torch.float8_e8m0fnu
    assert torch.equal(kept.view(torch.uint8), stored.view(torch.uint8))


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0"])
def test_earlier_versions_have_no_such_type(version):
    def returned(x):
        return x

    def named(x):
        nl.ndarray((4, 4), dtype="float8_e8m0fnu", buffer=nl.sbuf)
        return x

    def asked(x):
        return nl.float8_e8m0fnu

    cases = [(returned, np.ones((4, 4), ml_dtypes.float8_e8m0fnu), "D001")]
    cases += [(named, np.ones((4, 4), np.float32), "D001")]
    cases += [(asked, np.ones((4, 4), np.float32), "A025")]
    for kernel, array, rule in cases:
        with pytest.raises(NkiValidationError, match=f"NKI {version}") as caught:
            nkisim.simulate(kernel, nki=version)(array)
        assert caught.value.finding.rule.id == rule


def test_the_type_of_dtypes_is_text(monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.6")
    assert isinstance(nl.float32, nl.DType)
    monkeypatch.setenv("NKISIM_NKI", "0.5")
    assert not hasattr(nl, "DType")


# MX scales


@nkisim.jit
def multiplied(a, b, dtype):
    packs, scales = [], []
    for source in (a, b):
        tile = nl.ndarray(source.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source)
        words = (source.shape[0], source.shape[1] // 4)
        pack = nl.ndarray(words, dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scale = nl.ndarray(words, dtype=dtype, buffer=nl.sbuf)
        nisa.quantize_mx(dst=pack, src=tile, dst_scale=scale)
        packs.append(pack)
        scales.append(scale)
    total = nl.ndarray((packs[0].shape[1], packs[1].shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(
        dst=total,
        stationary=packs[0],
        moving=packs[1],
        stationary_scale=scales[0],
        moving_scale=scales[1],
    )
    copy = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=total)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copy)
    first = nl.ndarray((4, scales[0].shape[1]), dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=first, src=scales[0][0:4])
    return out, first


@pytest.mark.parametrize("precise", [True, False])
@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_scales_of_both_types_have_the_same_bits(version, precise):
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((32, 16)) * 2.0 ** rng.integers(-9, 9, (32, 1))).astype("bfloat16")
    b = rng.standard_normal((32, 24)).astype("bfloat16")
    run = nkisim.simulate(multiplied, nki=version, target="gen4", precise_fp=precise)
    bytes_, first = run(a, b, "uint8")
    powers, scales = run(a, b, "float8_e8m0fnu")
    assert scales.dtype == ml_dtypes.float8_e8m0fnu
    np.testing.assert_array_equal(scales.view(np.uint8), first)
    np.testing.assert_array_equal(powers, bytes_)
    assert len(set(first.reshape(-1).tolist())) > 2


def test_scales_of_other_types_are_refused():
    ones = np.ones((32, 16), "bfloat16")
    for version, dtype in (("0.6", "int8"), ("0.6", "float8_e5m2"), ("0.3", "int8")):
        with pytest.raises(NkiValidationError, match="dst_scale must be") as caught:
            nkisim.simulate(multiplied, nki=version, target="gen4")(ones, ones, dtype)
        assert caught.value.finding.rule.id == "D037"
        assert ("float8_e8m0fnu" in caught.value.finding.allowed) == (version == "0.6")
