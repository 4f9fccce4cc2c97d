"""Names of the published trnrand that other names of this package replace.

``from trnrand import NAME`` accepts them; ``INSTEAD`` has their replacements.
"""

from trnrand.distributions.replaced import (
    exponential_into,
    normal_into,
    standard_normal,
    uniform_into,
)
from trnrand.programs import GeneratorProgram

__all__ = [
    "GeneratorProgram",
    "exponential_into",
    "normal_into",
    "standard_normal",
    "uniform_into",
]

INSTEAD = {
    "GeneratorProgram": "one call with out= per buffer, and one generator for all of them",
    "exponential_into": "exponential(out=buf)",
    "normal_into": "normal(out=buf)",
    "standard_normal": "normal(...), with its default parameters",
    "uniform_into": "uniform(out=buf)",
}
"""The replacement of each name."""
