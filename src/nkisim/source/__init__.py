"""Reading of source: the nodes of a module and their places, and what its names mean.

The text is read, not run. Changes of it are in ``nkisim.rewriting``.
"""

from nkisim.source.expressions import (
    arguments_of,
    is_none,
    is_simple,
    literal_integer,
    number,
    string,
)
from nkisim.source.names import OLD_PACKAGE, SHORT_NAMES, Argument, Names
from nkisim.source.nodes import Nodes
from nkisim.source.positions import EXACT_IN_FORMAT_STRINGS, Lines, Parentheses
from nkisim.source.scopes import Assignment, Function, Scope, Tree

__all__ = [
    "EXACT_IN_FORMAT_STRINGS",
    "OLD_PACKAGE",
    "SHORT_NAMES",
    "Argument",
    "Assignment",
    "Function",
    "Lines",
    "Names",
    "Nodes",
    "Parentheses",
    "Scope",
    "Tree",
    "arguments_of",
    "is_none",
    "is_simple",
    "literal_integer",
    "number",
    "string",
]
