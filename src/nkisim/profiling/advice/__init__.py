"""Advice: changes of a kernel that have been tried, ranked by the time that they save.

Each rule looks for its condition in the program and its source, and edits the source. A trial
profiles, runs and checks the edited kernel; the gain is the difference of the two predictions.
"""

from nkisim.profiling.advice.search import advise

__all__ = ["advise"]
