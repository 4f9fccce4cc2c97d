# Written by tools/gen_stubs.py.
from nkisim.isa import *
