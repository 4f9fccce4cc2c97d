"""Every case of these tests that has code to paste, fixed in its file.

The result parses, has all comments and no error that the file did not have, no longer has the
finding, and a second fix changes nothing.
"""

import ast
import io
import random
import tokenize
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import nkisim
from coded_files import checked_twins, source_of, with_arguments
from each_case import each_case
from kernels import TWINS
from kernels.told import has_code
from nkisim.filecheck import CheckSettings, check_files
from nkisim.filecheck.fixes import fix_files
from pairwise import in_turn
from scripts import imported

from . import test_rules  # noqa: F401 (imports all kernels)
from .fuzzed_kernels import HARMFUL, random_kernel
from .written_kernels import KERNELS

PASTED = """
    A001 A002 A012 A014 A034 A035 A036 D002 D003 D010 D013 D022 D023 D023_copy D023_reciprocal
    D023_tfloat32 D036 D045 L029 L060 L060_view M001 M003 M004 M006 M019
    M022 M023 R003 R003_through_hbm S004 S010 S030 S067 S068 W001
"""
"""Twins in which nothing is found any more."""

MOVED = {"long_rows_loaded": "M009"}
REMOVED = {"turned": "A025", "last_sum": "M022"}
"""Findings of written kernels whose fix moves a statement, or removes an argument."""


