"""Count the pieces of code in findings: shown, tried, and failed when they are pasted.

    python tools/count_code.py [NAME ...]

Checks the bad and good kernels of all rules on every generation, or those with these names, and
pastes each piece. Ends with status 1 if one fails, or if fewer than 80 % of the rules that have
code show some.
"""

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from coded_files import cases, pieces_of

_LEAST_SHARE = 0.8


def main(names: list[str]) -> int:
    chosen = {name: case for name, case in cases().items() if not names or name in names}
    start, found = time.process_time(), {}
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nothing:
        for name, case in chosen.items():
            with contextlib.redirect_stdout(nothing):
                found[name] = pieces_of(case, Path(folder, f"{name}.py"))
    for name, pieces in found.items():
        for rule in pieces.failed:
            print(f"{name}: the code for {rule} fails")
    known, shown, tried, failed = (
        [rule for pieces in found.values() for rule in pieces[kind]] for kind in range(4)
    )
    print(f"{len(found)} kernels, {time.process_time() - start:.0f} s of a processor")
    print(
        f"pieces: {len(known)} known, {len(shown)} shown, {len(tried)} tried, {len(failed)} failed"
    )
    left_out = sorted(set(known) - set(shown))
    share = 1 - len(left_out) / max(len(set(known)), 1)
    print(f"rules: {len(set(known))} have code, {len(set(shown))} show some, {share:.0%}")
    print(f"without: {' '.join(left_out) or 'none'}")
    return int(bool(failed) or share < _LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
