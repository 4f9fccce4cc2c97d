"""Which findings leave a kernel without a device time: those for which nothing runs it."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

import kernels
import nkisim
from each_case import each_case
from nkisim.diagnostics import RULES

for _module in pkgutil.iter_modules(kernels.__path__):
    importlib.import_module(f"kernels.{_module.name}")

RUN = [twin for twin in kernels.TWINS if not (twin.on_host or twin.in_source or twin.advised)]

# Errors that nobody reports on the device: uninitialised reads, lost or doubled sums, races,
# integers beyond float32, inputs outside a function's interval.
SILENT = {
    *("C003", "C007", "C008", "C010", "C012"),
    *("D010", "D016", "D017", "D018", "D021", "D030", "D040", "D047", "D049", "D054"),
    *("M001", "M002", "M003", "M004", "M005", "M006", "M013", "M030", "M031", "M032", "M040"),
    "M037",
    *("M042", "M043", "R001", "R002", "R006", "R007", "R009", "S050", "S067", "S068", "W001"),
}


def test_silent_rules_are_errors_that_do_not_end_a_run():
    assert {id for id, rule in RULES.items() if rule.silent is True} == SILENT
    assert not any(RULES[id].meaningless for id in SILENT)


@each_case("twin", RUN, ids=lambda twin: twin.name, group=lambda twin: Path(twin.file).stem)
def test_a_kernel_has_a_time_unless_something_refuses_it(twin):
    options = {**twin.options, "values": True, "ranks": twin.ranks, "max_instructions": 10_000}
    profiled = nkisim.profile(twin.launched(twin.bad), twin.targets[0], advice=False, **options)
    rule = RULES[twin.rule]
    if rule.severity == "error" and not (rule.silent is True or rule.detector):
        with pytest.raises(nkisim.ProfileError):
            profiled(*twin.arguments(twin.inputs))
        return
    found = profiled(*twin.arguments(twin.inputs))
    assert found.latency_us > 0
    assert rule.detector or twin.rule in {finding.rule.id for finding in found.findings}
