"""Plant small faults in the sources, one at a time, and tell which of them the tests notice.

    python tools/mutants.py trnrand trnblas --sample 20 --seed 1

Faults are those of Cosmic Ray's operators: another operator, comparison, number or truth value. A
sample of a package's places is drawn from a seed, which the report names, so that a run can be
repeated. Everything happens in a copy of the tree. Tests of the changed module run first, then
those of its package, until one fails; with ``--files`` only so many files that speak most of the
module. A file whose tests fail without the fault, too, has noticed nothing, and ends the run. What
runs out of time counts as noticed, and is marked.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parent.parent
# What is changed, and where its tests are.
PACKAGES = {
    "trnblas": ("src/trnblas", "tests/trnblas"),
    "trnfft": ("src/trnfft", "tests/trnfft"),
    "trnrand": ("src/trnrand", "tests/trnrand"),
    "trnsolver": ("src/trnsolver", "tests/trnsolver"),
    "trnsparse": ("src/trnsparse", "tests/trnsparse"),
    "trntensor": ("src/trntensor", "tests/trntensor"),
    "trnsci.core": ("src/trnsci/core", "tests/trnsci"),
    "nkisim.isa": ("src/nkisim/isa", "tests/nkisim"),
    "nkisim.memory": ("src/nkisim/memory", "tests/nkisim"),
    "nkisim.machine": ("src/nkisim/machine", "tests/nkisim"),
}
# Names of operators to use: faults that a tired programmer makes.
OPERATORS = re.compile(
    r"core/(NumberReplacer|AddNot|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceTrueWithFalse"
    r"|ReplaceFalseWithTrue|ReplaceUnaryOperator_Delete_\w+|ReplaceBinaryOperator_(Add_Sub|Sub_Add"
    r"|Mul_Div|Mul_Add|Div_Mul|FloorDiv_Mul|Mod_FloorDiv|Pow_Mul|LShift_RShift|RShift_LShift"
    r"|BitAnd_BitOr|BitOr_BitAnd|BitXor_BitOr)|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE"
    r"|LtE_Lt|Gt_GtE|GtE_Gt|Lt_GtE|Gt_LtE|Is_IsNot|IsNot_Is))$"
)


class Fault(NamedTuple):
    module: str
    operator: str
    occurrence: int
    line: int


def meaningless(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a fault changes nothing that runs: annotations, and what only type checkers read."""
    spans = []
    for node in ast.walk(ast.parse(path.read_text())):
        found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found = [node]
        for part in found:
            if part is not None:
                ends = (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)
                spans.append(ends)
    return spans


def faults(module: Path) -> dict[tuple[int, int], list[Fault]]:
    """All faults of a module, by their places."""
    tree, skipped = get_ast_from_path(module), meaningless(module)
    by_place: dict[tuple[int, int], list[Fault]] = {}
    for name in filter(OPERATORS.match, sorted(operator_names())):
        operator = get_operator(name)()
        places = (s for node in ast_nodes(tree) for s, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(places):
            if not any(first <= start < last for first, last in skipped):
                fault = Fault(str(module.relative_to(ROOT)), name, occurrence, start[0])
                by_place.setdefault(start, []).append(fault)
    return by_place


def sampled(folder: str, size: int, seed: int, matching: str) -> list[Fault]:
    """A sample of places in a package, each with one of the faults possible there."""
    modules = sorted(p for p in (ROOT / folder).rglob("*.py") if re.search(matching, str(p)))
    places = [fault for module in modules for fault in faults(module).values()]
    chance = random.Random(seed)
    return [chance.choice(there) for there in chance.sample(places, min(size, len(places)))]


def ordered_tests(copy: Path, module: str, tests: str) -> list[str]:
    """Test files of a package, those that speak most of a module first."""
    path = Path(module)
    tree = ast.parse((ROOT / module).read_text())
    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    words = re.compile(rf"\b({'|'.join(map(re.escape, {path.stem, *defined}))})\b")
    files = [p for p in (copy / tests).rglob("test_*.py")]
    marks = {p: len(words.findall(p.read_text())) / (1 + p.stat().st_size) for p in files}
    named = path.stem.strip("_")
    files.sort(key=lambda p: (named not in p.stem, -marks[p], str(p)))
    return [str(p.relative_to(copy)) for p in files]


def failing(copy: Path, files: list[str], timeout: float | None) -> str:
    """The first test file of a copy that fails, or nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    settings = {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    settings |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [*command, "-m", "not slow", *files],
        cwd=copy,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    named = re.search(r"^(?:FAILED|ERROR) (\S+?\.py)", run.stdout, re.MULTILINE)
    return "" if run.returncode == 0 else named[1] if named else files[0]


@cache
def passes(copy: Path, file: str) -> bool:
    """Whether a test file passes without a fault."""
    return not failing(copy, [file], None)


def noticed(copy: Path, fault: Fault, files: list[str], timeout: float) -> bool:
    """Report whether the tests notice a fault, and the line that it makes."""
    with use_mutation(copy / fault.module, get_operator(fault.operator)(), fault.occurrence) as two:
        before, after = (code.splitlines() for code in two)
        line = next(new.strip() for old, new in zip(before, after, strict=False) if old != new)
        try:
            failed = failing(copy, files, timeout)
        except subprocess.TimeoutExpired:
            failed, line = "time", line + "   (ran out of time)"
    if failed.endswith(".py") and not passes(copy, failed):
        sys.exit(f"{failed} fails without a fault")
    outcome = "noticed" if failed else "SURVIVED"
    print(f"  {outcome:8}  {fault.module}:{fault.line}  {line}", flush=True)
    return bool(failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(PACKAGES)}; all by default")
    parser.add_argument("--sample", type=int, default=10, help="faults per package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, help="test files for each fault; all by default")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one fault")
    parser.add_argument("--matching", default="", help="expression that paths of modules match")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        ignored = shutil.ignore_patterns("__pycache__", ".*", "site", "results")
        copy = Path(shutil.copytree(ROOT, Path(folder) / "tree", ignore=ignored))
        for package in options.packages or PACKAGES:
            sources, tests = PACKAGES[package]
            sample = sampled(sources, options.sample, options.seed, options.matching)
            print(f"{package}: {len(sample)} faults of seed {options.seed}", flush=True)
            found = 0
            for fault in sample:
                files = ordered_tests(copy, fault.module, tests)[: options.files]
                found += noticed(copy, fault, files, options.timeout)
            print(f"{package}: {found} of {len(sample)} noticed", flush=True)


if __name__ == "__main__":
    main()
