"""The reference pages: one per rule and per instruction, each complete."""

import dis
import importlib.util
import inspect
import linecache
import pkgutil
import re
import sys
from functools import cache

import pytest

import kernels
import nkisim
import nkisim.isa
import nkisim.profiling.advice  # declares the rules of advice
from each_case import each_case
from kernels.told import recorded
from nkisim.diagnostics import RULES
from nkisim.diagnostics.rules import REPORTED_AS, UNDECIDABLE
from nkisim.spec import INSTRUCTIONS
from nkisim.versions import names_of
from releases import VERSIONS
from scripts import loaded

from .pages import DOCS, ROOT, Page

DATA = ROOT / "tests" / "data"
BY_HAND = {
    *("get_nc_sub_version", "get_nc_version"),
    *("register_alloc", "register_load", "register_move", "register_store"),
}
BESIDE = {
    "C034",
    "C035",
    "C036",
    *(f"C{number:03}" for number in range(37, 47)),
    "D049",
    "D050",
    "D051",
    *("D052", "D053", "D054"),
    "L068",
    "L069",
    *("L070", "L071", "L072", "L073"),
    *("M049", "M050", "M051", "M052", "M053"),
    *("S072", "S073"),
    # advice of nkisim.profile: the kernel has no fault
    *(f"P{number:03}" for number in range(1, 17) if number != 5),
}  # rules that the list does not have


for _module in pkgutil.iter_modules(kernels.__path__):
    importlib.import_module(f"kernels.{_module.name}")
TWINS_OF = {}
for _twin in kernels.TWINS:
    TWINS_OF.setdefault(_twin.rule, []).append(_twin)


@pytest.fixture(scope="module")
def generator():
    """tools/gen_catalogue.py, which extends ``sys.path``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        module = loaded(ROOT / "tools" / "gen_catalogue.py")
        module.import_everything()
        yield module


@pytest.fixture(scope="module")
def instruction_folder(generator, tmp_path_factory):
    """A folder with the pages of instructions, next to a link to those of the rules."""
    home = tmp_path_factory.mktemp("docs")
    (home / "rules").symlink_to(DOCS / "rules")
    generator.write(home / "instructions", generator.instruction_pages())
    return home / "instructions"


# Some rules; tests/nkisim/test_rules.py compares the findings of all with what is recorded.
@each_case("id", sorted(RULES)[::24])
def test_the_page_of_a_rule_is_the_one_that_is_generated(id, generator):
    page = (DOCS / "rules" / f"{id}.md").read_text()
    assert generator.rule_page(RULES[id], TWINS_OF.get(id, [])) == page, "run `make docs`"


def test_the_index_of_rules_is_the_one_that_is_generated(generator):
    assert (DOCS / "rules" / "index.md").read_text() == generator.rule_index(), "run `make docs`"


@each_case("id", TWINS_OF)
def test_rule_pages_show_what_is_recorded(id, generator):
    """Each page has the code of its twins, and what data/findings.txt has of their findings."""
    page = (DOCS / "rules" / f"{id}.md").read_text()
    for twin in TWINS_OF[id]:
        for kernel in ((*twin.parts, twin.bad), (twin.good,)):
            code = generator.example_of(kernel, decorated=not twin.on_host).text
            assert code.replace("# here", f"# {id} is found here") in page, "run `make docs`"
        assert all(words in page for words in recorded_words(twin)), "run `make docs`"


def recorded_words(twin):
    """Yield the message and the fix that are recorded of a twin, without numbers of lines."""
    for finding in recorded(twin, twin.targets[0]).split("\n\n"):
        if f"[{twin.rule}]" in finding.partition("\n")[0]:
            _, message, *rest = finding.splitlines()
            fixes = [line.removeprefix("fix: ") for line in rest if line.startswith("fix: ")]
            for words in (message, *fixes):
                yield from re.split(r"(?:line |\w+\.py:)[-+]?\d+", words)
            return


@pytest.mark.slow
def test_the_pages_in_the_repository_are_those_that_are_generated(tmp_path, generator):
    """``make docs`` writes them. The other tests read them in the repository."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "GONE.md").write_text("of an earlier run\n")
    generator.main(tmp_path)
    made = {path.name: path.read_text() for path in (tmp_path / "rules").iterdir()}
    kept = {path.name: path.read_text() for path in (DOCS / "rules").iterdir()}
    assert set(kept) == set(made), "run `make docs` and commit docs/rules"
    assert [name for name in made if kept[name] != made[name]] == [], "run `make docs`"


def test_every_rule_and_every_instruction_has_a_page(instruction_folder):
    rules = {path.stem for path in (DOCS / "rules").iterdir()}
    assert rules == {*RULES, "index"}, "run `make docs` and commit docs/rules"
    assert {path.stem for path in instruction_folder.iterdir()} == {
        *INSTRUCTIONS,
        *BY_HAND,
        "index",
    }


