#!/usr/bin/env python
"""Write docs/migration.md: the rules of ``nkisim upgrade`` with an example of each.

A test compares the page with the output of this script.

    python tools/gen_migration.py [FOLDER]     FOLDER/migration.md; default: docs
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT / "tests", ROOT / "tools"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from markdown_text import block, join, table  # noqa: E402

from nkisim.upgrade import ERAS, RULES, TARGETS, upgrade_text  # noqa: E402
from nkisim.upgrade.releases import (  # noqa: E402
    MODULES,
    UNLISTED_METHODS,
    era_of,
    parameter_names,
    version_of,
)
from nkisim.upgrade.rules import Era  # noqa: E402
from nkisim.upgrade.source import Source  # noqa: E402
from nkisim.versions import has, names_of  # noqa: E402
from upgrade_examples import rules_with_examples  # noqa: E402

HEAD = """\
# Upgrade older kernels

`nkisim upgrade` rewrites kernels of NKI Beta 1 (`neuronxcc.nki`), Beta 2 (NKI 0.1 and 0.2) and
0.3.0 to 0.6.0 for a newer version, up to 0.7.0. Code in format strings is
rewritten from Python 3.12 on; an older Python reports it.

```sh
nkisim upgrade kernels/ --diff
nkisim upgrade kernels/ --to 0.6 --verify
nkisim upgrade kernels/ --to 0.6 --write
nkisim upgrade kernels/ --check --format json
```

Without `--write` no file changes. Comments, formatting, encoding and line endings stay. A change
is made only where the imports of the file show that a name belongs to NKI. What cannot be
rewritten safely comes first in the report, by rule, with what to do; `--notes` also puts it into
the file as a comment. Then comes what is to be reviewed, then the changes. A second run changes
nothing. A file that is not valid Python is reported and stays as it is. Notebooks are not read, and
links that lead out of a given folder are not followed: each is named.

| option | meaning |
| --- | --- |
| `--from auto` | change what the version of `--to` refuses, see below |
| `--from beta1`, `beta2`, `0.3` to `0.7` | the release of all files |
| `--to 0.3.0`, `0.4` to `0.7` | the version to upgrade to; not older than `--from` |
| `--write` | write the changed files |
| `--diff` | print the changes as a unified diff |
| `--check` | write nothing; exit with status 1 if something is left to do |
| `--notes` | put findings into the text as comments |
| `--verify` | check the result and compare the results of the kernels, see below |
| `--shapes "x=bf16[128,512]"` | arguments of the kernels for `--verify`, as in `nkisim check` |
| `--target` | generations to verify on, as in `nkisim check` |
| `--format json` | the changes and findings of each file, for other programs |

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | with `--write` or `--check`, something is left to do; a file could not be read or written |
| 1 | a verification failed |
| 2 | an error on the command line |

With `--from auto` code that runs in the version of `--to` stays as it is: the file may be written
for it. Only forms that this version refuses are changed or listed. Forms that it deprecates, or
reads with another meaning, are counted at the end: `--from 0.3`, for example, changes or lists
them. A file that imports `neuronxcc.nki` is of Beta 1, and one with an argument or a position that
only Beta 2 has is of Beta 2: there these forms are changed without `--from`.

A pattern on a part of a tensor, `t[0:64, 8:16].ap(...)`, is listed and never changed. 0.3.0 and 0.4
refuse it. From 0.5 on the docstring of `ap` adds the offset to that of the part, as nkisim does,
and AWS's language guide says that the part is ignored: call `ap` on the whole tensor.

## Verification

`--verify` checks the new texts as `nkisim check` does, by the version of `--to`, and lists errors
and warnings. Kernels run if their arguments are known: from `nkisim_examples()` in the file, from
`--shapes`, or from `nt.tensor` annotations and defaults. A file of 0.3.0 or later also runs as it
was, by its own version, and the results are compared bit by bit; where they differ the largest
difference is printed. Kernels without known arguments are listed as only read, with the `--shapes`
that they need, and counted with the reason at the end. With `--write` the files on disk are
verified, without it the texts that would be written. An error, a run that stops and a difference
make the exit status 1.

Some differences are those of the versions: `quantize_mx` computes other scales from 0.5.0 on, for
example. [Differences between NKI versions](design/releases.md) lists them.

## Rules

*Safe* rewrites keep the meaning. *Partial* ones rewrite the forms that are understood, ask for a
review where the old code does not show what was meant, and report the other forms. *Report* rules
only find. *Optional* rules name what a new feature would make simpler, in files of a release that
`--from` names; they leave nothing to do. A rule of a step is used if the step lies between the two
releases."""

STEPS = {
    ("beta1", "0.3.0"): "From Beta 1",
    ("beta2", "0.3.0"): "From Beta 2",
    ("0.3", "0.3.0"): "What the compiler of 0.3.0 lacks",
    ("0.3", "0.4.0"): "From 0.3.0 to 0.4.0",
    ("0.4", "0.5.0"): "From 0.4.0 to 0.5.0",
    ("0.5", "0.6.0"): "From 0.5.0 to 0.6.0",
    ("0.6", "0.7.0"): "From 0.6.0 to 0.7.0",
}

FORMS = """\
## Constructs by version

