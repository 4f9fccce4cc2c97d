"""A prediction as a summary of AWS's profiler, and such a summary beside a prediction."""

import json

import pytest
from click.testing import CliRunner

from nkisim.cli import commands
from nkisim.profiling.text import duration, size

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
    rows = [row.split() for row in text.splitlines()]
    seconds, moved = found["total_time"], found["dma_transfer_total_bytes"]
    both = [duration(2e6 * seconds), duration(1e6 * seconds)]
    assert ["total_time", *both[0].split(), *both[1].split(), "0.50"] in rows
    assert ["dma_transfer_total_bytes", *2 * size(moved).split(), "1.00"] in rows
    assert ["tensor_engine_instruction_count", "1", "1", "1.00"] in rows
    assert not any("percent" in row[0] for row in rows if row)
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


# -- tables of times -------------------------------------------------------------------------------


def test_times_of_a_table_beside_predictions(profiled, tmp_path):
    """What a chip with other descriptors would measure is explained by that assumption."""
    sizes = (64, 128, 256, 512)
    lines = ["a,b,us", *(f'"f32[128,{n // 4}]","f32[128,{n}]",1' for n in sizes)]
    (tmp_path / "times.csv").write_text("\n".join(lines))
    first = json.loads(profiled("--measured", "times.csv", "--nki", "0.6", "--format", "json")[1])
    for row, line in zip(first["rows"], range(1, 5), strict=True):
        lines[line] = lines[line].removesuffix("1") + f"{row['predicted_us']:.3f}"
    (tmp_path / "times.csv").write_text("\n".join(lines))
    status, text = profiled("--measured", "times.csv", "--nki", "0.6")
    assert status == 0
    assert "100% inside the range; median error 0.0%" in text
    assert "no assumption alone reduces the median error" in text
    found = json.loads(profiled("--measured", "times.csv", "--nki", "0.5", "--format", "json")[1])
    assert [row["line"] for row in found["rows"]] == [2, 3, 4, 5]
    best = found["explains"][0]
    assert (best["assumption"], best["value"]) == ("software_descriptors", "by rows")
    assert best["median_error"] < 0.001 < found["median_error"]
    assert found["bias"] > 0


FAULTS = {
    '"f32[128,64]","f32[128,128]",0.02': "line 2: 0.02 us is less than half of what its engines",
    '"f32[128,64]","f32[128,256]",-12.5': "line 3: us is '-12.5'; accepted: a positive number",
    '"f32[128,64]","f32[128,512]",12.5 ms': "line 4: us is '12.5 ms'; accepted: a positive number",
    '"f32[128;64]","f32[128,512]",12.5': "line 5: shapes: a has extents [128;64]; accepted",
    '"f32[128,64]",12.5': "line 6: 2 cells, the first line has 3",
    '"f32[128,64]","f32[64,512]",12.5': "line 7: ",
}


def test_faults_of_a_table_are_refused_by_their_line(profiled, tmp_path):
    (tmp_path / "times.csv").write_text("\n".join(["a,b,us", *FAULTS]))
    status, message = profiled("--measured", "times.csv")
    assert status == 2
    lines = message.splitlines()[1:]
    assert len(lines) == len(FAULTS)
    for line, start in zip(lines, FAULTS.values(), strict=True):
        assert line.strip().startswith(start)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b,ms\n1,2,3", "line 1: got a, b, ms; columns are arguments and us, each once"),
        ("", "line 1: got nothing"),
        ("a,us", "line 2: no times"),
        ('a,b,c,us\n"f32[128,64]","f32[128,64]",1,20', "line 2: "),
        ('a,b,us\n"f32[128,64]","f32[128,64]",1e9', "line 2: 1e+09 us is more than 1000 times"),
        ('a,b,us\n"f32[8,8]","f32[8,8]",20\n"f32[8,8]","f32[8,8]",21', "line 3: the arguments of"),
    ],
)
def test_other_tables_that_are_refused(profiled, tmp_path, text, expected):
    (tmp_path / "times.csv").write_text(text)
    status, message = profiled("--measured", "times.csv")
    assert status == 2
    assert expected in message
