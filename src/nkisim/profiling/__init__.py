"""Predicted device time of kernels: costs, schedule, profile, advice, pictures."""

from nkisim.profiling.entry import Descriptors, ProfileError, profile
from nkisim.profiling.result import Advice, LineTime, MemoryUse, Span, Together
from nkisim.profiling.shown import Profile