def test_the_catalogue_covers_the_known_faults(capsys):
    """Ids in code, on pages and in the list of faults are the same but for those not built."""
    ids = set((DATA / "nki-0.3.0-fault-ids.txt").read_text().split())
    undecidable, others = set(UNDECIDABLE), set(REPORTED_AS)
    pages = {path.stem for path in (DOCS / "rules").glob("*.md")} - {"index"}
    with capsys.disabled():
        print(
            f"\nfaults: {len(ids)}; with a rule: {len(ids & set(RULES))}, not decidable on a CPU: "
            f"{len(undecidable)}, found under another id: {len(others)}"
        )
    assert len(ids) == 345
    unlisted = sorted(set(RULES) - ids - BESIDE)
    assert not unlisted, f"add to BESIDE what is not in the list of known faults: {unlisted}"
    assert set(RULES) >= BESIDE
    assert not ids & BESIDE
    assert pages == set(RULES)
    assert ids == (ids & set(RULES)) | undecidable | others
    assert not (undecidable | others) & set(RULES)
    assert not undecidable & others
    assert all(len(reason) > 20 for reason in UNDECIDABLE.values())
    assert {rule for rules in REPORTED_AS.values() for rule in rules} <= set(RULES)


def test_every_link_leads_to_a_generated_page(instruction_folder):
    pages = [*instruction_folder.parent.glob("*/*.md")]
    links = [(path, link) for path in pages for link in Page.read(path).links]
    assert [link for path, link in links if not (path.parent / link).is_file()] == []
    assert len(links) > len(pages)


def test_rule_pages_show_what_is_found_and_both_kernels():
    for id, rule in RULES.items():
        page = Page.read(DOCS / "rules" / f"{id}.md")
        prose = "\n".join(page.prose)
        assert prose.startswith(f"# {id} {rule.slug}\n")
        assert rule.checks in prose.replace("\\|", "|")
        assert rule.severity in prose
        said = [block.text for block in page.blocks if block.info == ["text"]]
        assert len(said) == len(TWINS_OF.get(id, []))
        assert all(f"[{id}]" in text or text.startswith(f"{id} ") for text in said)


@pytest.fixture(scope="module")
def nki():
    """``import nki`` is served by nkisim."""
    nkisim.install()
    yield
    nkisim.uninstall()


@each_case("id", TWINS_OF)
def test_kernels_of_rule_pages_run_as_they_are_shown(id, nki, tmp_path):
    """Each is a file that needs nothing of this repository, and the finding is on its line.

    tests/nkisim/test_rules.py runs the twins; what is not the same code on the page runs here.
    """
    page = Page.read(DOCS / "rules" / f"{id}.md")
    files = [block.text for block in page.blocks if block.info == ["python"]]
    said = [block.text for block in page.blocks if block.info == ["text"]]
    for twin, bad, text, good in zip(TWINS_OF[id], files[::2], said, files[1::2], strict=True):
        if twin.on_host:
            continue
        marked = [i for i, line in enumerate(bad.splitlines(), 1) if "is found here" in line]
        assert any(re.search(rf"kernel\.py:{line}\b", text) for line in marked)
        if not is_shown(twin.bad, bad):
            found = checked(twin, twin.bad.__name__, bad, twin.inputs, tmp_path)
            assert {line for rule, line in found if rule == id}.intersection(marked)
        if not is_shown(twin.good, good):
            found = checked(twin, twin.good.__name__, good, twin.fixed, tmp_path)
            assert id not in {rule for rule, _ in found}


def is_shown(kernel, text):
    """Whether a file defines a kernel and all that it uses as the tests do."""
    module = {"__name__": "kernel"}
    exec(compile(text, "kernel.py", "exec"), module)
    return is_same(inspect.unwrap(module[kernel.__name__]), kernel, set())


def is_same(shown, tested, seen):
    """Whether two functions have equal code, and their global names equal meanings."""
    if not inspect.isfunction(shown) or not inspect.isfunction(tested):
        return shown is tested or (type(shown), repr(shown)) == (type(tested), repr(tested))
    if shown in seen:
        return True
    seen.add(shown)
    defaults = [repr((f.__defaults__, f.__kwdefaults__)) for f in (shown, tested)]
    if defaults[0] != defaults[1] or instructions(shown.__code__) != instructions(tested.__code__):
        return False
    return all(
        name in shown.__globals__
        and is_same(shown.__globals__[name], tested.__globals__[name], seen)
        for name in global_names(tested.__code__).intersection(tested.__globals__)
    )


