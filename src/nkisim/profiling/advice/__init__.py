"""Advice: what to change in a kernel, ranked by the time that a schedule of the change saves.

Each rule looks for its condition in the program, changes the program as the code that it shows
would, and schedules the changed program; the difference is the promised gain.
"""

from nkisim.profiling.advice.ranking import advise

__all__ = ["advise"]
