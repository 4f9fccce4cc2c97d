"""Reports to look at: the page of ``--format html``, and what a notebook shows."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from browser import browse, needs_browser
from kernels import TWINS, cores, races
from nkisim.arch import resolve_target
from nkisim.diagnostics.drawings import occupancy_chart
from nkisim.diagnostics.formats import rendered
from nkisim.diagnostics.pictures import Occupancy, Tile, bitmap, pattern_bitmap
from nkisim.filecheck import CheckSettings, check_files

from .checker_cases import write

KERNEL = """\
@nki.jit
def halves(x):
    rows, cols = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for c in range(0, cols, 64):
        t = nl.ndarray((rows, 64), dtype=x.dtype, buffer=nl.sbuf)
        e = nl.ndarray((rows, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t[:, 0:48], src=x[:, c : c + 48])
        nisa.activation(dst=e, op=nl.exp, data=t)
        nisa.dma_copy(dst=out[:, c : c + 64], src=e)
    scale = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=scale, value=2.0)
    nisa.tensor_tensor(dst=e[:, 0:32], data1=e[:, 32:64], data2=scale, op=nl.multiply)
    return out


def nkisim_examples():
    yield halves, (np.ones((32, 128), np.float32),)
"""

VOID = {"meta", "rect", "line", "path"}


class Balanced(HTMLParser):
    """Notes the tags that are opened, and that each is closed where it must be."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID and tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def parsed(text):
    page = Balanced()
    page.feed(text)
    assert page.open == []
    return page


@pytest.fixture
def page(tmp_path):
    """The text of the page about ``KERNEL``."""
    ledger = check_files([(write(tmp_path, KERNEL), None)], CheckSettings())
    return rendered(ledger, "html")


def test_the_page_shows_source_findings_maps_and_memory(page):
    found = parsed(page)
    lines = [a["class"] for tag, a in found.seen if tag == "div" and "data-line" in a]
    assert "line error" in lines or "line warning" in lines
    cards = [a for tag, a in found.seen if tag == "div" and a.get("class", "").startswith("card ")]
    assert [card["data-line"] for card in cards] == ["15", "19"]
    assert "<mark>t</mark>" in page
    assert "coloured: read, and never written" in page
    assert "coloured: touched" in page  # the access patterns of dst and data1
    assert "halves: SBUF on gen4" in page
    assert ">scale: 4 bytes per partition" in page
    assert "nisa.tensor_scalar(dst=e[:, 0:32], data=e[:, 32:64]" in page


def texts(chart, kind):
    """The texts of a class in a chart."""
    return re.findall(rf'<text class="{kind}"[^>]*>([^<]*)</text>', chart)


def test_a_memory_chart_has_axes_its_capacity_and_the_kernels_name(page):
    charts = re.findall(r'<figure class="memory">.*?</figure>', page)
    assert charts
    for chart in charts:
        (title,) = texts(chart, "title")
        assert title == "halves: SBUF on gen4"
        marks = texts(chart, "axis")
        assert marks[-2:] == ["instruction", "bytes per partition"]
        assert {"0", "200", "400"} <= set(marks)
        (limit,) = texts(chart, "limit")
        usable = resolve_target("gen4").sbuf_usable_bytes
        assert limit.startswith(f"capacity {usable:,} bytes, above this chart")


@pytest.mark.parametrize("peak", [1, 24_000, 60_000, 98_304, 200_000])
def test_a_capacity_that_is_near_is_a_line_in_the_chart(peak):
    tiles = (Tile("a", peak, 0, 7, "k.py:3"), Tile("b", 1, 3, 90_000, "k.py:4"))
    chart = occupancy_chart(Occupancy("sbuf", 98_304, tiles, "core 1", "k", "gen3"))
    parsed(chart)
    assert texts(chart, "title") == ["k: SBUF of core 1 on gen3"]
    near = 4 * (peak + 1) > 98_304
    assert ("line" in [tag for tag, _ in parsed(chart).seen]) == near
    assert texts(chart, "limit")[0].startswith("capacity 98,304 bytes")
    heights = [float(h) for h in re.findall(r' y="(-?[\d.]+)" width', chart)]
    assert all(0 <= height <= 220 for height in heights)
    assert 3 <= len([m for m in texts(chart, "axis") if m[0].isdigit()]) <= 16


