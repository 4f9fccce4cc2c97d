"""Profiles as HTML pages: their parts, their data, and how a browser shows them."""

import dataclasses
import itertools
import json
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from browser import browse, needs_browser
from nkisim.profiling import Advice, LineTime
from nkisim.profiling.charts import COLOURS, MOST_BLOCKS, chart_data, roofline_drawing
from nkisim.profiling.page import fragment, profile_page
from nkisim.profiling.text import duration, size

from .profile_cases import made, span, tile, two_cores

VOID = {"input", "meta", "line", "polyline", "circle"}


class Balanced(HTMLParser):
    """Collects text, and requires that every tag is closed where it must be."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["script"], ["style"]):
            self.text.append(data)


def text_of(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    return " ".join(" ".join(parser.text).split())


def data_of(page):
    found = re.findall(r'<script type="application/json" class="data">(.*?)</script>', page, re.S)
    return [json.loads(text) for text in found]


def test_the_page_shows_the_numbers_of_the_profile(product):
    text = text_of(profile_page(product))
    low, high = map(duration, product.interval_us)
    for shown in (
        "product on gen3",
        f"latency {duration(product.latency_us)} {low} to {high}",
        f"bound by {product.bound_by}",
        f"HBM traffic {size(product.hbm_bytes)} {product.transfers} transfers",
        f"DMA efficiency {product.dma_efficiency:.0%}",
        f"{product.achieved_tflops:.2f} TFLOP/s",
        *(f"{key} {duration(busy)}" for key, busy in product.engine_busy_us.items()),
    ):
        assert shown in text, shown


def test_the_page_needs_no_network(product):
    page = profile_page(product)
    assert not re.search(r"https?:|//\w|\bsrc=\"|<link|@import|url\(", page.replace("src=a", ""))


def test_every_timed_line_is_in_the_source_with_its_time(product):
    page = profile_page(product)
    for line in product.lines:
        row = re.search(rf'<tr data-file="[^"]*" data-line="{line.line}".*?</tr>', page)[0]
        assert f">{duration(line.busy_us)}<" in row
        assert f">{line.instructions}<" in row
        assert line.text in text_of(row)


@pytest.mark.parametrize("timed", [(1,), (10, 50, 91), (3, 5, 49, 100), (100,), (30, 70)])
def test_the_source_has_the_timed_lines_and_those_around_them(tmp_path, timed):
    """Four lines before the first of a group and after its last; up to 39 between two are shown."""
    file = tmp_path / "long.py"
    file.write_text("".join(f"row {n}\n" for n in range(1, 101)))
    lines = [LineTime(str(file), n, f"row {n}", 1.0, 1.0, 1) for n in timed]
    page = profile_page(made([span("vector", 0, 1)], lines=lines))
    found = re.findall(r'<td class="n">(\d+)</td><td>row|(\.\.\.)</td>', page)
    expected = {
        (1,): [*range(1, 6)],
        (10, 50, 91): [*range(6, 55), 0, *range(87, 96)],
        (3, 5, 49, 100): [*range(1, 10), 0, *range(45, 54), 0, *range(96, 101)],
        (100,): [*range(96, 101)],
        (30, 70): [*range(26, 75)],
    }
    assert [int(n or 0) for n, _ in found] == expected[timed]


def test_the_data_of_the_timeline_are_the_spans(product):
    (data,) = data_of(profile_page(product))
    blocks, places, names = data["blocks"], data["places"], data["names"]
    rows = [row["label"] for row in data["rows"] for _ in range(row["blocks"])]
    found = zip(rows, blocks["start"], blocks["end"], blocks["name"], blocks["place"], strict=True)
    assert sorted((r, s, e, names[n], places[p][1]) for r, s, e, n, p in found) == sorted(
        (s.queue or s.engine, round(1e3 * s.start_us), round(1e3 * s.end_us), s.name, s.line)
        for s in product.timeline
    )
    assert sum(blocks["nbytes"]) == sum(s.nbytes for s in product.timeline)


def test_the_memory_has_owners_peak_and_capacity():
    uses = [tile("a", 100, 0, 4), tile("b", 50, 2, 9), tile("a", 100, 4, 6)]
    (memory,) = chart_data(made([span("vector", 0, 9)], uses))["memory"]
    assert memory["times"] == [0, 2000, 4000, 6000, 9000]
    assert memory["peak"] == 150
    assert memory["capacity"] == 200_000
    assert {o["name"]: o["bytes"] for o in memory["owners"]} == {
        "a": [100, 100, 100, 0, 0],
        "b": [0, 50, 50, 50, 0],
    }


def test_many_tiles_are_drawn_at_their_fullest_instants():
    uses = [tile(f"t{i % 20}", 10, i, i + 1.5) for i in range(4000)]
    uses.append(tile("large", 5000, 2000.1, 2000.2))
    (memory,) = chart_data(made([span("vector", 0, 4001)], uses))["memory"]
    assert len(memory["times"]) <= 1501
    totals = [sum(values) for values in zip(*(o["bytes"] for o in memory["owners"]), strict=True)]
    assert max(totals) == memory["peak"] == 5020
    assert len(memory["owners"]) == 12
    assert totals[-1] == 0


def test_many_instructions_are_merged_without_loss():
    spans = [span("vector", i, i + 0.5, line=i % 3) for i in range(21_000)]
    spans += [span("dma", 10_000 * i, 10_000 * i + 7, queue="q") for i in range(3)]
    profile = made(spans, [tile("t", 64, i, i + 2) for i in range(5_000)])
    page = profile_page(profile)
    assert len(page) < 2_000_000
    (data,) = data_of(page)
    blocks = data["blocks"]
    assert len(blocks["start"]) <= MOST_BLOCKS
    assert sum(blocks["count"]) == len(spans)
    assert sum(blocks["busy"]) == pytest.approx(1e3 * (10_500 + 21))
    assert data["rows"][1]["blocks"] == 3  # far apart, not merged


def test_many_queues_share_a_row():
    spans = [span("dma", i, i + 1, queue=f"line {i}") for i in range(12)]
    rows = chart_data(made(spans))["rows"]
    assert len(rows) == 9
    assert (rows[-1]["label"], rows[-1]["blocks"]) == ("other queues", 4)


def test_cores_have_their_own_rows_and_memories():
    data = chart_data(two_cores())
    labels = [row["label"] for row in data["rows"]]
    assert {label[:2] for label in labels} == {"0:", "1:"}
    assert [memory["label"] for memory in data["memory"]] == ["0: SBUF", "1: SBUF"]
    text_of(profile_page(two_cores()))


def test_the_roofline_has_the_kernel_below_the_roof(product):
    drawing = roofline_drawing(product)
    share = product.achieved_tflops / product.roofline_tflops
    assert f"roofline: {share:.0%} of the roof" in drawing
    x, y = map(float, re.search(r'cx="([\d.]+)" cy="([\d.]+)"', drawing).groups())
    roof = [
        tuple(map(float, p.split(","))) for p in re.search(r'points="(.*?)"', drawing)[1].split()
    ]
    assert roof[0][0] <= x <= roof[-1][0]
    assert y > roof[-1][1]


@pytest.mark.parametrize("share", [1.0, 0.03, 1e-4])
@pytest.mark.parametrize("intensity", [2.0, 210.0, 15000.0])
def test_the_roofline_is_drawn_at_the_numbers_of_its_axes(product, intensity, share):
    """Positions are rounded to a tenth: the scale of the ticks is known to a quarter of a unit."""
    shown = dataclasses.replace(product, intensity=intensity, peak_tflops=80.0, hbm_gbps=400.0)
    shown.flops = shown.roofline_tflops * share * shown.latency_us * 1e6
    parts = list(ElementTree.fromstring(roofline_drawing(shown)))
    ticks = {"x1": [], "y1": []}
    for line, text in itertools.pairwise(parts):
        if line.get("class") == "grid":
            axis = "x1" if line.get("x1") == line.get("x2") else "y1"
            ticks[axis].append((math.log10(float(text.text)), float(line.get(axis))))
    grid = [part for part in parts if part.get("class") == "grid"]
    left, right = (
        f([float(line.get(end)) for line in grid for end in ("x1", "x2")]) for f in (min, max)
    )
    top, bottom = (
        f([float(line.get(end)) for line in grid for end in ("y1", "y2")]) for f in (min, max)
    )
    roof, gap, kernel = (
        next(part for part in parts if part.get("class") == kind)
        for kind in ("roof", "gap", "kernel")
    )
    points = [tuple(map(float, point.split(","))) for point in roof.get("points").split()]
    ridge, best, rate = 200.0, shown.roofline_tflops, shown.achieved_tflops
    low, down = min(ridge, intensity) / 10, min(rate / 2, 80.0 / 50)
    start = max(low, down / 0.4)
    drawn = {
        "x1": {
            **{low: left, max(ridge, intensity) * 10: right, start: points[0][0]},
            **{ridge: points[1][0], intensity: float(kernel.get("cx"))},
        },
        "y1": {
            **{down: bottom, 160.0: top, start * 0.4: points[0][1], 80.0: points[2][1]},
            **{best: float(gap.get("y1")), rate: float(kernel.get("cy"))},
        },
    }
    for axis, numbers in drawn.items():
        (first, at), (last, end) = ticks[axis][0], ticks[axis][-1]
        for value, position in [*((10**t, p) for t, p in ticks[axis]), *numbers.items()]:
            expected = at + (end - at) * (math.log10(value) - first) / (last - first)
            assert position == pytest.approx(expected, abs=0.25), (axis, value)
    assert points[1][1] == points[2][1]
    assert points[2][0] == right


def test_a_kernel_without_products_has_no_roofline():
    assert roofline_drawing(two_cores()) == ""
    assert "no products" in text_of(profile_page(two_cores()))


def test_text_of_the_kernel_is_escaped():
    evil = "</script><b>&amp;"
    line = LineTime(f"/no/{evil}.py", 3, f"f('{evil}')", 1.0, 1.0, 1)
    advice = Advice("P001", evil, evil, evil, 1.0, "", 0, evil)
    used = span("vector", 0, 1)._replace(file=line.file, line=3, name=evil)
    page = profile_page(
        made([used], [tile(evil, 8, 0, 1)], kernel=evil, lines=[line], advice=[advice])
    )
    assert evil not in page
    assert f"f('{evil}')" in text_of(page)
    (data,) = data_of(page)
    assert data["names"] == [evil]


def test_several_profiles_are_listed_first(product):
    page = profile_page([product, two_cores()])
    assert f'<a href="#p0">{product.file}::product</a>' in page
    assert "::both_cores</a>" in page
    assert len(data_of(page)) == 2
    text_of(page)


def test_a_notebook_shows_a_fragment(product):
    shown = product._repr_html_()
    assert shown == fragment(product)
    assert "<html" not in shown
    text_of(shown)


ACTIONS = """
<script>
const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
const seen = {};
const state = () => [Number(canvas.dataset.from), Number(canvas.dataset.to)];
const data = JSON.parse(document.querySelector("script.data").textContent);
const fire = (type, x, y, more) => canvas.dispatchEvent(new (type === "wheel" ? WheelEvent
  : PointerEvent)(type, { clientX: box.left + x, clientY: box.top + y, bubbles: true, ...more }));
