"""The look that all pages and pictures share: colours that can be read, and plots at any width."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from tandem.pages.blocks import Cell, Column, table
from tandem.pages.palette import DARK, LIGHT, SERIES
from tandem.pages.plots import MAX_POINTS, Band, Lane, Span, lines, seconds_axis, sparkline, time_axis, timeline
from tandem.pages.stylesheet import PAGE_STYLE
from tandem.pages.svg import document, legend
from tandem.pages.words import duration_words, percent_words, plural

START = datetime(2026, 11, 16, 7, 0, tzinfo=UTC)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa_on_every_background(colours: Mapping[str, str]) -> None:
    papers = ("paper", "paper-2", "paper-3")
    for ink in ("ink", "ink-2", "ink-3", "accent", "ok", "warn", "bad"):
        for paper in (*papers, *(name for name in (f"{ink}-soft",) if name in colours)):
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
    for series in SERIES:
        assert contrast(colours[series], colours["paper"]) >= 3, series


def test_light_and_dark_have_the_same_colours_and_the_style_names_no_others() -> None:
    assert LIGHT.keys() == DARK.keys()
    defined = set(re.findall(r"--([a-z0-9-]+):", PAGE_STYLE))
    assert set(re.findall(r"var\(--([a-z0-9-]+)\)", PAGE_STYLE)) <= defined
    assert LIGHT.keys() <= defined
    # A colour that is not a variable would be the same in the dark.
    assert set(re.findall(r"#[0-9a-f]{6}", PAGE_STYLE)) <= {*LIGHT.values(), *DARK.values()}


def test_paper_is_printed_in_the_colours_of_the_day() -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in PAGE_STYLE
    assert "@media print" in PAGE_STYLE


@pytest.mark.parametrize(
    "seconds, text",
    [(0.32, "320 ms"), (10.44, "10.4 s"), (372, "6 min 12 s"), (11_100, "3 h 5 min"), (187_200, "2 d 4 h")],
)
def test_times_have_their_units_written_out(seconds: float, text: str) -> None:
    assert duration_words(seconds).replace("\xa0", " ") == text


def test_what_is_not_quite_everything_is_not_rounded_to_everything() -> None:
    shares = {1.0: "100", 0.999_999: "99.99", 0.9912: "99.12", 0.41: "41.0"}
    assert {share: percent_words(share) for share in shares} == {
        share: f"{text}\xa0%" for share, text in shares.items()
    }


def test_nouns_follow_their_count() -> None:
    assert [plural(1, "entity"), plural(2, "entity"), plural(1_000, "day")] == ["1 entity", "2 entities", "1,000 days"]


@pytest.mark.parametrize(
    "length, first, pattern",
    [
        (timedelta(seconds=20), "07:00:00", r"\d\d:\d\d:\d\d"),
        (timedelta(hours=3), "07:00", r"\d\d:\d\d"),
        (timedelta(days=2), "Nov 16 12:00", r"[A-Z][a-z]+ \d\d \d\d:\d\d"),
        (timedelta(days=30), "Nov 19", r"[A-Z][a-z]+ \d\d"),
    ],
)
def test_an_axis_of_time_has_few_labels_at_round_moments(length: timedelta, first: str, pattern: str) -> None:
    axis = time_axis(START, START + length)
    assert 3 <= len(axis.ticks) <= 9
    assert axis.ticks[0].label == first
    assert all(re.fullmatch(pattern, tick.label) for tick in axis.ticks)
    assert all(0 <= tick.position <= 100 for tick in axis.ticks)


def test_an_axis_of_seconds_counts_from_zero_in_both_directions() -> None:
    assert [tick.label for tick in seconds_axis(-4.0, 11.0).ticks] == [
        *("\N{MINUS SIGN}4 s", "\N{MINUS SIGN}2 s", "0 s", "2 s", "4 s", "6 s", "8 s", "10 s")
    ]


def test_plots_of_nothing_are_nothing() -> None:
    axis = seconds_axis(0, 1)
    assert lines({}, axis, label="", unit="") == timeline([], axis, label="") == sparkline([], axis) == ""


def test_a_single_point_is_a_dot_and_a_gap_breaks_a_line() -> None:
    axis = seconds_axis(0, 10)
    assert 'd="M500.0' in lines({"a": [(5.0, 1.0)]}, axis, label="", unit="")
    points = [(0.0, 1.0), (1.0, 1.0), (8.0, 1.0), (9.0, 1.0)]
    assert lines({"a": points}, axis, label="", unit="").count("<polyline") == 1
    assert lines({"a": points}, axis, label="", unit="", max_gap_s=2).count("<polyline") == 2


def test_a_line_of_many_points_keeps_its_peak_and_its_end() -> None:
    axis = seconds_axis(0, 100_000)
    points = [(float(number), 0.0) for number in range(100_000)]
    points[54_321] = (54_321.0, 100.0)
    points[-1] = (99_999.0, 50.0)
    [drawn] = re.findall(r'<polyline[^>]* points="([^"]*)"', lines({"a": points}, axis, label="", unit=""))
    heights = [float(pair.split(",")[1]) for pair in drawn.split()]
    assert len(heights) <= MAX_POINTS + 1
    # The top of the scale is 120.
    assert min(heights) == pytest.approx(100 * (1 - 100 / 120), abs=0.1)
    assert heights[-1] == pytest.approx(100 * (1 - 50 / 120), abs=0.1)


def test_labels_at_the_edges_stay_inside_and_a_phone_has_every_second_one() -> None:
    drawn = timeline([Lane("a", "", [Span("healthy", 0, 10, "well")])], seconds_axis(0, 10), label="")
    assert '<span class="start" style="left:0.00%">0 s</span>' in drawn
    assert re.search(r'<span class="end[^"]*" style="left:100.00%">10 s</span>', drawn)
    assert 0 < drawn.count("wide") < drawn.count("<span")


def test_the_label_of_a_band_leaves_room_for_the_unit_of_the_scale() -> None:
    axis = seconds_axis(0, 100)
    sides = {
        start: re.search(
            r'<b style="(left|right):0">down</b>',
            lines({"a": [(0, 1), (100, 1)]}, axis, label="", unit="messages", bands=[Band(start, start + 40, "down")]),
        )
        for start in (0, 5, 40, 90)
    }
    found = {start: None if side is None else side[1] for start, side in sides.items()}
    assert found == {0: None, 5: None, 40: "left", 90: "right"}
    several = lines({"a": [(0, 1)]}, axis, label="", unit="", bands=[Band(40, 50, "down"), Band(60, 70, "down")])
    assert "down" not in several


def test_whatever_is_written_into_a_page_is_escaped() -> None:
    evil = "<script>alert('x')</script>"
    axis = seconds_axis(0, 1)
    parts = [
        table([Column(evil)], [[Cell(evil, evil)]]),
        lines({evil: [(0, 1), (1, 1)]}, axis, label=evil, unit=evil, bands=[Band(0.5, 0.9, evil)]),
        timeline([Lane(evil, evil, [Span("healthy", 0, 1, evil)])], axis, label=evil),
    ]
    assert "<script" not in "".join(parts)
    assert 'title="&lt;script' in parts[2]


def test_a_picture_that_is_a_file_of_its_own_is_valid_and_resolves_no_variables() -> None:
    picture = document("a <title>", 100, 50, [legend(0, 0, ["one", "two"])])
    ElementTree.fromstring(picture)
    assert "var(" not in picture
    assert "prefers-color-scheme: dark" in picture
