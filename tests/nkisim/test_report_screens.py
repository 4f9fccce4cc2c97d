"""Reports on a narrow and on a dark screen: nothing is cut off, and every text can be read."""

import json
import re
from html import escape

import pytest
from click.testing import CliRunner

from browser import browse, needs_browser
from nkisim.cli import commands

from .checker_cases import write

SUMS = """\
@nki.jit
def sums(x, w):
    rows, columns = x.shape
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for step in nl.affine_range(rows // 128):
        a_tile_with_a_long_name = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        another_tile_with_a_long_name = nl.ndarray((128, 512), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a_tile_with_a_long_name, src=x[step * 128 : (step + 1) * 128, :])
        nisa.dma_copy(dst=another_tile_with_a_long_name[:, 0:END], src=w[0:128, 0:END])
        nisa.nc_matmul(acc, a_tile_with_a_long_name, another_tile_with_a_long_name)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out
"""
SHAPES = ("--shapes", "x=bf16[512,128] w=bf16[512,512]")

MEASURE = """
<script>
const number = (text) => text.match(/[\\d.]+/g).map(Number);
// The colour behind an element: those of its parents, one on top of the other.
function behind(element) {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const [r, g, b, a = 1] = number(getComputedStyle(e).backgroundColor);
    layers.push([r, g, b, a]);
    if (a === 1) break;
  }
  return layers.reverse().reduce(
    (under, [r, g, b, a]) => [r, g, b].map((c, i) => a * c + (1 - a) * under[i]), [255, 255, 255]);
}
// Relative luminance and contrast as WCAG 2 defines them.
const luminance = (rgb) => rgb.map((c) => c / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}
const low = {}, sizes = {};
let texts = 0;
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const box = element.getBoundingClientRect(), style = getComputedStyle(element);
  if (!own || !box.width || ["SCRIPT", "STYLE", "TITLE"].includes(element.tagName)) continue;
  if (element.matches("text.tile")) continue; // on its own box, not on the page
  texts++;
  const drawn = element instanceof SVGElement;
  const found = contrast(number(drawn ? style.fill : style.color).slice(0, 3), behind(element));
  const name = element.tagName + "." + element.getAttribute("class");
  if (found < 4.5) low[name] = found.toFixed(2);
  const matrix = drawn && element.getScreenCTM();
  const scale = drawn ? Math.hypot(matrix.a, matrix.b) : 1;
  if (!element.matches(".indent")) sizes[name] = parseFloat(style.fontSize) * scale;
}
const canvas = document.querySelector("canvas");
const seen = {
  inner: innerWidth, scroll: document.documentElement.scrollWidth, texts, low,
  smallest: Math.min(...Object.values(sizes)), page: behind(document.body),
  sources: [...document.querySelectorAll(".lines, .source")]
    .map((e) => [e.clientWidth, e.scrollWidth]),
  drawn: canvas && Number(canvas.dataset.drawn),
};
const note = document.createElement("pre");
note.id = "seen";
note.textContent = JSON.stringify(seen);
document.body.append(note);
</script>
"""

# A window of a headless browser is at least 500 pixels wide; a frame can be narrower. To start one
# takes a second, so that it shows all pages at once.
FRAME = '<iframe name="{name}" style="width: {width}px; height: 900px" srcdoc="{page}"></iframe>'
COLLECT = """<style>iframe { border: 0; display: block }</style><script>
for (const frame of document.querySelectorAll("iframe")) {
  frame.addEventListener("load", () => {
    const note = document.importNode(frame.contentDocument.querySelector("#seen"), true);
    note.id = frame.name;
    document.body.append(note);
  });
}
</script>"""
NARROW, WIDE = 390, 1200


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of a check and the page of a profile, with a script that measures them."""
    folder = tmp_path_factory.mktemp("pages")
    unwritten = write(folder, SUMS.replace("END", "500"), name="unwritten.py")
    complete = write(folder, SUMS.replace("END", "512"), name="complete.py")
    check, profile = folder / "check.html", folder / "profile.html"
    asked = [
        ["check", unwritten, *SHAPES, "--format", "html", "--output", check],
        ["profile", complete, *SHAPES, "--html", profile],
    ]
    for arguments in asked:
        done = CliRunner().invoke(commands, [*map(str, arguments)], standalone_mode=False)
        assert done.exception is None, repr(done.exception)
    for page in (check, profile):
        text = page.read_text("utf-8").replace("</body>", f"{MEASURE}</body>")
        page.write_text(text, "utf-8")
    return {"check": check, "profile": profile}


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def seen(request, pages, tmp_path_factory):
    """Whether the screen is dark, and what is measured by page and width."""
    folder = tmp_path_factory.mktemp("screen")
    texts = {name: escape(page.read_text("utf-8")) for name, page in pages.items()}
    named = {(name, width): f"{name}{width}" for name in pages for width in (NARROW, WIDE)}
    frames = [FRAME.format(name=v, width=k[1], page=texts[k[0]]) for k, v in named.items()]
    file = folder / "framed.html"
    file.write_text("\n".join(["<!DOCTYPE html>", *frames, COLLECT]), "utf-8")
    shown = browse(file.as_uri(), folder / "user", size=(WIDE, 3600), dark=request.param)
    assert shown.console == []
    assert shown.asked == set()
    notes = {k: re.search(rf'<pre id="{v}">(.*?)</pre>', shown.dom, re.S) for k, v in named.items()}
    return request.param, {key: json.loads(note[1]) for key, note in notes.items()}


@needs_browser
@pytest.mark.parametrize("name", ["check", "profile"])
def test_a_narrow_screen_shows_all_of_a_page(name, seen):
    """390 pixels: the page does not scroll sideways, nor does its source, and texts have a size."""
    narrow = seen[1][name, NARROW]
    assert narrow["inner"] == NARROW
    assert narrow["scroll"] <= NARROW
    assert narrow["sources"]
    assert all(scroll <= client for client, scroll in narrow["sources"])
    assert narrow["smallest"] >= 9
    assert name == "check" or narrow["drawn"] > 0


@needs_browser
@pytest.mark.parametrize("name", ["check", "profile"])
def test_every_text_stands_out_from_what_is_behind_it(name, seen):
    """A contrast of 4.5, which WCAG 2 asks of text; a dark screen has a dark page."""
    dark, found = seen
    wide = found[name, WIDE]
    assert wide["low"] == {}
    assert wide["texts"] > 30
    assert (max(wide["page"]) < 64) is dark
    assert wide["scroll"] <= wide["inner"]
