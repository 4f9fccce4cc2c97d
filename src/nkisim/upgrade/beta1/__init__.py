"""The rules from Beta 1 (``neuronxcc.nki``) to Beta 2, and the ways around gaps of 0.3.0."""

from nkisim.upgrade.beta1 import (
    allocators,
    blocks,
    constructs,
    dynamic,
    entry,
    indexing,
    instructions,
    masks,
    names,
    operators,
    patterns,
    zeros,
)
