# Written by tools/gen_stubs.py.
from nkisim.language import *
