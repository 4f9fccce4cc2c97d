"""The numbers of the cores are those of the architecture guides, by their own arithmetic."""

import pytest

import nkisim
from trnsci.core.errors import FlagError
from trnsci.core.tiles.hardware import (
    BANK,
    CORES,
    ITEMSIZE,
    SMALLEST_SBUF,
    TILE,
    generation_stated,
    resolve_generation,
)

KIB = 1024
VARIABLES = ("NKISIM_TARGET", "NEURON_PLATFORM_TARGET_OVERRIDE")


@pytest.fixture(autouse=True)
def no_target(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_memory_that_a_kernel_may_use():
    """192, 224 and 256 KiB per partition, of which 16 KiB, and from gen3 on 8 bytes, are taken."""
    usable = {name: core.sbuf_bytes for name, core in CORES.items()}
    assert usable == {
        "gen2": (192 - 16) * KIB,
        "gen3": (224 - 16) * KIB - 8,
        "gen4": (256 - 16) * KIB - 8,
    }
    assert {core.psum_banks for core in CORES.values()} == {8}
    assert TILE * ITEMSIZE["float32"] == BANK == 512


def test_clocks_and_fixed_cycles():
    clocks = {name: (core.tensor_ghz, core.vector_ghz) for name, core in CORES.items()}
    assert clocks == {"gen2": (2.8, 1.12), "gen3": (2.4, 0.96), "gen4": (2.4, 1.2)}
    fixed = {name: (core.product_cycles, core.vector_cycles) for name, core in CORES.items()}
    assert fixed == {"gen2": (64, 0), "gen3": (8, 100), "gen4": (8, 100)}


def test_transfers():
    moved = {name: core.dma_bytes_per_ns for name, core in CORES.items()}
    assert moved == {"gen2": 272.0, "gen3": 368.0, "gen4": 528.0}
    assert {core.dma_ns for core in CORES.values()} == {860.0}


def test_transposes():
    """On gen2 sixteen of 64 Vector cycles; later 148 Tensor cycles, and half of it on gen4."""
    assert not CORES["gen2"].transposes_on_tensor
    of_gen2 = CORES["gen2"].transpose_ns
    assert of_gen2 == dict.fromkeys(ITEMSIZE, pytest.approx(914.3, abs=0.05))
    narrow = round((128 + 20) / 2.4)
    assert CORES["gen3"].transpose_ns == {"float32": 168.0, "bfloat16": narrow, "float16": narrow}
    halved = {name: ns / 2 for name, ns in CORES["gen3"].transpose_ns.items()}
    assert CORES["gen4"].transpose_ns == halved
    assert CORES["gen3"].transposes_on_tensor
    assert CORES["gen4"].transposes_on_tensor


@pytest.mark.parametrize(
    ("name", "generation"),
    [("trn1", "gen2"), ("inf2", "gen2"), ("TRN2", "gen3"), ("trn3", "gen4"), ("Gen3", "gen3")],
)
def test_names_of_generations(name, generation, monkeypatch):
    assert resolve_generation(name) == generation
    assert resolve_generation() == "gen3"
    for variable in reversed(VARIABLES):
        monkeypatch.setenv(variable, name)
        assert resolve_generation() == generation


def test_plans_simulations_and_profiles_have_one_target(monkeypatch):
    """Without a target, with one variable, with the other, and with both."""
    for values in (("", ""), ("", "trn1"), ("trn3", ""), ("trn1", "trn3")):
        for variable, value in zip(VARIABLES, values, strict=True):
            monkeypatch.setenv(variable, value)
        planned = resolve_generation()
        assert planned == nkisim.SimOptions().generation().name
        assert planned == nkisim.profile(_nothing)().target
        assert planned == ("gen3" if values == ("", "") else planned)


def _nothing():
    return None


def test_a_generation_is_stated_by_the_argument_or_the_environment(monkeypatch):
    assert not generation_stated()
    assert generation_stated("trn2")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    assert generation_stated()
    assert CORES["gen2"].sbuf_bytes == SMALLEST_SBUF


def test_unknown_generations_are_refused(monkeypatch):
    with pytest.raises(FlagError, match=r"^generation: got 'gen9', accepted: gen2, .*trn3$"):
        resolve_generation("gen9")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    with pytest.raises(FlagError, match=r"^NEURON_PLATFORM_TARGET_OVERRIDE: got 'trn9'"):
        resolve_generation()
