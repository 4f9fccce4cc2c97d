"""Mutation testing: insert small faults into the sources and report the ones that tests detect.

    python tools/mutants.py trnrand trnblas --sample 20 --seed 1

Faults are those of Cosmic Ray's operators: another operator, comparison, number or truth value. The
locations in a package are sampled with a seed, which is part of the report, so that a run can be
repeated. All changes are made in a copy of the tree.

First the tests run once without a fault, to record the functions that each of them calls
(``covering.py``); ``--calls`` stores that for later runs. For a fault, tests run until one fails:
first those that call the changed function, ordered by the number of other calls, then those that
call anything of its module, then those that start a process. Tests that detected faults run once
more without any. A timeout counts as detected and is marked. ``--record`` appends each outcome to a
file and skips outcomes that the file already has. ``--jobs`` processes take a fault each, and each
has a copy of its own.
"""

import argparse
import ast
import importlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parent.parent
# Packages to change, and the folders of their tests.
PACKAGES = {
    "trnblas": ("src/trnblas", "tests/trnblas"),
    "trnfft": ("src/trnfft", "tests/trnfft"),
    "trnrand": ("src/trnrand", "tests/trnrand"),
    "trnsolver": ("src/trnsolver", "tests/trnsolver"),
    "trnsparse": ("src/trnsparse", "tests/trnsparse"),
    "trntensor": ("src/trntensor", "tests/trntensor"),
    "trnsci.core": ("src/trnsci/core", "tests/trnsci", "tests/trnblas"),
    "nkisim.isa": ("src/nkisim/isa", "tests/nkisim"),
    "nkisim.memory": ("src/nkisim/memory", "tests/nkisim"),
    "nkisim.machine": ("src/nkisim/machine", "tests/nkisim"),
    "nkisim.profiling": ("src/nkisim/profiling", "tests/nkisim/profiling"),
    "nkisim.judging": ("src/nkisim/judging", "tests/nkisim/judging"),
    "nkisim.program": ("src/nkisim/program", "tests/nkisim/program"),
    "nkisim.tuning": ("src/nkisim/tuning", "tests/nkisim/tuning"),
}
# Folders that are not copied.
UNUSED = ("__pycache__", ".git", ".venv", ".*_cache", ".hypothesis", "build", "site", "results")
# Imported once, before forking. Pytest plugins must not be imported early.
SLOW_IMPORTS = ("ml_dtypes", "numpy", "scipy.stats", "torch")
# Cosmic Ray operators to use: plausible programming mistakes.
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
    """Locations without run-time effect: annotations and code for type checkers only."""
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
    """All faults of a module, by location."""
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
    """A sample of locations in a package, each with one possible fault."""
    modules = sorted(p for p in (ROOT / folder).rglob("*.py") if re.search(matching, str(p)))
    places = [fault for module in modules for fault in faults(module).values()]
    chance = random.Random(seed)
    return [chance.choice(there) for there in chance.sample(places, min(size, len(places)))]


def enclosing(module: Path, line: int) -> str:
    """The qualified name of the innermost function around a line; empty outside of functions."""
    name, first = "", 0

    def visit(node: ast.AST, path: str) -> None:
        nonlocal name, first
        for child in ast.iter_child_nodes(node):
            inner = path
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{path}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    begin = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                    if begin <= line <= (child.end_lineno or 0) and begin >= first:
                        name, first = inner, begin
                    inner += ".<locals>"
                inner += "."
            visit(child, inner)

    visit(ast.parse(module.read_text()), "")
    return name


def importing(module: str) -> tuple[str, ...]:
    """Modules that import one whose own calls are not recorded, such as numba loops."""
    name = re.compile(rf"import .*\b{Path(module).stem}\b|\b{Path(module).stem} import")
    package = ROOT.joinpath(*Path(module).parts[:2])
    found = [path for path in package.rglob("*.py") if name.search(path.read_text())]
    return tuple(f"{path.relative_to(ROOT)}:" for path in found)


class Calls:
    """The functions that each test calls."""

    def __init__(self, files: list[Path]) -> None:
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        self.tests = sorted(lines, key=lambda test: test["seconds"])

    def near(self, module: str, function: str, seconds: float) -> list[list[str]]:
        """Groups of tests that may detect a change of a function, the most likely first.

        Tests that call the function come first, then those in files named for its module, then
        those that call others of the module (or of modules that import it, if its own calls are not
        recorded), then those that start a process; within each, tests with the fewest other calls
        first. The first group gets a tenth of the seconds. The second has one case of every test
        function before further cases, because different tests detect different faults. All tests
        are returned if none calls anything there.
        """
        place, around = f"{module}:{function}", (f"{module}:",)
        if not any(c.startswith(around) for test in self.tests for c in test["calls"]):
            around = importing(module)
        own = f"/test_{Path(module).stem.lstrip('_')}"
        ranked = []
        for test in self.tests:
            called, named = place in test["calls"], own in test["test"]
            inside = any(c.startswith(around) for c in test["calls"])
            if inside or named or test["process"]:
                work = len(test["calls"]) * (1 + test["seconds"])
                ranked.append((not called, not named, not inside, work, test))
        ranked.sort(key=lambda each: each[:4])
        near = [each[4] for each in ranked] or self.tests
        first = list(within(near, seconds / 10))
        cases: Counter[str] = Counter()
        turns = []
        for test in near[len(first) :]:
            written = test["test"].partition("[")[0]
            turns.append((test["process"], place not in test["calls"], cases[written]))
            cases[written] += 1
        order = sorted(range(len(turns)), key=turns.__getitem__)
        rest = [near[len(first) + i] for i in order]
        groups = (first, list(within(rest, 0.9 * seconds)))
        return [[test["test"] for test in group] for group in groups if group]


