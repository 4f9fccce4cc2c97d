"""Coverage: which kernel computes a public function, for each dtype and level of precision."""

from trnsci.coverage.survey import Cell, Line, Outcome, lines
from trnsci.coverage.table import FORMATS, WORDS, render, summary

__all__ = ["FORMATS", "WORDS", "Cell", "Line", "Outcome", "lines", "render", "summary"]
