"""Every rule finds its bad twin at the marked line, names the fix, and passes the good twin."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from each_case import each_case
from kernels import (
    GUARDS,
    TWINS,
    advice,
    api,
    boundary,
    chains,
    copies,
    cores,
    dtype,
    earlier,
    gather,
    guards,
    language,
    later,
    matmul,
    memory,
    mx,
    placement,
    races,
    random,
    ranks,
    registers,
    shape,
    tails,
    transpose,
    values,
    views,
    whole,
    work,
)
from kernels.told import checked, recorded, report_of_bad, told
from nkisim import NkiFindingWarning, NkiValidationError, check, check_source, profile, simulate
from nkisim.diagnostics import CHECKED, RULES
from nkisim.diagnostics.findings import DATA

MODULES = (
    advice,
    api,
    boundary,
    chains,
    cores,
    dtype,
    earlier,
    gather,
    guards,
    language,
    later,
    matmul,
    memory,
    mx,
    placement,
    races,
    ranks,
    random,
    registers,
    shape,
    tails,
    transpose,
    values,
    views,
    whole,
    work,
)
NOT_WATCHED_IN_SIMULATE = {
    "D031",
    "D042",
    "D050",
}  # looking at every value of every result costs too much there

IN_RUNS = [twin for twin in TWINS if not (twin.on_host or twin.in_source or twin.advised)]
IN_SOURCE = [twin for twin in TWINS if twin.in_source]
IN_KERNELS = [*IN_RUNS, *IN_SOURCE]
ADVISED = [twin for twin in TWINS if twin.advised]
ON_HOST = [twin for twin in TWINS if twin.on_host]


def needs_values(twin):
    """Whether a kernel loads a value into a register, which a run without values refuses."""
    named = {*twin.bad.__code__.co_names, *twin.good.__code__.co_names}
    return bool(named & {"register_load", "scalar_load"})


def named(pairs):
    """One pytest parameter per case and generation."""
    return [pytest.param(case, target, id=f"{case.name}-{target}") for case, target in pairs]


def on_targets(cases):
    """Every case on each of its generations."""
    return named((case, target) for case in cases for target in case.targets)


def subject(twin, target=None):
    """The file of a twin in tests/kernels: one test runs all of it."""
    return Path(twin.file).stem


def differing(twin):
    """Of the generations that are told the same, one by turns."""
    alike = {}
    for target in twin.targets:
        alike.setdefault(recorded(twin, target), []).append(target)
    return [targets[int(twin.rule[1:]) % len(targets)] for targets in alike.values()]


FAST = [(twin, target) for twin in IN_KERNELS for target in differing(twin)]
SLOW = [(t, target) for t in IN_KERNELS for target in t.targets if target not in differing(t)]
each_twin = each_case("twin, target", named(FAST), group=subject)
each_other_twin = each_case("twin, target", named(SLOW), group=subject)
each_run_twin = each_case("twin", IN_RUNS, ids=lambda twin: twin.name, group=subject)
each_source_twin = each_case("twin", IN_SOURCE, ids=lambda twin: twin.name)
each_host_twin = each_case("twin", ON_HOST, ids=lambda twin: twin.name)


def simulated(twin, target, **options):
    """The simulation of the bad twin, followed by the detector that its rule needs."""
    detector = RULES[twin.rule].detector
    options |= {**twin.options, "detect": (detector,) if detector else None}
    return simulate(twin.launched(twin.bad), target=target, ranks=twin.ranks, **options)


def report_of_good(twin, target):
    return checked(twin, twin.good, target, source=True)(*twin.arguments(twin.fixed))


def finding_of(twin, findings):
    """The finding of the twin's rule at a marked line."""
    found = [f for f in findings if f.rule.id == twin.rule]
    assert found, f"{twin.rule} was not found, only {sorted({f.rule.id for f in findings})}"
    files = {twin.file, str(twin.module)}  # its parts are in the file that has both forms
    placed = [f for f in found if f.file in files and f.line in twin.marked_lines]
    places = [f"{f.file}:{f.line}" for f in found]
    assert placed, f"{twin.rule} was found at {places}, expected lines {sorted(twin.marked_lines)}"
    return placed[0]


@pytest.fixture
def soon_endless(monkeypatch):
    """A loop on a register counts as endless after a few tests."""
    monkeypatch.setattr(import_module("nkisim.isa.registers.virtual"), "WHILE_LIMIT", 1000)


