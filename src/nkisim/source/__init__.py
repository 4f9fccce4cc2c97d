"""Reading of source: its nodes and their places, what its names and calls are, and its values.

The text is read, not run. Changes of it are in ``nkisim.rewriting``.
"""

from nkisim.source.effects import Effect, Effects
from nkisim.source.expressions import (
    COMPARISONS,
    OPERATORS,
    base_name,
    expression,
    extent_of,
    indices,
    is_none,
    is_simple,
    literal_integer,
    names_in,
    number,
    rewritten,
    string,
)
from nkisim.source.files import (
    Definition,
    File,
    definition_of,
    raise_if_unreadable,
    with_parameters,
)
from nkisim.source.kinds import LOOPS, Kinds
from nkisim.source.meaning import (
    FileGlobals,
    Globals,
    LiveGlobals,
    Meaning,
    called,
    file_globals,
    meaning_of,
)
from nkisim.source.names import (
    OLD_PACKAGE,
    RANGES,
    SHORT_NAMES,
    Argument,
    Names,
    nki_arguments,
    range_of,
    tensor_functions,
    writes_tile,
    written_operands,
)
from nkisim.source.positions import EXACT_IN_FORMAT_STRINGS, Lines
from nkisim.source.scopes import Assignment, Function, Scope
from nkisim.source.statements import Statement
