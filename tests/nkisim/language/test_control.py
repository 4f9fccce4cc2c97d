"""Loops, slices, positions in the grid, sizes of the target, and names that are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same
from drawn import examples
from each_case import each_case
from oracles.elementwise import float32
from tiles import stored

RANGES = ["affine_range", "static_range", "sequential_range", "dynamic_range"]
ONE = np.ones((1, 1), np.float32)
SIGNATURES = Path(__file__).parents[2] / "data" / "nki-0.3.0-signatures.json"
FUNCTIONS = sorted(json.loads(SIGNATURES.read_text())["nki.language"]["functions"])
# these say what Python says


def inside(function: Any, target: str | None = None, grid: int | None = None) -> Any:
    """What ``function()`` returns in a running kernel."""
    seen: list[Any] = []

    @nkisim.jit
    def kernel(source):
        seen.append(function())
        return stored(nl.load(source))

    report = nkisim.check(kernel if grid is None else kernel[grid], target=target)(ONE)
    assert seen, [str(f) for f in report.findings]
    return seen[0]


# -- loops -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RANGES)
@examples(30)
@given(start=st.integers(-20, 20), stop=st.integers(-20, 20), step=st.integers(1, 7))
def test_range_counts_like_python(name, start, stop, step):
    loop = getattr(nl, name)
    assert list(inside(lambda: loop(start, stop, step))) == list(range(start, stop, step))
    assert list(inside(lambda: loop(start, stop))) == list(range(start, stop))
    assert list(inside(lambda: loop(stop))) == list(range(stop))
    assert list(inside(lambda: loop(start, stop=stop, step=step))) == list(range(start, stop, step))


@pytest.mark.parametrize("name", RANGES)
def test_loop_over_tiles(name):
    x = float32(np.random.default_rng(0).standard_normal((32, 40)))

    def kernel(source):
        out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
        for i in getattr(nl, name)(5):
            nl.store(out[:, i * 8 : (i + 1) * 8], nl.square(nl.load(source[:, nl.ds(i * 8, 8)])))
        return out

    assert_same(nkisim.check(kernel)(x).outputs, x * x)


@pytest.mark.parametrize("name", RANGES)
def test_loop_carries_values_from_one_iteration_to_the_next(name):
    def kernel(source):
        tile = nl.load(source)
        for _ in getattr(nl, name)(6):
            tile = nl.add(tile, tile)
        return stored(tile)

    assert nkisim.check(kernel)(ONE).outputs.item() == 64


@each_case("name", RANGES)
@each_case("arguments", [(4.0,), (0, 7 / 2), (0.0, 8, 2)])
def test_fractional_bound_is_a_finding(name, arguments):
    counted = []

    def kernel(source):
        counted.extend(getattr(nl, name)(*arguments))
        return stored(nl.load(source))

    report = nkisim.check(kernel)(ONE)
    assert "L019" in report.codes
    assert counted == list(range(*[int(a) for a in arguments]))


@each_case("name", RANGES)
@each_case("keyword", ["precise_schedule", "multi_buffer"])
def test_scheduling_hints_are_gone(name, keyword):
    def kernel(source):
        getattr(nl, name)(4, **{keyword: True})

    with pytest.raises(nkisim.NkiValidationError) as stop:
        nkisim.simulate(kernel)(ONE)
    assert stop.value.rule_id == "A038"


# -- slices ----------------------------------------------------------------------------------------


@examples(30)
@given(start=st.integers(0, 9), size=st.integers(1, 10))
def test_ds_is_a_slice_by_start_and_size(start, size):
    size = min(size, 10 - start)
    x = np.arange(70, dtype=np.int32).reshape(7, 10)

    def kernel(source):
        hbm = nl.load(source[:, nl.ds(start, size)])
        chip = nl.load(source)[:, nl.ds(start=start, size=size)]
        return stored(hbm), stored(chip)

    want = x[:, start : start + size].copy()
    for got in nkisim.check(kernel)(x).outputs:
        assert_same(got, want)


def test_ds_does_not_reach_past_the_end():
    def kernel(source):
        return nl.load(source[:, nl.ds(8, 3)])

    with pytest.raises(nkisim.NkiValidationError) as stop:
        nkisim.simulate(kernel)(np.ones((2, 10), np.float32))
    assert stop.value.rule_id == "S009"


# -- scheduling ------------------------------------------------------------------------------------


def test_no_reorder_is_a_region():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def kernel(source):
        with nl.no_reorder():
            tile = nl.load(source)
            for _ in nl.static_range(3):
                tile = nl.add(tile, 1.0)
        return stored(nl.multiply(tile, 2.0))

    report = nkisim.check(kernel)(x)
    assert report.ok
    assert_same(report.outputs, 2 * (x + 3))


def test_an_error_leaves_the_region():
    def kernel(source):
        with nl.no_reorder():
            raise KeyError("own error of the kernel")

    with pytest.raises(KeyError):
        nkisim.simulate(kernel)(ONE)


# -- the grid --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grid", "ndim"), [(None, 0), (1, 1)])
def test_one_core_is_program_zero_of_one(grid, ndim):
    assert inside(nl.program_ndim, grid=grid) == ndim
    assert inside(nl.program_id, grid=grid) == 0
    assert inside(lambda: nl.program_id(axis=0), grid=grid) == 0
    assert inside(nl.num_programs, grid=grid) == 1
    assert inside(lambda: nl.num_programs(axes=0), grid=grid) == 1


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "usable"),
    # SBUF bytes per partition that kernels may use
    [("gen2", 180224), ("gen3", 212984), ("gen4", 245752), ("trn2", 212984)],
)
def test_tile_size_is_that_of_the_target(target, usable):
    def sizes():
        size = nl.tile_size
        return {
            "pmax": size.pmax,
            "psum_fmax": size.psum_fmax,
            "gemm_stationary_fmax": size.gemm_stationary_fmax,
            "gemm_moving_fmax": size.gemm_moving_fmax,
            "bn_stats_fmax": size.bn_stats_fmax,
            "total_available_sbuf_size": size.total_available_sbuf_size,
        }

    assert inside(sizes, target=target) == {
        "pmax": 128,
        "psum_fmax": 512,
        "gemm_stationary_fmax": 128,
        "gemm_moving_fmax": 512,
        "bn_stats_fmax": 512,
        "total_available_sbuf_size": usable,
    }


ADDED = {
    "sbuf_size_bytes": ("0.4", "0.5", "0.6"),
    "sbuf_fmax": ("0.4", "0.5", "0.6"),
    "sbuf_fmax_bytes": ("0.4", "0.5", "0.6"),
    "psum_bank_fmax": ("0.4", "0.5", "0.6"),
    "psum_bank_fmax_bytes": ("0.4", "0.5", "0.6"),
    "psum_num_banks": ("0.4", "0.5", "0.6"),
    "psum_fmax_bytes": ("0.4",),
}


@pytest.mark.parametrize("version", ["0.3", "0.4", "0.5", "0.6"])
def test_tile_sizes_of_later_versions(version, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", version)
    there = {name for name in ADDED if hasattr(nl.tile_size, name)}
    assert there == {name for name, versions in ADDED.items() if version in versions}


@pytest.mark.parametrize(
    ("target", "total", "usable"),
    # MiB of SBUF, and bytes per partition that kernels may use
    [("gen2", 24, 180224), ("gen3", 28, 212984), ("gen4", 32, 245752)],
)
def test_sizes_in_bytes_are_those_of_the_target(target, total, usable, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.6")
    size = nl.tile_size
    assert inside(lambda: size.sbuf_size_bytes, target=target) == total * 2**20
    assert inside(lambda: (size.sbuf_fmax_bytes, size.sbuf_fmax), target) == (usable, usable // 4)
    assert inside(lambda: (size.psum_bank_fmax_bytes, size.psum_bank_fmax), target) == (2048, 512)
    assert inside(lambda: size.psum_num_banks, target=target) == 8
    monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "true")
    assert inside(lambda: size.psum_num_banks, target=target) == (8 if target == "gen2" else 7)


def test_tiles_may_start_wherever_an_element_may():
    # a float32 in PSUM, a byte in SBUF
    assert inside(lambda: nl.tile_size.psum_min_align) == 4
    assert inside(lambda: nl.tile_size.sbuf_min_align) == 1


def test_tile_size_outside_a_kernel_follows_the_environment(monkeypatch):
    for name, usable in (("trn1", 180224), ("gen3", 212984), ("trn3", 245752)):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", name)
        assert nl.tile_size.total_available_sbuf_size == usable
        assert nl.tile_size.pmax == 128


def test_generations_are_ordered():
    versions = [inside(nisa.get_nc_version, target=name) for name in ("gen2", "gen3", "gen4")]
    assert versions == sorted(versions)
    assert versions[0] < versions[1] < versions[2]
    assert versions == [nisa.nc_version.gen2, nisa.nc_version.gen3, nisa.nc_version.gen4]
    assert versions[2] >= nisa.nc_version.gen4 > nisa.nc_version.gen3


# -- names -----------------------------------------------------------------------------------------


@each_case(
    ("name", "rule"),
    [
        ("arange", "A029"),
        ("mgrid", "A029"),
        ("par_dim", "A029"),
        ("atomic_rmw", "A030"),
        ("loop_reduce", "A030"),
        ("spmd_dim", "A030"),
        ("nc", "A030"),
    ],
)
def test_removed_name_raises_and_is_not_there(name, rule):
    assert not hasattr(nl, name)
    with pytest.raises(AttributeError, match=name):
        getattr(nl, name)

    def kernel(source):
        return getattr(nl, name)

    with pytest.raises(nkisim.NkiValidationError) as stop:
        nkisim.simulate(kernel)(ONE)
    assert stop.value.rule_id == rule
    assert nkisim.check(kernel)(ONE).codes == {rule}


@each_case("name", FUNCTIONS)
def test_keyword_that_no_release_had_is_explained(name):
    def kernel(source):
        getattr(nl, name)(no_such_keyword=1)

    with pytest.raises(nkisim.NkiValidationError, match="no_such_keyword") as stop:
        nkisim.simulate(kernel)(ONE)
    assert stop.value.rule_id == "A025"


def test_name_that_never_was_is_an_attribute_error():
    assert not hasattr(nl, "no_such_function")
    with pytest.raises(AttributeError, match="no_such_function"):
        _ = nl.no_such_function


@pytest.mark.parametrize(
    "use",
    [
        lambda: nl.ndarray((2, 2), nl.float32),
        lambda: nl.zeros((2, 2), nl.float32),
        lambda: nl.shared_constant(np.ones((2, 2), np.float32)),
        lambda: nl.program_id(),
        lambda: nl.num_programs(),
    ],
)
def test_outside_a_kernel_there_is_no_core(use):
    with pytest.raises(nkisim.NkiValidationError) as stop:
        use()
    assert stop.value.rule_id == "L063"