def comments(text):
    """How often each comment is in a text."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def errors_of(ledger):
    """The rules of errors and the exceptions of a check, each with its generation."""
    found = [finding for finding in ledger.findings if finding.severity == "error"]
    errors = {(f.rule.id, target) for f in found for target in f.targets or ("",)}
    for record in ledger.kernels.values():
        errors |= {(reason.split()[0], target) for target, reason in record.stopped.items()}
    return errors


def fixed(file, name, targets):
    """Fixes a kernel of a file; returns the rules of fixed findings and the findings left."""
    before = file.read_text()
    settings = CheckSettings(targets=targets)
    ledger, (result,) = fix_files([(file, name)], settings, write=True)
    assert not result.problem
    after = file.read_text()
    ast.parse(after)
    assert comments(before) == comments(after)
    if errors := errors_of(ledger):  # the file had them
        file.write_text(before)
        assert errors <= errors_of(check_files([(file, name)], settings))
        file.write_text(after)
    for finding in ledger.findings:
        assert finding.rewrite is None or finding.untried or Path(finding.rewrite.file) != file
    again, (same,) = fix_files([(file, name)], settings, write=True)
    assert not same.changed
    assert not again.fixed
    return [finding.rule.id for finding in ledger.fixed], ledger.findings


def checked(twin, kernel, inputs):
    """The report of a check of one of the two kernels of a twin."""
    kernel = twin.launched(nkisim.jit(kernel))
    check = nkisim.check(kernel, target=twin.targets[-1], source=twin.in_source)
    return check(*twin.arguments(inputs))


def assert_computes_the_same(twin, file):
    """Compares the fixed kernel of a file with the good twin."""
    with imported(file) as module:
        got = checked(twin, getattr(module, twin.bad.__name__), twin.inputs).outputs
    wanted = checked(twin, twin.good, twin.fixed).outputs
    got, wanted = (x if isinstance(x, tuple) else (x,) for x in (got, wanted))
    for one, other in zip(got, wanted, strict=True):
        a, b = (np.asarray(x, np.float64) for x in (one, other))
        # Where one of the two rounds an operand to bfloat16, terms are off by 2^-8 of themselves.
        np.testing.assert_allclose(a, b, rtol=0, atol=2.0**-7 * np.abs(b).max())


def modules_of_twins():
    return sorted({twin.module for twin in TWINS})


def twins_of(module):
    """The twins of a file, and the names of those whose findings have code."""
    twins = [twin for twin in checked_twins() if twin.module == module]
    return twins, {t.name for t in twins if has_code(t, t.targets[-1])}


@pytest.mark.parametrize("module", modules_of_twins(), ids=lambda path: path.stem)
def test_bad_twins_are_fixed(module, tmp_path):
    twins, coded = twins_of(module)
    here = {twin.name for twin in TWINS if twin.module == module}
    pasted = here.intersection(PASTED.split())
    assert pasted <= coded
    failed = []
    for twin in twins:
        if twin.name not in coded:
            continue
        file = tmp_path / f"fixed_{twin.name}.py"
        file.write_text(source_of(twin))
        try:
            rules, left = fixed(file, twin.bad.__name__, twin.targets)
            assert not (left and twin.name in pasted)
            if not left:
                assert_computes_the_same(twin, file)
        except AssertionError as error:
            failed.append((twin.name, error))
            continue
        if twin.rule not in rules or twin.rule in {finding.rule.id for finding in left}:
            failed.append((twin.name, rules, left))
    assert not failed


def assert_unchanged(twins, folder):
    """Assert that a fix changes no file of these twins."""
    failed = []
    for twin in twins:
        file = folder / f"fixed_{twin.name}.py"
        file.write_text(source_of(twin))
        settings = CheckSettings(targets=twin.targets)
        _, (same,) = fix_files([(file, twin.bad.__name__)], settings, write=False)
        failed += [twin.name] if same.changed else []
    assert not failed


def without_code():
    """The twins whose findings have no code."""
    return [
        t
        for m in modules_of_twins()
        for ts, coded in [twins_of(m)]
        for t in ts
        if t.name not in coded
    ]


def test_twins_without_code_stay(tmp_path):
    assert_unchanged(without_code()[::4], tmp_path)


@pytest.mark.slow
def test_all_twins_without_code_stay(tmp_path):
    assert_unchanged(without_code(), tmp_path)


def written(file, name, text):
    file.write_text(with_arguments(text, name, KERNELS[name].inputs))


@each_case("name, target", in_turn(KERNELS, ["gen2", "gen3", "gen4"]))
def test_written_kernels_are_fixed(name, target, tmp_path):
    assert_written_is_fixed(name, (target,), tmp_path)


@pytest.mark.slow
@each_case("name", list(KERNELS))
def test_written_kernels_are_fixed_for_all_generations(name, tmp_path):
    assert_written_is_fixed(name, ("gen2", "gen3", "gen4"), tmp_path)


def assert_written_is_fixed(name, targets, folder):
    text, inputs, wanted = KERNELS[name]
    file = folder / f"{name}.py"
    written(file, name, text)
    rules, left = fixed(file, name, targets)
    assert rules
    assert not left
    with imported(file) as module:
        kernel = nkisim.simulate(getattr(module, name), strictness="strict", target=targets[-1])
        np.testing.assert_allclose(kernel(*inputs), wanted, rtol=1e-5)


def assert_left(left, rule):
    """Asserts that a finding of a rule without code is left, or none at all."""
    rules = {finding.rule.id for finding in left if finding.rewrite is None}
    assert rule in rules if rule else not left


# A quarter of the kernels has comments on lines, another one on arguments, and those from which a
# finding is left have both. The slow tests have the rest.
ON_LINES = {*list(KERNELS)[::4], *MOVED}
ON_ARGUMENTS = {*list(KERNELS)[2::4], *MOVED, *REMOVED}


@each_case("name", sorted(ON_LINES))
def test_comments_on_all_lines_stay(name, tmp_path):
    assert_comments_on_lines_stay(name, tmp_path)


@pytest.mark.slow
@each_case("name", sorted({*KERNELS} - ON_LINES))
def test_comments_on_all_lines_of_other_kernels_stay(name, tmp_path):
    assert_comments_on_lines_stay(name, tmp_path)


def assert_comments_on_lines_stay(name, folder):
    head, body = KERNELS[name].text.split("@nki.jit\n")
    lines = [f"{line}  # line {i}" for i, line in enumerate(body.splitlines())]
    file = folder / f"{name}_commented.py"
    written(file, name, head + "@nki.jit\n" + "\n".join(lines) + "\n")
    _, left = fixed(file, name, ("gen3",))
    assert_left(left, MOVED.get(name))


def exploded(line):
    """A statement of one call with an argument and a comment on each line."""
    indent = line[: len(line) - len(line.lstrip())]
    try:
        call = ast.parse(line.strip()).body[0].value
        arguments = [*call.args, *call.keywords]
    except (SyntaxError, AttributeError):
        return line
    head = line.strip().partition("(")[0]
    texts = [ast.get_source_segment(line.strip(), argument) for argument in arguments]
    rows = [f"{indent}    {text},  # {text}" for text in texts]
    return "\n".join([f"{indent}{head}(", *rows, f"{indent})"])


@each_case("name", sorted(ON_ARGUMENTS))
def test_comments_on_all_arguments_stay(name, tmp_path):
    assert_comments_on_arguments_stay(name, tmp_path)


@pytest.mark.slow
@each_case("name", sorted({*KERNELS} - ON_ARGUMENTS))
def test_comments_on_all_arguments_of_other_kernels_stay(name, tmp_path):
    assert_comments_on_arguments_stay(name, tmp_path)


def assert_comments_on_arguments_stay(name, folder):
    """Where a comment would be lost, because its argument is removed, the finding is left."""
    head, body = KERNELS[name].text.split("@nki.jit\n")
    first, *lines = body.splitlines()
    text = "\n".join([head + "@nki.jit", first, *map(exploded, lines)])
    assert text.count("#") > 3
    file = folder / f"{name}_exploded.py"
    written(file, name, text + "\n")
    _, left = fixed(file, name, ("gen3",))
    assert_left(left, (MOVED | REMOVED).get(name))


FUZZED = """

def nkisim_examples():
    import numpy as np

    yield fuzzed, tuple(np.load({inputs!r}).values())
"""
SEEDS = [4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 130))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_kernel_without_findings_left_is_right(seed, tmp_path):
    """Findings of one mistake may remain, but no sequence of fixes changes what is computed."""
    rng = random.Random(seed)
    kernel, done = random_kernel(rng), set()
    np.savez(tmp_path / "inputs.npz", *kernel.inputs)
    # An operator in place of another instruction changes what the kernel is meant to compute.
    for mistake in (m for m in HARMFUL if m.__name__ != "operator"):
        broken, _ = mistake(kernel, rng)
        file = tmp_path / f"{mistake.__name__}.py"
        file.write_text(broken.text + FUZZED.format(inputs=str(tmp_path / "inputs.npz")))
        _, left = fixed(file, "fuzzed", ("gen3",))
        if not left:
            done.add(mistake.__name__)
            with imported(file) as module:
                result = nkisim.simulate(module.fuzzed, target="gen3")(*kernel.inputs)
            np.testing.assert_allclose(result, kernel.wanted, rtol=2e-5, atol=2e-6)
    assert done >= {"column_as_tile", "comprehension", "invented_name", "past_the_end"}
