"""Trials of edits of a kernel's source: made in memory, run, checked, compared and profiled."""

from nkisim.trials.arguments import Arguments
from nkisim.trials.editions import KernelFile, kernel_file
from nkisim.trials.running import MOST_TRIALS, Progress, Trials, Tried
