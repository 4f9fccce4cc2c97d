"""Code in findings has been tried: what fails is not shown, what cannot be tried says so."""

import json
import linecache

import numpy as np
import pytest
from click.testing import CliRunner

import nkisim
from coded_files import cases, checked_twins, pieces_of
from each_case import each_case
from kernels.told import has_code
from nkisim.cli import commands
from nkisim.filecheck import CheckSettings, fixes
from nkisim.filecheck.fixes import tried_files
from scripts import imported

from .checker_cases import HEAD

EXAMPLE = """

def nkisim_examples():
    values = np.random.default_rng(0).normal
    yield kernel, tuple(values(size=shape).astype(np.float32) for shape in {shapes})
"""


def checked(folder, body, *shapes):
    """The findings of a kernel of one, two ... arguments, and the file."""
    names = ", ".join("abc"[: len(shapes) or 1])
    file = folder / "kernels.py"
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    text = f"{HEAD}@nki.jit\ndef kernel({names}):\n{lines}"
    file.write_text(text + (EXAMPLE.format(shapes=shapes) if shapes else ""))
    linecache.checkcache(str(file))
    return tried_files([(file, None)], CheckSettings()).findings, file


def pasted(finding, file):
    """The kernel of a file after the code of a finding, without a finding on any generation."""
    assert finding.tried
    file.write_text(finding.rewrite.applied(file.read_text()))
    linecache.checkcache(str(file))
    assert not tried_files([(file, None)], CheckSettings()).findings
    with imported(file) as module:
        ((kernel, arguments),) = module.nkisim_examples()
        return nkisim.simulate(kernel)(*arguments), arguments


def coded(findings):
    """The only finding with code."""
    (finding,) = [finding for finding in findings if finding.rewrite is not None]
    return finding


SUM = """
acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
for k in range(2):
    at = nl.load(a[k * 128 : (k + 1) * 128, :])
    bt = nl.load(b[k * 128 : (k + 1) * 128, :])
    {line}
out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_copy(dst=tile, src=acc)
nisa.dma_copy(dst=out, src=tile)
return out
"""


@each_case(
    "line",
    [
        "acc += nl.matmul(at, bt, transpose_x=True)",
        "acc = acc + nl.matmul(at, bt, transpose_x=True)",
    ],
)
def test_a_product_added_to_psum_is_a_matmul(line, tmp_path):
    """``nl.add`` would read both tiles from PSUM: M023."""
    findings, file = checked(tmp_path, SUM.format(line=line), (256, 128), (256, 512))
    finding = coded(findings)
    assert finding.rewrite.shown() == ["nisa.nc_matmul(dst=acc, stationary=at, moving=bt)"]
    result, (a, b) = pasted(finding, file)
    # Products of float32 are sums of bfloat16 products: 2^-16 of the sum of the moduli.
    assert (np.abs(result - a.T @ b) <= 2.0**-16 * (np.abs(a).T @ np.abs(b))).all()


TURNED = """
{load}
{line}
out = nl.ndarray((8, 64), dtype=nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=u)
return out
"""


@each_case("call", ["permute(1, 0)", "permute((1, 0))", "transpose()", "transpose(1, 0)"])
@each_case("load", ["t = nl.load(a)", "t = a"])
def test_permuted_axes_have_code_that_transposes(call, load, tmp_path):
    text = TURNED.format(load=load, line=f"u = t.{call}")
    findings, file = checked(tmp_path, text, (64, 8))
    result, (a,) = pasted(coded(findings), file)
    assert np.array_equal(result, a.T)


@each_case("call", ["permute(0, 1)", "transpose(0, 1)", "permute(n, 0)"])
def test_axes_of_unclear_meaning_have_no_code(call, tmp_path):
    text = TURNED.format(load="n = 1\nt = nl.load(a)", line=f"u = t.{call}")
    assert all(f.rewrite is None for f in checked(tmp_path, text, (64, 8))[0])


def test_a_dropped_tail_is_cut_on_both_sides_of_the_transfer(tmp_path):
    """A cut of one side alone brings S058."""
    tail = """
out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
for c in range(0, 128, 48):
    t = nl.ndarray((64, 48), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a[:, c : c + 48])
    w = min(48, 128 - c)
    nisa.dma_copy(dst=out[:, c : c + w], src=t[:, 0:w])
return out
"""
    findings, file = checked(tmp_path, tail, (64, 128))
    result, (a,) = pasted(coded(findings), file)
    assert np.array_equal(result, a)


PLACED = """
t = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
u = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf, address=(0, 128))
nisa.dma_copy(dst=t, src=a)
nisa.activation(dst=u, op=nl.exp, data=t)
out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=u)
return out
"""


def test_a_collision_of_addresses_is_not_fixed_by_a_copy(tmp_path):
    """With another tile M030 is gone, and M013 stays."""
    findings, file = checked(tmp_path, PLACED, (64, 64))
    assert {"M013", "M030"} <= {finding.rule.id for finding in findings}
    assert all(finding.rewrite is None for finding in findings)
    assert "addresses" in next(f.fix for f in findings if f.rule.id == "M030")
    before = file.read_text()
    fixes.fix_files([(file, None)], CheckSettings(), write=True)
    assert file.read_text() == before


QUOTIENT = """
t = nl.load(a)
u = nl.load(b)
z = nl.divide(nl.exp(t), nl.exp(u))
out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=z)
return out
"""