@each_twin
def test_the_bad_twin_is_found_at_its_line_and_the_good_one_has_no_finding(twin, target):
    assert_found_and_mended(twin, target)


@pytest.mark.slow
@each_other_twin
def test_generations_that_are_told_the_same(twin, target):
    assert_found_and_mended(twin, target)


def assert_found_and_mended(twin, target):
    # What was allowed once must not hide the mistake that follows.
    good, bad = report_of_good(twin, target), report_of_bad(twin, target)
    assert not good.findings, f"the good twin: {good}"
    assert good.outputs is not None
    finding = finding_of(twin, bad.findings)
    assert finding.message
    assert finding.fix
    assert twin.rule in str(finding)
    assert f"{finding.file}:{finding.line}" in str(finding)
    assert not (bad.ok and finding.severity == "error")
    assert told(twin, bad.findings) == recorded(twin, target)
    for found in bad.findings:
        assert set(found.data) <= set(DATA)
        json.dumps(found.to_dict())
    # Nor may a mistake linger: the good twin has no finding after the bad one either.
    by_value = twin.in_source or needs_values(twin)  # by which the kernel branches or addresses
    if by_value or RULES[twin.rule].on_values:
        again = report_of_good(twin, target)
        assert not again.findings, f"the good twin, after the bad one: {again}"
    if by_value:
        return
    # A run without values finds the same among the rules that do not look at values.
    for kernel, inputs, report in ((twin.bad, twin.inputs, bad), (twin.good, twin.fixed, good)):
        without = checked(twin, kernel, target, source=True, values=False)(*twin.arguments(inputs))
        assert not_on_values(without) == not_on_values(report), f"{kernel.__name__} without values"


def not_on_values(report):
    return {f.rule.id for f in report.findings if not f.rule.on_values}


@each_run_twin
def test_strict_stops_at_errors_only(twin, soon_endless):
    kernel = simulated(twin, twin.targets[0], strictness="strict")
    rule = RULES[twin.rule]
    if rule.severity != "error" and not rule.meaningless:
        kernel(*twin.arguments(twin.inputs))
        finding_of(twin, kernel.report.findings)
        return
    with pytest.raises(NkiValidationError) as caught:
        kernel(*twin.arguments(twin.inputs))
    assert caught.value.rule_id == twin.rule
    assert f"[{twin.rule}]" in str(caught.value)
    finding_of(twin, [caught.value.finding])


# What has no meaning on the device: wrong memory, shape, dtype, engine, generation or argument.
WITHOUT_RESULT = """
    A001 A002 A003 A005 A006 A007 A008 A009 A010 A011 A014 A015 A025 A026 A027 A028 A029
    A030 A031 A032 A033 A034 A035 A037 A038 A043 A044 A048 C002 C004 C009 C013 C014 C015 C016
    C017 C018 C019 C020 C021 C022 C023 C024 C025 C026 C027 C028 C029 C032 D001 D002 D006 D011
    D012 D022 D025 D026 D027 D032 D033 D034 D035 D037 D039 L026 L027 L034 L038 L063 L070
    M014 M018 M019
    M020 M021 M022 M023 M024 M025 M036 R013 R015 S001 S002 S005 S006 S007 S009 S011 S012 S017
    S018 S019 S021 S022 S024 S025 S026 S027 S028 S029 S030 S031 S032 S034 S035 S036 S037 S038
    S039 S040 S041 S042 S043 S044 S045 S046 S047 S048 S049 S051 S052 S053 S054 S055 S056 S057
    S058 S059 S062 S063
"""


@each_case("code", WITHOUT_RESULT.split())
def test_rules_that_leave_no_result(code):
    """That they stop ``simulate`` is part of what these rules promise."""
    assert RULES[code].meaningless


@each_run_twin
def test_simulate_stops_only_where_there_is_no_result(twin, soon_endless):
    kernel = simulated(twin, twin.targets[-1])
    rule = RULES[twin.rule]
    if rule.meaningless:
        with pytest.raises(NkiValidationError) as caught:
            kernel(*twin.arguments(twin.inputs))
        assert caught.value.rule_id == twin.rule
        return
    if rule.severity == "error":
        with pytest.warns(NkiFindingWarning):
            outputs = kernel(*twin.arguments(twin.inputs))
    else:
        outputs = kernel(*twin.arguments(twin.inputs))
    assert outputs is not None
    if twin.rule not in NOT_WATCHED_IN_SIMULATE:
        finding_of(twin, kernel.report.findings)


