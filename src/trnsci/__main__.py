"""``python -m trnsci`` is the command ``trnsci``."""

from trnsci.cli import main

main(prog_name="trnsci")
