"""Changes of source files: byte edits, diffs, drafts, and files that are read and written whole.

Used by ``nkisim upgrade`` and ``nkisim check --fix``.
"""

from nkisim.rewriting.edits import (
    Edit,
    NotPythonError,
    applied,
    disjoint,
    edited,
    loses_comment,
    unified_diff,
)
from nkisim.rewriting.pasting import NotPastedError, code_with_comments, edits_of
from nkisim.rewriting.sources import (
    SourceError,
    SourceText,
    TextLoader,
    compiled,
    drafts,
    read_source,
    write_source,
)
from nkisim.rewriting.statements import (
    after,
    before,
    removed,
    reordered,
    replaced,
    with_arguments,
)