canvas.setPointerCapture = () => {};
seen.drawn = Number(canvas.dataset.drawn);
seen.whole = state();
// The middle of the first block of the first row.
const at = 184 + (data.blocks.start[0] + data.blocks.end[0]) / 2 / data.end * (box.width - 184);
seen.pixel = [...canvas.getContext("2d").getImageData(at, 25, 1, 1).data];
fire("pointermove", at, 32);
seen.tip = document.querySelector(".tip").textContent;
fire("wheel", at, 32, { deltaY: -100 });
seen.zoomed = state();
fire("pointerdown", 600, 32);
fire("pointermove", 400, 32);
fire("pointerup", 400, 32);
seen.panned = state();
document.querySelector("button[data-zoom='0']").click();
seen.all = state();
document.querySelector("tr[data-place]").click();
document.querySelector(".whole").click();
seen.chosen = document.querySelectorAll("tr.chosen").length;
const note = document.createElement("pre");
note.id = "seen";
note.textContent = JSON.stringify(seen);
document.body.append(note);
</script>
"""


@needs_browser
def test_the_page_in_a_browser_zooms_pans_and_shows_instructions(product, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(profile_page(product).replace("</body>", f"{ACTIONS}</body>"), "utf-8")
    shown = browse(page.as_uri(), tmp_path / "user")
    assert shown.console == []
    assert shown.asked == set()
    seen = json.loads(re.search(r'<pre id="seen">(.*?)</pre>', shown.dom, re.S)[1])
    whole = seen["whole"]
    assert seen["drawn"] == len(product.timeline)
    assert seen["pixel"] == [*bytes.fromhex(COLOURS["tensor"][1:]), 255]
    assert seen["tip"].startswith("nc_matmul   tensor\nproduct_kernel.py:")
    assert "us to " in seen["tip"]
    zoomed, panned = seen["zoomed"], seen["panned"]
    assert zoomed[1] - zoomed[0] == pytest.approx(0.8 * (whole[1] - whole[0]), abs=2)
    assert panned[0] > zoomed[0]
    assert panned[1] - panned[0] == pytest.approx(zoomed[1] - zoomed[0], abs=2)
    assert seen["all"] == whole
    assert seen["chosen"] == 1


_FONT = 15.0  # svg units, of the rule of page.css for narrow screens
_TEXT = re.compile(r'<text x="([\d.-]+)" y="([\d.-]+)" text-anchor="(\w+)">([^<]*)</text>')


def boxes(drawing):
    """The box of each horizontal text; a character is at most 0.6 of the font size wide."""
    for x, y, anchor, text in _TEXT.findall(drawing):
        width = 0.6 * _FONT * len(text)
        left = float(x) - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        yield text, left, float(y) - 0.75 * _FONT, left + width, float(y) + 0.2 * _FONT


@pytest.mark.parametrize("share", [1.0, 0.5, 0.01, 1e-5])
@pytest.mark.parametrize("intensity", [0.1, 2.0, 73.0, 210.0, 500.0, 15000.0])
def test_the_texts_of_a_roofline_fit_and_do_not_overlap(product, intensity, share):
    """At 390 pixels, whatever the name of the kernel."""
    shown = dataclasses.replace(
        product, kernel="a_kernel_with_a_very_long_name", intensity=intensity, peak_tflops=78.64
    )
    shown.flops = shown.roofline_tflops * share * shown.latency_us * 1e6
    drawing = roofline_drawing(shown)
    _, _, width, height = map(float, re.search(r'viewBox="([^"]*)"', drawing)[1].split())
    found = list(boxes(drawing))
    assert len(found) >= 6
    title = ("TFLOP/s", 12 - 0.75 * _FONT, 0.0, 12 + 0.2 * _FONT, height)  # it is rotated
    for text, left, top, right, bottom in found:
        assert 0 <= left <= right <= width, text
        assert 0 <= top <= bottom <= height, text
    for a, b in itertools.combinations([title, *found], 2):
        assert a[3] <= b[1] or b[3] <= a[1] or a[4] <= b[2] or b[4] <= a[2], (a, b)