@cache
def global_names(code):
    """The names of globals in code, and in functions that it defines."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    return names.union(*(global_names(c) for c in code.co_consts if inspect.iscode(c)))


def instructions(code):
    """What code does, without its place."""
    inner = [instructions(c) if inspect.iscode(c) else (type(c), c) for c in code.co_consts]
    named = code.co_names, code.co_varnames, code.co_freevars
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_code, code.co_exceptiontable, named, counts, inner


def checked(twin, name, text, inputs, folder):
    """The rules and lines of what a check finds, or of the advice of a profile."""
    # Each in a folder of its own: bytecode is found by the time and size of a file.
    file = folder / name / "kernel.py"
    file.parent.mkdir()
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("kernel", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = module  # where the sources of classes are looked up
    try:
        spec.loader.exec_module(module)
        linecache.checkcache(str(file))
        kernel = getattr(module, name)
        kernel = kernel if twin.cores is None else kernel[twin.cores]
        if twin.advised:
            advice = nkisim.profile(kernel, "gen3")(*twin.arguments(inputs)).advice
            return [(piece.rule, piece.line) for piece in advice]
        check = nkisim.check(kernel, target=twin.targets[0], ranks=twin.ranks, **twin.options)
        return [(f.rule.id, f.line) for f in check(*twin.arguments(inputs))]
    finally:
        del sys.modules["kernel"]


def test_no_page_names_a_place_on_this_machine(instruction_folder):
    for path in instruction_folder.parent.glob("*/*.md"):
        assert str(ROOT) not in path.read_text()


def test_rule_pages_tell_what_each_level_does():

    def rows(id):
        prose = Page.read(DOCS / "rules" / f"{id}.md").prose
        cells = [line.strip("| ").split(" | ") for line in prose if line.startswith("| ")]
        return {row[0]: row[1] for row in cells if len(row) == 2}

    assert rows("S028")["`simulate`"] == "raises"
    assert rows("M001")["`simulate`"] == "records it and goes on"
    assert rows("M001")["`strict`"] == "raises"
    assert rows("D019")["`strict`"] == "records it and goes on"
    assert rows("D042")["`simulate`"] == "does not look for it"
    assert rows("A020")["outside a kernel"] == "warns"
    assert rows("P001")["`profile`"].startswith("has advice")
    assert rows("A019")["outside a kernel"] == "raises"


@each_case("name", INSTRUCTIONS)
def test_instruction_pages_show_the_declaration(name, instruction_folder):
    declared = INSTRUCTIONS[name]
    page = Page.read(instruction_folder / f"{name}.md")
    prose = "\n".join(page.prose)
    calls = [block.text for block in page.blocks if f"nisa.{name}(" in block.text][:-1]
    shown = "".join("".join(calls).split())
    for parameter in declared.parameters:
        assert parameter in shown
    versions = [v for v in VERSIONS if name in names_of(v)["nki.isa"]["functions"]]
    written = {names_of(v)["nki.isa"]["functions"][name] for v in versions}
    assert len(calls) == len(written)
    assert (f"since NKI {versions[0]}" in prose) or versions[0] == VERSIONS[0]
    for operand in declared.operands:
        assert f"| `{operand}` |" in prose
    for parameter, said in declared.meanings.items():
        assert f"- `{parameter}`: {said.replace('``', '`')}\n" in prose
    for constraint in {c for v in versions for c in declared.at(v).require}:
        assert constraint.says in prose.replace("\\|", "|")
        assert all(f"[{rule.id}](../rules/{rule.id}.md)" in prose for rule in constraint.rules)
    assert declared.source in prose
    assert str(declared.cost) in prose
    called, printed = page.blocks[-2:]
    assert f"nisa.{name}(" in called.text
    assert printed.text.strip()


def test_examples_print_what_is_shown_wherever_they_run(instruction_folder, tmp_path, monkeypatch):
    """The blocks of a page are a file of their own, which needs nothing of this repository."""
    monkeypatch.chdir(tmp_path)
    for name in ("nc_matmul", "quantize_mx", "sendrecv", "iota"):
        page = Page.read(instruction_folder / f"{name}.md")
        page.blocks = page.blocks[-2:]
        page.run()


def test_dtypes_are_those_that_the_rules_leave(instruction_folder):

    def dtypes(name, operand):
        prose = Page.read(instruction_folder / f"{name}.md").prose
        (row,) = (line for line in prose if line.startswith(f"| `{operand}` |"))
        return row.split(" | ")[3]

    # D002: products are of floats. D037 and D032: scales are bytes, gathered places are words.
    assert "int" not in dtypes("nc_matmul", "stationary")
    assert dtypes("nc_matmul_mx", "stationary_scale") == "uint8"
    assert dtypes("nc_n_gather", "indices") == "uint32"
    assert dtypes("activation", "scale") == "float32"
    assert dtypes("iota", "dst").startswith("every")
