"""The rules from Beta 1 (``neuronxcc.nki``) to Beta 2."""

from nkisim.upgrade.beta1 import names

__all__ = ["names"]
