"""The page of a tuning: each point lies where its time and bytes say on the axes as drawn."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from nkisim.tuning import Dropped, Variant
from nkisim.tuning.page import tuning_page
from nkisim.tuning.result import Tuning

UNITS = {"us": 1, "ms": 1e3, "s": 1e6, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
PLOTS = [[(20.0, 512), (20.3, 100), (25.0, 300), (100.0, 0)], [(3e3, 0)], [(1.0, 5e4), (7.0, 1e5)]]


def page_of(points, ties=2, dropped=()):
    """The page, and a function from the names of elements and attributes to what its plot has."""
    shared = {"bound_by": "dma", "bound_share": 0.5, "hbm_bytes": 0, "spill_bytes": 7}
    shared |= {"capacity": {"sbuf": 1024, "psum": 0}, "instructions": 1}
    variants = [
        Variant(
            values={"T": us, "K": "a<b"},
            latency_us=us,
            interval_us=(us - 1, us + 1),
            used_bytes={"sbuf": int(used), "psum": 0},
            **shared,
        )
        for us, used in points
    ]
    names = {"kernel": "k<", "target": "gen3", "nki": "0.3.0", "arguments": {"x": "float32[2]"}}
    found = Tuning(**names, variants=variants, ties=ties, dropped=[*dropped], agreement="a")
    page = tuning_page([found])
    plot = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    return page, lambda tag, *names: np.array([[e.get(n) for n in names] for e in plot.iter(tag)])


@pytest.mark.parametrize("points", PLOTS)
def test_points_lie_where_the_axes_say(points):
    page, drawn = page_of(points)
    lines = drawn("line", "x1", "y1", "x2", "y2").astype(float)
    upright, level = lines[lines[:, 0] == lines[:, 2]], lines[lines[:, 1] == lines[:, 3]]
    texts = re.findall(r"<text[^>]*>([^<]*)", page)
    places, anchors = drawn("text", "x", "y").astype(float), drawn("text", "text-anchor")[:, 0]

    # One frame of five lines each; labels are 16 pixels below, or to the left of a line.
    assert page.count('viewBox="0 0 640 320"') == 1
    frame = upright[0, 0], upright[-1, 0], level[-1, 1], level[0, 1]
    assert (*frame, len(upright), len(level)) == (84, 624, 14, 280, 5, 5)
    assert np.all(level[:, [0, 2]] == frame[:2])
    assert np.all(upright[:, [1, 3]] == frame[2:])
    assert np.array_equal(places[0:10:2], upright[:, [0, 3]] + (0, 16))
    assert np.allclose(places[1:10:2], level[:, [0, 1]] + (-6, 4), atol=0.1)
    assert [*places[10], texts[10]] == [354, 315, "predicted time; up: bytes of SBUF"]
    assert [*anchors] == [*["middle", "end"] * 4, "end", "end", "middle"]

    # Scales go from 0 in equal steps, and the points lie on them, the best one on top.
    at = drawn("circle", "cx", "cy").astype(float)[::-1]
    for axis, ends, labels in ((0, frame[:2], texts[0:10:2]), (1, frame[:1:-1], texts[1:10:2])):
        scale = [float(text.split()[0]) * UNITS[text.split()[1]] for text in labels]
        assert np.allclose(scale, np.linspace(0, scale[-1], 5), rtol=0.01, atol=0.5)
        expected = np.array([point[axis] for point in points])
        wanted = np.interp(expected, [0, scale[-1]], ends)
        assert np.allclose(at[:, axis], wanted, atol=0.1 + 0.01 * abs(ends[1] - ends[0]))
        assert expected.max() == 0 or 0.9 * scale[-1] < expected.max() < 0.96 * scale[-1]


def test_the_best_is_large_and_ties_are_filled():
    page, drawn = page_of([(20, 5), (20, 4), (30, 3)])
    radii, strokes, fills = drawn("circle", "r", "stroke", "fill")[::-1].T
    assert [*radii] == ["6", "4", "4"]
    assert strokes[0] == strokes[1] != strokes[2]
    assert [*fills] == [strokes[0], strokes[0], "none"]
    assert page.count("<title>T=20 K=a&lt;b: 20.0 us</title>") == 2


def test_the_table_and_what_was_dropped():
    dropped = [Dropped({"T": 4}, "M001 a<b"), Dropped({"T": 5}, "M001 a<b")]
    page, _ = page_of([(20.0, 5), (30.0, 2000)], ties=1, dropped=dropped)
    cells = re.findall(r"<t[hd][^>]*>([^<]*)", page)
    assert cells[:8] == ["T", "K", "latency", "range", "bound by", "share", "SBUF free", "spills"]
    first = ["20.0", "a&lt;b", "20.0 us", "19.0 us to 21.0 us", "dma", "50%", "1019 B", "7 B"]
    assert (cells[8:16], cells[22], len(cells)) == (first, "0 B", 24)
    heads = re.findall(r"<h[12]>([^<]*)", page)
    assert heads == ["k&lt; on gen3", "Time against memory", "2 legal variants", "2 dropped"]
    assert "<ul><li>  M001 a&lt;b (T=4; T=5)</li></ul>" in page
    assert "20.0 us; 1 variant within 2 %. Outputs: a</p>" in page
    alone, _ = page_of([(20.0, 5)])
    assert "2 variants within 2 %" in alone
    assert "<h2>1 legal variant</h2>" in alone
    assert "dropped" not in alone
    assert "http" not in alone.replace("http://www.w3.org", "")