def within(tests: list[dict[str, Any]], seconds: float) -> Iterator[dict[str, Any]]:
    """The first tests that together take less than the given seconds."""
    used = 0.0
    for test in tests:
        used += test["seconds"]
        if used >= seconds:
            return
        yield test


class Chosen:
    """Pytest plugin that runs only the chosen tests or files, in their order."""

    def __init__(self, names: list[str]) -> None:
        self.rank = {name: i for i, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        def rank(item: pytest.Item) -> int | None:
            return self.rank.get(item.nodeid, self.rank.get(item.nodeid.partition("::")[0]))

        items[:] = sorted((item for item in items if rank(item) is not None), key=rank)


def failing(copy: Path, tests: list[str], timeout: float) -> str:
    """The first failing test of a copy, or an empty result; "time" after a timeout.

    Tests run in a fork of this process, which has already imported the slowest modules.
    """
    with tempfile.NamedTemporaryFile("r") as output:
        child = os.fork()
        if not child:
            descriptor = os.open(output.name, os.O_WRONLY)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.setsid()
            os.chdir(copy)
            os.environ.update(PYTHONPATH=str(copy / "src"), PYTHONDONTWRITEBYTECODE="1")
            sys.path.insert(0, str(copy / "src"))
            sys.dont_write_bytecode = True
            files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
            command = ["-x", "-q", "-p", "no:cacheprovider", "-n0", "-m", "not slow", *files]
            try:
                code = int(pytest.main(command, plugins=[Chosen(tests)]))
            except BaseException:  # a fault may break the import of a plugin
                traceback.print_exc()
                code = 1
            sys.stdout.flush()
            os._exit(code)
        until = time.monotonic() + timeout
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > until:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "time"
            time.sleep(0.05)
        named = re.search(r"^(?:FAILED|ERROR) (.+?\.py(?:::.*?)?)(?: - |$)", output.read(), re.M)
        return "" if os.waitstatus_to_exitcode(ended[1]) == 0 else named[1] if named else tests[0]


def copied(tree: Path, copy: Path) -> Path:
    """A copy of a tree, unless there is one."""
    if not copy.exists():
        shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(*UNUSED))
    return copy


def noticed(tree: Path, fault: Fault, groups: list[list[str]], timeout: float) -> tuple[str, str]:
    """The test that detects a fault in the copy of this process, if any, and the changed line."""
    copy = copied(tree, tree.with_name(f"tree-{os.getpid()}"))
    with use_mutation(copy / fault.module, get_operator(fault.operator)(), fault.occurrence) as two:
        before, after = (code.splitlines() for code in two)
        line = next(new.strip() for old, new in zip(before, after, strict=False) if old != new)
        return next(filter(None, (failing(copy, group, timeout) for group in groups)), ""), line


def learn(copy: Path, folder: str, kept: Path) -> Path:
    """The file with the functions that each test of a folder calls, created if absent."""
    file = kept / f"{folder.replace('/', '-')}.jsonl"
    if not file.exists():
        print(f"running {folder} once", flush=True)
        path = os.pathsep.join([str(copy / "src"), str(copy / "tools")])
        part = file.with_suffix(".part")
        part.unlink(missing_ok=True)  # left by an interrupted run
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
        command += ["-p", "covering", "--covering", str(part)]
        command += ["-m", "not slow", folder]
        subprocess.run(command, cwd=copy, env=os.environ | {"PYTHONPATH": path}, check=True)
        part.rename(file)
    return file


def recorded(path: Path | None) -> dict[Fault, bool]:
    """Faults with an outcome in a file."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {Fault(*line["fault"]): bool(line["failed"]) for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(PACKAGES)}; all by default")
    parser.add_argument("--sample", type=int, default=10, help="faults per package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--matching", default="", help="expression that paths of modules match")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of tests for one fault, at most"
    )
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one fault")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--calls", type=Path, help="folder that keeps what tests call")
    parser.add_argument("--record", type=Path, help="file to which outcomes are appended")
    options = parser.parse_args()
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    before = recorded(options.record)
    forks = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        ProcessPoolExecutor(options.jobs, forks) as pool,
    ):
        tree = copied(ROOT, Path(folder) / "tree")
        kept = options.calls or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        for package in options.packages or PACKAGES:
            sources, *tests = PACKAGES[package]
            sample = sampled(sources, options.sample, options.seed, options.matching)
            calls = Calls([learn(tree, each, kept.absolute()) for each in tests])
            print(f"{package}: {len(sample)} faults of seed {options.seed}", flush=True)
            found, noticing, running = 0, {"", "time"}, {}
            for fault in sample:
                if fault in before:
                    found += before[fault]
                    continue
                function = enclosing(ROOT / fault.module, fault.line)
                near = calls.near(fault.module, function, options.seconds)
                running[pool.submit(noticed, tree, fault, near, options.timeout)] = fault
            for outcome in as_completed(running):
                fault, (failed, line) = running[outcome], outcome.result()
                found += bool(failed)
                noticing.add(failed)
                word = "noticed" if failed else "SURVIVED"
                late = "   (ran out of time)" if failed == "time" else ""
                print(f"  {word:8}  {fault.module}:{fault.line}  {line}{late}", flush=True)
                if options.record:
                    entry = {"package": package, "seed": options.seed, "fault": fault}
                    with options.record.open("a") as file:
                        file.write(json.dumps(entry | {"line": line, "failed": failed}) + "\n")
            again = sorted(noticing - {"", "time"})
            if again and (wrong := failing(tree, again, options.timeout)):
                sys.exit(f"{wrong} fails without a fault")
            print(f"{package}: {found} of {len(sample)} noticed", flush=True)


if __name__ == "__main__":
    main()