Old forms, from the rules: *yes* works, *deprecated* works and will be removed, *other meaning*
works and does something else, *no* is refused or no longer does what it did, *-* is not known."""

NAMES = """\
### Names and parameters

Names, parameters and methods of tensors that are not in all of 0.3.0 to 0.7.0, from the
documentation of the versions. The betas have no such list."""

SHORT = {"nki": "nki", "nki.collectives": "ncc", "nki.isa": "nisa", "nki.language": "nl"}

# What neither the rules nor the lists of names have, from the release notes: old forms that work
# again, that were only deprecated at first, that a later version brought, that never worked.
AGAIN = {"MG-347": "0.6.0"}
UNTIL = {r.same_as: r.to for r in RULES.values() if r.same_as}
FIRST = dict.fromkeys(("MG-407a", "MG-501", "MG-502", "MG-609a"), "0.4.0") | {"MG-712": "0.6.0"}
NEVER = {"MG-605"}

IMPORTS = """\
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
"""


def page() -> str:
    """Return the text of the page."""
    rules = rules_with_examples()
    parts = [HEAD]
    for step, title in STEPS.items():
        rows = [(r.id, r.title, r.kind) for r in rules if (r.since, r.to) == step]
        parts += [f"### {title}", table(("rule", "change", "kind"), rows)]
    columns = ("Beta 1", "Beta 2", *TARGETS)
    shown = [r for r in rules if not r.same_as and r.id not in NEVER and r.kind != "optional"]
    forms = [_form_row(rule) for rule in shown]
    parts += [FORMS, table(("rule", "old form", *columns), forms)]
    parts += [NAMES, table(("name", *TARGETS), _name_rows())]
    parts.append("## Examples")
    for rule in rules:
        parts += [f"### {rule.id}: {rule.title}", block("diff", _difference(rule))]
    return join(parts)


def _difference(rule: SimpleNamespace) -> str:
    before = rule.before.splitlines()
    if not rule.after:
        return "\n".join(f"! {line}".rstrip() for line in before)
    rows = difflib.ndiff(before, rule.after.splitlines())
    return "\n".join(row.rstrip() for row in rows if not row.startswith("?"))


def _form_row(rule: SimpleNamespace) -> tuple[str, ...]:
    first = FIRST.get(rule.id) or version_of(era_of(Source(IMPORTS + rule.before))) or TARGETS[0]
    return (rule.id, f"`{_old_form(rule)}`", *(_state(rule, era, first) for era in ERAS))


def _old_form(rule: SimpleNamespace) -> str:
    """Return the line of the example that the rule is about."""
    before = rule.before.splitlines()
    if rule.after:
        return [row for row in before if row not in rule.after.splitlines()][-1].strip()
    outcome = upgrade_text(IMPORTS + rule.before + "\n", rule.since, rule.to)
    found = outcome.findings + outcome.options
    line = next(finding.line for finding in found if finding.rule == rule.id)
    return before[line - 1 - IMPORTS.count("\n")].strip()


def _state(rule: SimpleNamespace, era: Era, first: str) -> str:
    """Return whether the old form of a rule works in a release; ``first`` is where it appears."""
    version = version_of(era)
    gone = "no" if rule.certain else "other meaning"
    if version is None:
        if rule.since == "beta1" and era == "beta2":
            return gone if rule.id.startswith("MG-1") else "-"
        return "yes" if era == rule.since else "-"
    if version < rule.to:
        return "yes" if version >= first else "no"
    if rule.deprecated or version < (rule.refused or UNTIL.get(rule.id, rule.to)):
        return "deprecated"
    again = rule.until or AGAIN.get(rule.id, "")
    return "yes" if again and version >= again else gone


def _name_rows() -> Iterator[tuple[str, ...]]:
    """Yield the names, parameters and methods that some versions lack, with the versions."""
    for module in MODULES:
        names = {n for v in TARGETS for kind in names_of(v)[module].values() for n in kind}
        for name in sorted(names):
            there = [has(version, module, name) for version in TARGETS]
            if not all(there):
                yield _row(f"{SHORT[module]}.{name}", there)
                continue
            lists = [parameter_names(version, module, name) for version in TARGETS]
            for parameter in dict.fromkeys(p for names in lists for p in names):
                if not all(parameter in names for names in lists):
                    here = [parameter in names for names in lists]
                    yield _row(f"{SHORT[module]}.{name}({parameter}=)", here)
    tensors = [names_of(v)["nki.language"]["classes"]["NkiTensor"]["methods"] for v in TARGETS]
    for method in sorted({m for methods in tensors for m in methods} - UNLISTED_METHODS):
        there = [method in methods for methods in tensors]
        if not method.startswith("_") and not all(there):
            yield _row(f"tensor.{method}()", there)


def _row(name: str, there: list[bool]) -> tuple[str, ...]:
    return (f"`{name}`", *("yes" if one else "no" for one in there))


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"
    (folder / "migration.md").write_text(page(), encoding="utf-8")
