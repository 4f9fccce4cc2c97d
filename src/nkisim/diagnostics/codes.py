"""Codes of the compiler and the runtime, as users wrote them down: causes, rules, ways out.

The facts come from public notes and issues. A code without a cause or without a rule says so; one
code can stand for several faults, which the words of its message tell apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Code(NamedTuple):
    """One fault behind a code.

    Attributes:
        name: The code, without its prefix ``NCC_``.
        seen: What users saw, or which part reports it.
        rules: Ids of the rules that find the fault.
        way: What to do; for a code without a rule also why there is none.
        words: A part of the message that only this fault of the code has; empty if it has one.
    """

    name: str
    seen: str
    rules: tuple[str, ...] = ()
    way: str = ""
    words: str = ""


_OF_GRAPHS = (
    *("EOOM002", "ESPP004", "EVRF001", "EVRF009", "EVRF013", "EVRF029", "EVRF051", "EVRF066"),
    *("IBCG901", "IFML902", "IIIV902", "ILIN902", "IMGN901", "IRPX902", "ISMP902", "ITEN404"),
    "ITRF901",
)
_UNKNOWN = (
    *("IBIR010", "IBIR182", "IBIR229", "IBIR243", "IBIR605", "INKI003", "ISCH900", "IXCG965"),
    "IXCG967",
)
_FAULTS = (
    *(
        Code(n, "about a graph, not about a kernel", (), "compile each kernel alone")
        for n in _OF_GRAPHS
    ),
    *(
        Code(n, "named in public, without its cause", (), "no rule: no cause is known")
        for n in _UNKNOWN
    ),
    Code("IBIR030", "a scalar_offset outside of .ap", (), "pass scalar_offset to .ap: no rule"),
    Code("IBIR040", "an address of run time of an SBUF operand", ("M050", "M053")),
    Code("IBIR098", "hwdge with a cast", ("A002",)),
    Code("IBIR158", "a first step of .ap that is not the partition pitch", ("S022",)),
    Code("IBIR440", "allocation in DRAM fails for an operand of a collective", ("C044",)),
    Code("IBIR530", "nc_matmul_mx on trn2", ("A033",)),
    Code("IBIR829", "an address of run time of an SBUF operand", ("M050", "M053")),
    Code("IGCA090", "an output that nothing has stored", ("M006",)),
    Code("IGCA103", "a tile filled by a skipping DMA inside a loop", ("M051",)),
    Code(
        "IINAR001",
        "an instruction that the engine cannot encode, such as a matmul into a wrong partition",
        (),
        "look at the shapes and first partitions of its operands: its checks have several rules",
    ),
    Code(
        "ILLC059", "no memory of a collective's operand on core 1: it runs on one core", ("C039",)
    ),
    Code(
        "INLA001",
        "an address of run time of an SBUF operand",
        ("M050", "M053"),
        "",
        "dynamic access",
    ),
    Code(
        "INLA001",
        "a collective reads or writes an argument or an output",
        ("C043",),
        "",
        "io tensors",
    ),
    Code("INLA001", "an operand beyond SBUF", ("S021",), "", "out of bound"),
    Code(
        "INLA001",
        "more than 8 activation tables",
        (),
        "use fewer functions; which ones share a table is unknown, so there is no rule",
        "activation tables",
    ),
    Code("INLA001", "dma_transpose from HBM to HBM", ("M024",), "", "checkdmatranspose"),
    Code("INKI016", "an assertion of the kernel itself fails", (), "read the assertion's text"),
    Code("ISCH714", "accumulation groups of one PSUM tensor interleave", ("M052",)),
    Code("ISCH715", "accumulation groups of one PSUM tensor interleave", ("M052",)),
    Code("ISCH719", "the scheduler finds no topological order", (), "look for edges in a circle"),
    Code("IXCG856", "nc_match_replace8 on other than 8 values", ("S048",)),
    Code("IXCG863", "nl.mod, which no engine has", ("D014",)),
    Code("IXCG864", "nl.divide in tensor_scalar", ("D013",), "", "divide"),
    Code("IXCG864", "a copy between partitions that do not start alike", ("S004",)),
    Code("IXGM002", "the two cores have different basic blocks", ("C040", "C041")),
    Code(
        "IXLV002",
        "names of core barriers differ: a kernel with sendrecv or core_barrier is called twice",
        (),
        "call it once in a graph; the graph is not in the kernel, so there is no rule",
    ),
)
CODES = tuple(sorted(_FAULTS))
"""Every fault on the page, in the order of the codes."""

WITHOUT_CODE = (
    ("operand #3 does not dominate this use", "compiled loops inside compiled loops, on trn1"),
    ("", "the Tensor engine writes PSUM that was allocated outside a compiled loop"),
    ("", "the device hangs: compiled loops of the two cores differ in their iterations (C042)"),
)
"""Faults that users saw without a code: their words, and what they were."""

_NAME = re.compile(r"\b(?:NCC_)?([EI][A-Z]{3,4}\d{3})\b")
_LINE = re.compile(r"([^\s\"'(),:]+\.py)(?::|\", line |\(|, line )(\d+)")
_NEAR = 3
"""Lines around a code that may have the words and the line of its fault."""


class Met(NamedTuple):
    """A code in a log: its line there, the faults it may stand for, and the line of the kernel."""

    name: str
    log_line: int
    faults: tuple[Code, ...]
    place: str


def faults_of(name: str, text: str = "") -> tuple[Code, ...]:
    """Return the faults behind a code; those alone whose words a text has, if it has some."""
    plain = name.upper().removeprefix("NCC_")
    found = tuple(code for code in CODES if code.name == plain)
    worded = tuple(code for code in found if code.words and code.words in text.lower())
    return worded or (tuple(code for code in found if not code.words) if text else ()) or found


def is_code(text: str) -> bool:
    """Return whether a text is the name of a code, known or not."""
    return _NAME.fullmatch(text.strip().upper()) is not None


def codes_in(log: str) -> Iterator[Met]:
    """Yield the codes of a log, each with its words once, in the order of the log."""
    lines, met = log.splitlines(), set()
    for number, line in enumerate(lines):
        for name in _NAME.findall(line):
            near = lines[max(0, number - _NEAR) : number + _NEAR + 1]
            faults = faults_of(name, "\n".join([line, *lines[number + 1 : number + _NEAR + 1]]))
            places = [":".join(found) for text in (line, *near) for found in _LINE.findall(text)]
            key = (name, faults, places[0] if places else "")
            if key not in met and (faults or f"NCC_{name}" in line):
                met.add(key)
                yield Met(name, number + 1, faults, places[0] if places else "")