def test_the_page_needs_nothing_else(page):
    assert not re.search(r"https?://|src=[\"']|@import|url\(", page)


def test_text_is_escaped(tmp_path):
    kernel = KERNEL.replace("(rows, 1)", "(rows, 1 if rows < 99 else 2)")
    ledger = check_files([(write(tmp_path, kernel), None)], CheckSettings())
    parsed(rendered(ledger, "html"))
    assert "rows &lt; 99" in rendered(ledger, "html")


def test_a_report_shows_itself_in_a_notebook():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=out, src=t)
        return out

    report = nkisim.check(kernel, target="gen3")(np.ones((4, 8), np.float32))
    text = report._repr_html_()
    parsed(text)
    assert "nkisim on gen3" in text
    assert "M001" in text


def test_two_iterations_stand_beside_each_other():
    (twin,) = [t for t in TWINS if t.bad is races.bad_R003]
    checked = nkisim.check(twin.bad, target="gen3")(*twin.arguments(twin.inputs))
    text = checked._repr_html_()
    parsed(text)
    (table,) = set(re.findall(r'<table class="sides">.*?</table>', text))
    assert "<th>vector engine</th><th>vector engine</th>" in table
    assert "(i=0)" in table
    assert "(i=1)" in table


def test_two_cores_stand_beside_each_other():
    races = [twin for twin in TWINS if twin.bad.__module__ == cores.__name__ and twin.cores == 2]
    shown = []
    for twin in races:
        checked = nkisim.check(twin.launched(twin.bad), target="gen3")
        text = checked(*twin.arguments(twin.inputs))._repr_html_()
        parsed(text)
        shown += re.findall(r'<table class="sides"><tr><th>(core \d)</th><th>(core \d)</th>', text)
    assert ("core 0", "core 1") in shown or ("core 1", "core 0") in shown


def test_maps_keep_every_marked_element():
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (3, 7), (128, 512), (100, 333), (5, 3, 70)):
        mask = rng.random(shape) < 0.01
        mask.flat[-1] = True
        picture = bitmap(mask, "marked")
        flat = mask.reshape(shape[0], -1)
        down, right = -(-flat.shape[0] // 64), -(-flat.shape[1] // 64)
        for row, column in np.argwhere(flat):
            assert picture.cells[row // down][column // right] == "1"
        assert "".join(picture.cells).count("1") <= flat.sum()


def test_an_access_pattern_is_drawn_element_by_element():
    picture = pattern_bitmap((4, 8), ((8, 2), (2, 3)), 1)
    assert picture.cells == ("01010100", "01010100", "00000000", "00000000")


@needs_browser
def test_a_browser_puts_each_card_beside_its_line(page, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page)
    seen = browse(file.as_uri(), tmp_path / "user")
    cards = re.findall(r'class="card \w+" data-line="(\d+)" style="([^"]*)"', seen.dom)
    tops = [float(re.search(r"top: ([\d.]+)px", style)[1]) for _, style in cards]
    assert len(tops) >= 2
    assert tops == sorted(tops)
    assert tops[0] > 0  # beside its line, not at the head of the page
    assert len(set(tops)) == len(tops)


CLEAN = """\
@nki.jit
def kernel(x: nt.tensor[64, 32]):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""
UNKNOWN = CLEAN.replace(": nt.tensor[64, 32]", "")


def page_of_files(folder, *texts):
    files = [write(folder, text, name=f"part{i}.py") for i, text in enumerate(texts)]
    ledger = check_files([(file, None) for file in files], CheckSettings())
    ledger.relative_to(str(folder))
    return rendered(ledger, "html", False)


def test_a_page_names_the_files_that_were_checked(tmp_path):
    page = page_of_files(tmp_path, CLEAN)
    assert "<p>part0.py: kernel</p>" in page
    assert "part0.py::kernel" not in page


def test_a_page_of_two_files_tells_their_kernels_apart(tmp_path):
    page = page_of_files(tmp_path, CLEAN, CLEAN, UNKNOWN)
    for name in ("part0.py", "part1.py", "part2.py"):
        assert f"<p>{name}: kernel</p>" in page
    assert page.count("<figure") == 2
    for title in ("part0.py::kernel", "part1.py::kernel"):
        assert re.search(f'<text class="title"[^>]*>[^<]*{title}', page), title
    assert "<p>part2.py::kernel: only the source was checked" in page
