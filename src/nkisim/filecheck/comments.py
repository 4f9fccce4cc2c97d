"""Comments of a file that silence nothing."""

from __future__ import annotations

import linecache

from nkisim.checks import source_rules
from nkisim.diagnostics import CHECKED, Finding, Place
from nkisim.diagnostics.ignores import comments_of
from nkisim.diagnostics.ledger import Ledger
from nkisim.filecheck.rules import UNUSED_IGNORE
from nkisim.filecheck.settings import CheckSettings


def unused_ignores(
    file: str, found: Ledger, settings: CheckSettings, all_ran: bool
) -> list[Finding]:
    """Return the comments of a file that suppress nothing, as far as that is decidable."""
    of_source = source_rules(alone=True)
    used = {(line, rule) for name, line, rule in found.silenced if name == file}
    unused = []
    for line, ids in comments_of("".join(linecache.getlines(file))):
        place = Place(file, line)
        if not ids:
            message = "the comment names no rule, and silences nothing"
            fix = "name the rule: # nkisim: ignore[M004]"
            unused.append(Finding(UNUSED_IGNORE, message, place, fix=fix))
        for name in ids:
            if any(at == line and rule.startswith(name) for at, rule in used):
                continue
            known = [rule for rule in CHECKED if rule.startswith(name)]
            sure = not known or all_ran or all(rule in of_source for rule in known)
            everywhere = len(settings.targets) > 1 or not known
            if sure and everywhere and all(settings.selection.includes(r) for r in known):
                message = f"nothing on this line breaks {name}"
                message += "" if known else ", which is no rule"
                fix = f"remove {name} from the comment"
                unused.append(Finding(UNUSED_IGNORE, message, place, operand=name, fix=fix))
    return unused
