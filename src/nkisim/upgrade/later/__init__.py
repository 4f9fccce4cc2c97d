"""The rules from 0.3.0 to later versions, by step."""

from nkisim.upgrade.later import loops, nki04, nki05, nki06, nki07, positions
