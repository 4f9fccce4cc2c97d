"""Every twin and guard of ``tests/kernels`` replays as its own code runs."""

import copy
import importlib
import pkgutil
from collections import defaultdict

import pytest

import kernels
import nkisim
from kernels import GUARDS, TWINS, copies
from nkisim.profiling import ProfileError
from nkisim.program import ProgramError
from nkisim.trials.running import arrays_of

for found in pkgutil.iter_modules(kernels.__path__):
    importlib.import_module(f"kernels.{found.name}")

UNHELD = {
    "bad_L031": "iterations differ",  # a branch on the index
    "bad_L032": "left by break",
    "bad_L037": "an earlier iteration made",
    "bad_L064": "L064 annotation-mismatch",  # refused before the kernel begins
}
"""Kernels that no program holds, with a part of the reason."""

OTHER_DEPTH = {"bad_L038_never_ends"}
"""Kernels that end at Python's limit of recursion, which a recorder reaches earlier."""


def _cases():
    by_file = defaultdict(list)
    for twin in TWINS:
        sides = ((twin.bad, twin.inputs), (twin.good, twin.fixed or twin.inputs))
        for kernel, inputs in () if twin.on_host else sides:
            target = "gen3" if "gen3" in twin.targets else twin.targets[0]
            options = {**twin.options, "target": target, "ranks": twin.ranks}
            case = (kernel.__name__, twin.launched(kernel), twin.arguments(inputs), options)
            by_file[kernel.__module__].append(case)
    for guard in GUARDS:
        target = "gen3" if "gen3" in guard.targets else guard.targets[0]
        case = (guard.name, guard.kernel, copies(guard.inputs), {"target": target, "ranks": 1})
        by_file[guard.kernel.__module__].append(case)
    return by_file


CASES = _cases()


def seen(kernel, args, options):
    """What a check of a kernel finds and returns, and the time that is predicted for it."""
    args = copy.deepcopy(args)
    report = nkisim.check(kernel, source=False, **options)(*args)
    findings = [
        (f.rule.id, f.message, f.file, f.place.line, f.place.loops, f.severity, f.operand, f.seen)
        for f in report.findings
    ]
    returned = [] if report.outputs is None else arrays_of(report.outputs)
    outputs = [array.tobytes() for array in returned]
    memory = [str(used) for used in report.memory]
    found = [findings, outputs, memory, report.stopped, report.instructions]
    if report.stopped or any(finding.refuses for finding in report.findings):
        return found
    try:
        profile = nkisim.profile(kernel, advice=False, **options)(*args)
    except ProfileError as error:
        return [*found, str(error)]
    return [*found, profile.latency_us, profile.interval_us]


def test_few_kernels_are_exceptions():
    count = sum(map(len, CASES.values()))
    assert count > 1000
    assert len(UNHELD) + len(OTHER_DEPTH) <= count / 100


@pytest.mark.parametrize("file", sorted(CASES))
def test_a_replay_equals_the_run(file, capsys):
    unequal = []
    for name, kernel, args, options in CASES[file]:
        given = {key: options[key] for key in ("target", "nki", "ranks") if key in options}
        try:
            expected = seen(kernel, args, options)
        except (ArithmeticError, AssertionError, LookupError, TypeError) as error:
            with pytest.raises(type(error)):
                nkisim.record(kernel, **given)(*args)
            continue
        if name in UNHELD:
            with pytest.raises(ProgramError, match=UNHELD[name]):
                nkisim.record(kernel, **given)(*args)
            continue
        program = nkisim.record(kernel, **given)(*args)
        files = [shown for shown, _ in program.files]
        replayed = nkisim.Program.load(program.to_bytes(), files)
        if seen(replayed, args, options) != expected and name not in OTHER_DEPTH:
            unequal.append(name)
    capsys.readouterr()  # of nl.device_print
    assert unequal == []
