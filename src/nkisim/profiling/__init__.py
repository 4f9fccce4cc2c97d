"""Predicted device time of kernels: costs, schedule, profile, advice, pictures."""

from nkisim.profiling.entry import Descriptors, ProfileError, profile
from nkisim.profiling.result import Advice, LineTime, MemoryUse, Profile, Span

__all__ = [
    "Advice",
    "Descriptors",
    "LineTime",
    "MemoryUse",
    "Profile",
    "ProfileError",
    "Span",
    "profile",
]
