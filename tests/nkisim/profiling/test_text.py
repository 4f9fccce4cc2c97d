"""Profiles as terminal text."""

import re

import pytest

from nkisim.profiling import Advice, LineTime
from nkisim.profiling.text import (
    busy_columns,
    comparison,
    duration,
    flop_rate,
    schedule_us,
    size,
    summary,
)

from .profile_cases import made, span, two_cores


def test_the_numbers_of_the_profile_are_in_the_text(product):
    text = summary(product, 100)
    assert text.startswith("product on gen3, NKI 0.3.0\n")
    low, high = map(duration, product.interval_us)
    assert f"latency   {duration(product.latency_us)}, between {low} and {high}\n" in text
    assert f"bound by  {product.bound_by}; the bound of {duration(product.bound_us)}" in text
    assert f"{size(product.hbm_bytes)} in {product.transfers} transfers" in text
    assert f"DMA efficiency {product.dma_efficiency:.0%}" in text
    assert f"{product.achieved_tflops:.2f} TFLOP/s of " in text
    assert f"{product.roofline_tflops:.1f} TFLOP/s" in text
    for key, busy in product.engine_busy_us.items():
        row = re.search(rf"^{key} +(\S+ us) .* ([\d.]+%)$", text, re.MULTILINE)
        assert row.groups() == (duration(busy), f"{product.utilization[key]:.1%}")


@pytest.mark.parametrize(
    ("tflops", "text"),
    [
        (19.66, "19.7 TFLOP/s"),
        (1.234, "1.23 TFLOP/s"),
        (0.1, "0.10 TFLOP/s"),
        (0.0412, "41.2 GFLOP/s"),
        (7.2e-5, "72.0 MFLOP/s"),
    ],
)
def test_small_rates_have_a_smaller_unit(tflops, text):
    assert flop_rate(tflops) == text


def test_the_parts_add_up_to_the_latency(product):
    parts = re.search(
        r"parts +(.*) us timeline, (.*) us expected waits, (.*) us fixed", str(product)
    )
    assert sum(map(float, parts.groups())) == pytest.approx(product.latency_us, abs=0.1)


def test_str_is_the_summary(product):
    assert str(product) == summary(product)


def test_the_critical_path_has_at_most_five_lines_with_source(product):
    section = summary(product, 120).partition("critical path")[2].split("\n\n")[0]
    rows = section.splitlines()[1:]
    assert 1 <= len(rows) <= 5
    assert "product_kernel.py:" in rows[0]
    assert product.lines[0].text in rows[0]


@pytest.mark.parametrize("width", [20, 60, 81, 200])
def test_no_line_of_numbers_exceeds_the_width(product, width):
    for line in summary(product, width).partition("\nadvice\n")[0].splitlines():
        assert len(line) <= max(width, 60), line


def test_a_line_of_source_is_cut_at_the_width():
    """Its place is not cut, however long the name of the file is."""
    for name, text, shown in (
        ("k.py", "x" * 34, "x" * 34),
        ("k.py", "x" * 35, "x" * 31 + "..."),
        ("k" * 36 + ".py", "xyz", "xyz"),
        ("k" * 36 + ".py", "xyz0", "..."),
        ("k" * 90 + ".py", "xyz", "xyz"),
        ("k" * 90 + ".py", "xyz0", "..."),
    ):
        lines = [LineTime(name, 7, text, 2.0, 1.0, 1), LineTime("other.py", 1, "", 6.0, 1.0, 1)]
        rows = summary(made([span("vector", 0, 1)], lines=lines), 60).splitlines()
        assert f"   2.00 us   25%  {name}:7  {shown}" in rows


def test_columns_of_the_timeline_are_shares_of_time():
    spans = [span("vector", 0, 2), span("vector", 3, 3.5), span("vector", 8, 10)]
    assert busy_columns(spans, 10, 5) == pytest.approx([1, 0.25, 0, 0, 1])
    assert sum(busy_columns(spans, 10, 7)) * 10 / 7 == pytest.approx(4.5)


def test_the_timeline_shades_by_utilisation():
    text = summary(made([span("vector", 0, 5), span("dma", 5, 10, queue="q")]), 74)
    rows = {
        key: re.search(rf"^{key} +\|(.*)\|$", text, re.MULTILINE)[1] for key in ("vector", "dma")
    }
    assert rows["vector"] == "█" * 30 + " " * 30
    assert rows["dma"] == " " * 30 + "█" * 30


def test_a_row_for_each_engine_of_each_core():
    text = summary(two_cores())
    assert "gen3, 2 cores" in text
    for core in (0, 1):
        for engine in ("vector", "dma"):
            assert re.search(rf"^{core} {engine} +\|", text, re.MULTILINE)


def test_plain_text_has_only_ascii_and_no_escapes(product):
    assert summary(product, unicode=False).isascii()
    assert "\x1b" not in summary(product)
    coloured = summary(product, colour=True)
    assert re.sub(r"\x1b\[\d+m", "", coloured) == summary(product)


def test_advice_shows_rule_gain_cause_action_and_code():
    found = Advice(
        "P001", "small descriptors", "rows of 256", "move more", 4.2, "/x/k.py", 7, "a()"
    )
    text = summary(made([span("dma", 0, 1, queue="q")], advice=[found]))
    assert "P001 small descriptors at k.py:7, saves 4.20 us\n" in text
    assert "  cause     rows of 256\n  action    move more\n            a()\n" in text


def test_a_note_has_no_gain():
    found = Advice("P001", "title", "cause", "action", None)
    assert "\nP001 title, not tried\n" in summary(made(advice=[found]))


def test_a_kernel_without_instructions_has_a_summary():
    assert "timeline " not in summary(made()).partition("engine")[2]
    assert schedule_us(made()) == 0


def test_one_line_per_profile_is_compared(product):
    lines = comparison([product, made()]).splitlines()
    assert len(lines) == 3
    label = f"{product.file}::product"
    assert lines[1].split()[:3] == [label, "gen3", duration(product.latency_us).split()[0]]


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0.00 us"), (9.994, "9.99 us"), (99.94, "99.9 us"), (999, "999 us"), (1500, "1.50 ms"),
     (2.5e6, "2.50 s")],
)  # fmt: skip
def test_times_have_three_digits(us, text):
    assert duration(us) == text


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_have_binary_prefixes(nbytes, text):
    assert size(nbytes) == text
