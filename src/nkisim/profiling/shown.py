"""``Profile``: the data of a profile with its text and its HTML form."""

from __future__ import annotations

from nkisim.profiling.result import ProfileData
from nkisim.profiling.text import summary


class Profile(ProfileData):
    """The predicted device time of one call of a kernel; its attributes are in ``ProfileData``.

    ``print`` shows it as text, notebooks show it as HTML.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        from nkisim.profiling.page import fragment

        return fragment(self)
