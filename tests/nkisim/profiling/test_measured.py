"""A prediction as a summary of AWS's profiler, and such a summary beside a prediction."""

import json

import pytest
from click.testing import CliRunner

from nkisim.cli import commands

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def product(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    sums = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums, stationary=nl.load(a), moving=nl.load(b))
    tile = nl.ndarray(out.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=sums)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""

#: Of the table Summary in the Profile Parquet Schema Reference, with their units.
KEYS = {
    "total_time": "seconds",
    "dma_active_time": "seconds",
    "dma_active_time_percent": "percent",
    "dma_transfer_count": "",
    "dma_transfer_total_bytes": "bytes",
    "dma_transfer_average_bytes": "bytes",
    "mm_arithmetic_intensity": "",
} | {
    f"{engine}_engine_{key}": unit
    for engine in ("tensor", "vector", "scalar", "gpsimd", "sync")
    for key, unit in (
        ("active_time", "seconds"),
        ("active_time_percent", "percent"),
        ("instruction_count", ""),
    )
}


@pytest.fixture
def profiled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NKISIM_TARGET", raising=False)
    (tmp_path / "kernel.py").write_text(KERNEL)

    def run(*options):
        given = ["profile", "kernel.py", "--shapes", "a=f32[128,64] b=f32[128,256]", *options]
        done = CliRunner().invoke(commands, given, standalone_mode=False)
        if done.exception is not None and hasattr(done.exception, "format_message"):
            return done.exception.exit_code, done.exception.format_message()
        assert done.exception is None, repr(done.exception)
        return done.return_value, done.stdout

    return run


def test_the_summary_has_the_names_and_units_of_aws(profiled):
    (found,) = json.loads(profiled("--format", "summary-json")[1]).values()
    own = json.loads(profiled("--format", "json")[1])["profiles"][0]
    assert found.keys() <= KEYS.keys()
    assert found.keys() >= {key for key in KEYS if "sync" not in key}
    assert found["total_time"] == pytest.approx(own["latency_us"] / 1e6)
    for key, value in found.items():
        if KEYS[key] == "percent":
            assert 0 <= value <= 1
            assert value == pytest.approx(found[key.removesuffix("_percent")] / found["total_time"])
    moved = 4 * (128 * 64 + 128 * 256 + 64 * 256)
    assert found["dma_transfer_total_bytes"] == moved
    assert found["dma_transfer_count"] == 3
    assert found["mm_arithmetic_intensity"] == pytest.approx(2 * 128 * 64 * 256 / moved)
    assert found["tensor_engine_instruction_count"] == 1


@pytest.mark.parametrize("nested", [True, False])
def test_a_measurement_beside_the_prediction(profiled, tmp_path, nested):
    (found,) = json.loads(profiled("--format", "summary-json")[1]).values()
    chip = dict(found, total_time=2 * found["total_time"], notes="", other_key=1)
    chip["vector_engine_active_time"] += 5e-6
    (tmp_path / "chip.json").write_text(json.dumps({"n0": chip} if nested else chip))
    status, text = profiled("--measured", "chip.json")
    assert status == 0
    assert "what differs most: vector_engine_active_time" in text
    assert "outside the predicted span" in text
    data = json.loads(profiled("--measured", "chip.json", "--format", "json")[1])
    assert data["rows"]["total_time"]["ratio"] == pytest.approx(0.5)
    assert "other_key" not in data["rows"]


def test_a_measurement_of_the_same_time_is_inside(profiled, tmp_path):
    (tmp_path / "chip.json").write_text(profiled("--format", "summary-json")[1])
    assert "is inside the predicted span" in profiled("--measured", "chip.json")[1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"total_time": 0}', '{"a": {}, "b": {}}'])
def test_what_is_no_summary(profiled, tmp_path, text):
    (tmp_path / "chip.json").write_text(text)
    status, message = profiled("--measured", "chip.json")
    assert status == 2
    assert "--measured: chip.json" in message
