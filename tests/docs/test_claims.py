"""Pages state no factors of speed: those are on the benchmark page, which is computed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md"]
PAGES += [
    page
    for folder in ("start", "guides", "libraries", "kernels")
    for page in sorted((ROOT / "docs" / folder).glob("*.md"))
]
CLAIM = re.compile(
    r"times (as fast|faster|slower|the speed)|twice as fast|\d ?[x×] (as )?(fast|slow)"
    r"|\d ?%? (faster|slower)|the fastest|the faster of|of \w+'s time",
    re.IGNORECASE,
)


def test_pages_make_no_claims_about_speed():
    found = {page.name: CLAIM.findall(" ".join(page.read_text().split())) for page in PAGES}
    assert {name: claims for name, claims in found.items() if claims} == {}
