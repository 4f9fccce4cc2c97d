"""``python -m nkisim script.py``: the command line without its installed script."""

from nkisim.cli import main

if __name__ == "__main__":
    main()