def test_results_may_differ_by_rounding(tmp_path):
    findings, file = checked(tmp_path, QUOTIENT, (64, 64), (64, 64))
    result, (a, b) = pasted(coded(findings), file)
    np.testing.assert_allclose(result, np.exp(a.astype(np.float64) - b), rtol=2.0**-17)


# -- what cannot be tried --------------------------------------------------------------------------

WARNED = """
out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
t = nl.load(a)
nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add, engine=5)
u = [t for i in range(1)]
nl.store(out, t)
return out
"""
STOPPED = WARNED.replace("nl.load(a)", "nl.load(a[0:64, 99:100])")


@each_case(
    ("body", "shapes", "reason"),
    [(WARNED, [], "no arguments"), (STOPPED, [(64, 64)], "kernel stopped before it")],
)
def test_code_that_cannot_be_tried_is_marked_and_not_written(body, shapes, reason, tmp_path):
    findings, file = checked(tmp_path, body, *shapes)
    finding = coded(findings)
    assert (finding.rule.id, finding.tried, finding.untried) == ("L006", False, reason)
    assert f"  note  not tried: {reason}" in str(finding).splitlines()
    data = finding.to_dict()
    assert (data["tried"], data["untried"]) == (False, reason)
    before = file.read_text()
    left, (fixed,) = fixes.fix_files([(file, None)], CheckSettings(), write=True)
    assert not fixed.changed
    assert file.read_text() == before
    assert coded(left.findings).untried == reason


def test_json_says_what_was_tried(tmp_path):
    _, file = checked(tmp_path, WARNED, (64, 64))

    def tried(*options):
        done = CliRunner().invoke(commands, ["check", str(file), "--format", "json", *options])
        found = json.loads(done.stdout)["findings"]
        return {(finding["rule"], finding["tried"]) for finding in found}

    assert tried() == {("A013", True), ("L006", True)}
    assert tried("--no-trials") == {("A013", False), ("L006", False)}
    assert tried("--source-only") == {("L006", False)}
    with imported(file) as module:
        report = nkisim.check(module.kernel, source=True)(np.ones((64, 64), np.float32))
    assert {finding["tried"] for finding in json.loads(report.to_json())["findings"]} == {False}


# -- cost ------------------------------------------------------------------------------------------


LINE = "nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.maximum, engine=5)"
MANY = ["out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)", "t = nl.load(a)"]
MANY += [LINE] * 20
MANY += ["nl.store(out, t)", "return out"]


def counted(folder, rows, fault=""):
    """Check a kernel; return the findings, and what all checks execute as a share of the first.

    The code for lines with a comment has a fault.
    """
    plain, counts = fixes.check_files, []

    def check_files(wanted, settings):
        ledger = plain(wanted, settings)
        counts.append(ledger.instructions)
        for finding in ledger.findings:
            old = finding.rewrite
            if old is not None and "#" in finding.place.text:
                code = LINE.replace("engine=5", f"engine={fault}")
                finding.rewrite = old._replace(code=f"    {code}  # broken")
        return ledger

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixes, "check_files", check_files)
        findings, _ = checked(folder, "\n".join(rows), (64, 64))
    return findings, sum(counts) / counts[0]


def test_twenty_pieces_that_hold_cost_one_more_check(tmp_path):
    findings, share = counted(tmp_path, MANY)
    assert [finding.tried for finding in findings] == [True] * 20
    assert share <= 2


@each_case("fault", ["[][0]", "3", "nisa.engine.tensor"])
def test_three_pieces_that_fail_cost_three_more_checks_at_most(fault, tmp_path):
    """An exception, a finding that stays, and an error that stops the kernel."""
    rows = [row + "  # broken" if i in (5, 10, 18) else row for i, row in enumerate(MANY)]
    findings, share = counted(tmp_path, rows, fault)
    failed = [finding for finding in findings if finding.rewrite is None]
    assert len(failed) == 3
    assert all(any(note.startswith("no code: ") for note in f.notes) for f in failed)
    assert sum(finding.tried for finding in findings) == 17
    assert share <= 4


# -- all rules -------------------------------------------------------------------------------------


def of_each_rule():
    """The names of a bad twin of every third rule with code; all are fixed in other tests."""
    names = {t.rule: f"bad_{t.name}" for t in checked_twins() if has_code(t, t.targets[-1])}
    return sorted(names.values())[::3]


CASES = cases()


def assert_no_piece_fails(names, folder):
    """Paste each piece that is shown; return the share of rules with code that show some."""
    found = {name: pieces_of(CASES[name], folder / f"{name}.py") for name in names}
    assert {name: pieces.failed for name, pieces in found.items() if pieces.failed} == {}
    assert all(pieces.tried == pieces.shown for pieces in found.values())
    known, shown = ({rule for p in found.values() for rule in p[kind]} for kind in (0, 1))
    assert len(shown) >= 0.8 * len(known) > 0


def test_each_piece_leaves_no_error_that_was_not_there(tmp_path):
    assert_no_piece_fails(of_each_rule(), tmp_path)


@pytest.mark.slow
def test_each_piece_of_all_kernels_leaves_no_error(tmp_path):
    """What ``python tools/count_code.py`` counts."""
    assert_no_piece_fails(CASES, tmp_path)
