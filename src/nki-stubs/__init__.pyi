# Written by tools/gen_stubs.py.
from nkisim import collectives as collectives
from nkisim import isa as isa
from nkisim import jit as jit
from nkisim import language as language
from nkisim import simulate as simulate
from nkisim import typing as typing
