"""What is no rule has a reason, and only what is no rule."""

from nkisim.diagnostics import RULES
from nkisim.diagnostics.undecidable import SPOKEN_FOR, UNDECIDABLE


def test_what_is_undecidable_is_no_rule_and_has_one_reason():
    assert not set(UNDECIDABLE) & set(RULES)
    assert not set(SPOKEN_FOR) & set(RULES)
    assert not set(UNDECIDABLE) & set(SPOKEN_FOR)
    assert all(len(reason) > 20 for reason in UNDECIDABLE.values())


def test_rules_that_speak_for_a_fault_exist():
    assert {rule for rules in SPOKEN_FOR.values() for rule in rules} <= set(RULES)