@each_source_twin
def test_the_source_alone_shows_it(twin):
    """Without importing the file: the bad twin breaks this rule only, the good one none."""
    nki = twin.options.get("nki")
    bad = check_source(twin.file, twin.bad.__name__, nki)
    assert bad.codes == {twin.rule}, str(bad)
    assert finding_of(twin, bad.findings).fix
    file = twin.good.__code__.co_filename
    assert not check_source(file, twin.good.__name__, nki).findings


@each_source_twin
def test_simulate_does_not_read_the_source(twin):
    kernel = simulated(twin, "gen3")
    kernel(*twin.arguments(twin.inputs))
    assert not kernel.report.findings, str(kernel.report)


@each_host_twin
def test_host_code_is_refused_at_its_line(twin):
    if RULES[twin.rule].severity == "warning":
        with pytest.warns(DeprecationWarning, match=twin.rule) as warned:
            twin.bad()
        assert warned[0].filename == twin.file
        assert warned[0].lineno in twin.marked_lines
        return
    with pytest.raises(NkiValidationError) as caught:
        twin.bad()
    assert caught.value.rule_id == twin.rule
    assert finding_of(twin, [caught.value.finding]).fix
    assert told(twin, [caught.value.finding]) == recorded(twin, twin.targets[0])


@each_host_twin
def test_mended_host_code_runs(twin):
    assert twin.good() is not None


@each_case("twin, target", named((t, t.targets[i % len(t.targets)]) for i, t in enumerate(ADVISED)))
def test_a_profile_advises_the_bad_twin_at_its_line_and_the_good_one_is_faster(twin, target):
    assert_advised(twin, target)


@pytest.mark.slow
@each_case("twin, target", on_targets(ADVISED))
def test_every_generation_is_advised(twin, target):
    assert_advised(twin, target)


def assert_advised(twin, target):
    kernels = (twin.bad, twin.launched(twin.good))
    bad, good = (profile(k, target)(*twin.arguments(twin.inputs)) for k in kernels)
    lines = {piece.line for piece in bad.advice if piece.rule == twin.rule}
    assert lines & twin.marked_lines
    assert {piece.file for piece in bad.advice} == {twin.file}
    assert twin.rule not in {piece.rule for piece in good.advice}
    assert good.latency_us < bad.latency_us


def test_advice_is_no_rule_of_a_check():
    of_profiles = {twin.rule for twin in ADVISED}
    assert set(RULES) - set(CHECKED) == of_profiles
    for rule in of_profiles:
        assert RULES[rule].severity == "note"
        with pytest.raises(ValueError, match="accepted: ids of rules"):
            check(advice.good_P001, errors=[rule])


@each_case("case, target", named((g, g.targets[i % len(g.targets)]) for i, g in enumerate(GUARDS)))
def test_a_guard_has_no_finding(case, target):
    assert_not_found(case, target)


@pytest.mark.slow
@each_case("case, target", on_targets(GUARDS))
def test_a_guard_has_no_finding_on_any_generation(case, target):
    assert_not_found(case, target)


def assert_not_found(case, target):
    report = check(case.kernel, target=target, source=True)(*copies(case.inputs))
    expected = {(case.warns, "warning")} if case.warns else set()
    assert {(f.rule.id, f.severity) for f in report.findings} == expected, str(report)
    assert report.outputs is not None


def test_every_rule_has_a_twin():
    missing = ", ".join(sorted(set(RULES) - {twin.rule for twin in TWINS}))
    assert not missing, (
        f"no twins for {missing}: write the twin ID in the file of tests/kernels/ on its "
        "subject, in the form that tests/kernels/__init__.py describes, then run "
        "python tools/record_findings.py and make docs"
    )


def test_every_twin_is_of_a_declared_rule():
    assert {twin.rule for twin in TWINS} - set(RULES) == set()


def test_every_bad_kernel_is_declared_once_and_marked():
    written = [
        name.removeprefix("bad_")
        for module in MODULES
        for name in vars(module)
        if name.startswith("bad_")
    ]
    assert sorted(written) == sorted(twin.name for twin in TWINS)
    assert [twin.name for twin in TWINS if not twin.marked_lines] == []


@each_case("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_is_described(rule):
    assert rule.severity in ("error", "warning", "note")
    assert rule.slug == rule.slug.lower()
    assert rule.slug.replace("-", "").isalnum()
    assert rule.checks.endswith(".")
    assert rule.matters
