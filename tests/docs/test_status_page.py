"""The validation table of the repository has a row for every kernel of the libraries."""

import re
from pathlib import Path

from trnsci.core.evidence import kernels_of
from trnsci.validation import LIBRARIES

PAGE = Path(__file__).parents[2] / "docs" / "status.md"


def test_the_table_has_the_kernels_of_the_libraries():
    shown = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        library, _, rest = part.partition("\n")
        shown[library] = re.findall(r"^\| `(\w+)` \|", rest, re.MULTILINE)
    del shown["Furthest from their bound"]
    known = {library: [kernel.name for kernel in kernels_of(library)] for library in LIBRARIES}
    assert shown == known, "run `trnsci validate --quick`, then tools/gen_status.py"
