"""The summary of AWS's profiler: a prediction in its form, and a measurement beside a prediction.

Names, units and definitions are those of the table Summary of Neuron Explorer's "Profile Parquet
Schema Reference", https://awsdocs-neuron.readthedocs-hosted.com/en/latest/tools/neuron-explorer/
profile-schema-reference.html. Times are in seconds. What is called a percentage is a share of
``total_time`` between 0 and 1, as ``view --output-format summary-json`` prints it. Keys that a
prediction knows nothing of are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from nkisim.profiling.result import ProfileData
from nkisim.profiling.text import duration, size

_ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


def summary_of(profile: ProfileData) -> dict[str, float]:
    """Return a profile as the summary of AWS's profiler has it."""
    total = profile.latency_us / 1e6
    found = {"total_time": total}
    for engine in _ENGINES:
        busy = profile.engine_busy_us.get(engine, 0.0) / 1e6
        found[f"{engine}_engine_active_time"] = busy
        found[f"{engine}_engine_active_time_percent"] = busy / total
        count = sum(span.engine == engine for span in profile.timeline)
        found[f"{engine}_engine_instruction_count"] = count
    busy = profile.engine_busy_us.get("dma", 0.0) / 1e6
    found["dma_active_time"] = busy
    found["dma_active_time_percent"] = busy / total
    found["dma_transfer_count"] = profile.transfers
    if profile.transfers:
        moved = sum(span.nbytes for span in profile.timeline)
        found["dma_transfer_total_bytes"] = moved
        found["dma_transfer_average_bytes"] = moved / profile.transfers
    if profile.hbm_bytes:
        found["mm_arithmetic_intensity"] = profile.flops / profile.hbm_bytes
    return found


def read_summary(text: str) -> dict[str, float]:
    """Return the numbers of a summary that AWS's profiler wrote.

    The file has one summary, or one by the name of its profile.

    Raises:
        ValueError: It is no such summary.
    """
    data = json.loads(text)
    if isinstance(data, Mapping) and "total_time" not in data and len(data) == 1:
        data = next(iter(data.values()))
    if not isinstance(data, Mapping):
        raise ValueError("it has no summary")
    found = {
        str(key): float(value)
        for key, value in data.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    if not (math.isfinite(found.get("total_time", math.nan)) and found["total_time"] > 0):
        raise ValueError("it has no total_time, or several profiles")
    return found


def beside(profile: ProfileData, measured: Mapping[str, float]) -> dict[str, Any]:
    """Return a measurement beside a prediction: a row per key of both, the worst engine first.

    ``differs_most`` names the time, of an engine or of the DMA engines, whose measured and
    predicted values are farthest apart.
    """
    predicted = summary_of(profile)
    both = [key for key in predicted if key in measured]
    rows = {key: _row(measured[key], predicted[key]) for key in both}
    times = [key for key in both if key.endswith("_active_time")]
    apart = {key: abs(measured[key] - predicted[key]) for key in times}
    low, high = (us / 1e6 for us in profile.interval_us)
    return {
        "kernel": profile.kernel,
        "target": profile.target,
        "rows": rows,
        "differs_most": max(apart, key=apart.__getitem__, default=None),
        "inside": low <= measured["total_time"] <= high,
    }


def _row(measured: float, predicted: float) -> dict[str, float | None]:
    ratio = predicted / measured if measured else None
    return {"measured": measured, "predicted": predicted, "ratio": ratio}


def beside_text(found: Mapping[str, Any]) -> str:
    """Return a measurement beside a prediction as a table."""
    lines = [
        f"{found['kernel']} on {found['target']}",
        f"{'':<36}{'measured':>12}{'predicted':>12}",
    ]
    for key, row in found["rows"].items():
        if key.endswith("_percent"):
            continue
        both = [_shown(key, row["measured"]), _shown(key, row["predicted"])]
        ratio = "" if row["ratio"] is None else f"{row['ratio']:>8.2f}"
        lines.append(f"{key:<36}{both[0]:>12}{both[1]:>12}{ratio}")
    where = "inside" if found["inside"] else "outside"
    lines.append(f"the measured time is {where} the predicted span")
    if found["differs_most"] is not None:
        lines.append(f"what differs most: {found['differs_most']}")
    return "\n".join(lines) + "\n"


def _shown(key: str, value: float) -> str:
    if key.endswith("_time"):
        return duration(value * 1e6)
    return size(value) if key.endswith("_bytes") else f"{value:,.4g}"
