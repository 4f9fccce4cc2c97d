"""The table of the page: ten faults that run in a simulation and are refused by the judge."""

import re

import numpy as np
import pytest

import nkisim
from nkisim.judging import Settings, verdict_on

from ...docs.pages import DOCS
from .judged import KERNELS, QUICK

ROW = re.compile(r"^\| [^|]+ \| [^|]+ \| ([A-Z]\d{3}) \|$", re.MULTILINE)
RULES = {
    "other_python": "L007",
    "other_loop": "L016",
    "too_much": "M009",
    "one_place_for_two": "M013",
    "no_barrier[2]": "C008",
    "never_written": "M001",
    "tail_not_written": "M006",
    "sum_of_integers": "D016",
    "a_wrong_partition": "S004",
    "onto_memset": "M004",
}


# One that is found in the source, one of a core and one of two; a check finds all of them in
# tests/nkisim/test_rules.py.
FAST = ("other_python", "never_written", "no_barrier[2]")
NAMES = [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in RULES]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_refused(name):
    settings = Settings(**QUICK, hostile=False, shapes=False)
    file = KERNELS / "unseen.py"
    verdict = verdict_on(file, name, lambda x: x, settings, ["x=f32[128,64]"])
    assert (verdict.outcome, verdict.faults[0].kind) == ("refused", RULES[name]), verdict


@pytest.mark.filterwarnings("ignore::nkisim.NkiFindingWarning")
@pytest.mark.parametrize("name", RULES)
def test_it_runs_in_a_simulation(name, monkeypatch):
    monkeypatch.syspath_prepend(str(KERNELS))
    nkisim.install()
    try:
        import unseen
    finally:
        nkisim.uninstall()
    kernel = getattr(unseen, name.removesuffix("[2]"))
    chosen = kernel[2] if name.endswith("[2]") else kernel
    assert nkisim.simulate(chosen)(np.ones((128, 64), np.float32)) is not None


def test_the_page_has_these_rules():
    page = (DOCS / "guides" / "let-a-program-write-kernels.md").read_text()
    assert ROW.findall(page) == list(RULES.values())
