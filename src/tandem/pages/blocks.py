"""The parts of a page: its frame with head and foot, cards, headline figures, tables. All of it is text of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, Literal, NamedTuple

from tandem.pages.origin import Origin
from tandem.pages.stylesheet import PAGE_STYLE

__all__ = [
    "Cell",
    "Column",
    "Stat",
    "Tone",
    "attention",
    "card",
    "document",
    "meter",
    "pill",
    "stats",
    "table",
    "tiles",
]

Tone = Literal["", "ok", "warn", "bad"]

_BRAND: Final = (
    '<span class="brand"><svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="8.5" cy="14" r="5.4"/>'
    '<circle cx="15.5" cy="14" r="5.4"/><path d="M8.5 14 12 6l3.5 8"/></svg>Tandem</span>'
)


def document(
    title: str, status: str, blocks: Iterable[str], origin: Origin, *, subtitle: str = "", refresh_s: int | None = None
) -> str:
    """Return the whole page. It fetches nothing and needs no script; with `refresh_s` a browser loads it again."""
    refresh = "" if refresh_s is None else f'<meta http-equiv="refresh" content="{refresh_s}">'
    below = f'<span class="quiet">{escape(subtitle)}</span>' if subtitle else ""
    live = "" if refresh_s is None else pill(f"live, every {refresh_s} s", "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{refresh}'
        f"<title>{escape(title)}</title><style>\n{PAGE_STYLE}\n</style></head>\n"
        f'<body><header>{_BRAND}<h1>{escape(title)}</h1>{below}{live}<span class="right">{status}</span></header>\n'
        f"<main>{''.join(blocks)}</main>\n<footer>{_footer(origin)}</footer></body></html>\n"
    )


def _footer(origin: Origin) -> str:
    return (
        f"Made {origin.made_at:%Y-%m-%d %H:%M:%S} UTC by Tandem {escape(origin.version)} on {escape(origin.machine)}. "
        "All times are UTC."
    )


def card(title: str, content: str, aside: str = "", note: str = "") -> str:
    """A titled box. `aside` stands on the right of the title, `note` below the content; all are HTML but the title."""
    if not content:
        return ""
    right = f'<span class="right legend">{aside}</span>' if aside else ""
    below = f'<p class="note">{note}</p>' if note else ""
    return f'<section class="card"><div class="head"><h2>{escape(title)}</h2>{right}</div>{content}{below}</section>'


def pill(words: str, tone: Tone) -> str:
    dot = "<i></i>" if tone else ""
    return f'<span class="pill {tone}">{dot}{escape(words)}</span>'


class Stat(NamedTuple):
    """A headline figure: what it is, the figure with its unit, and what to compare it with."""

    label: str
    value: str
    note: str
    tone: Tone = ""


def stats(figures: Iterable[Stat]) -> str:
    boxes = "".join(
        f'<div class="card stat {one.tone}"><small>{escape(one.label)}</small><b class="num">{escape(one.value)}</b>'
        f"<small>{escape(one.note)}</small></div>"
        for one in figures
    )
    return f'<div class="stats">{boxes}</div>' if boxes else ""


def attention(items: Iterable[tuple[Tone, str, str]]) -> str:
    """A list, the worst first: a tone, a word for the kind of trouble, and a sentence as HTML."""
    entries = "".join(f"<li>{pill(kind, tone)}<span>{sentence}</span></li>" for tone, kind, sentence in items)
    return f'<ul class="attention">{entries}</ul>' if entries else ""


class Column(NamedTuple):
    """A column of a table. A phone has no room for those that are wide."""

    heading: str
    is_number: bool = False
    is_wide: bool = False
    kind: str = ""


class Cell(NamedTuple):
    """A value with a remark, and a picture or other HTML below them."""

    text: str = ""
    remark: str = ""
    html: str = ""


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | Cell]],
    *,
    totals: Sequence[int] = (),
    is_dense: bool = False,
) -> str:
    """The first column names the row. `totals` are the numbers of the rows that sum up others.

    In a dense table remarks stand behind what they are about, where there is room, and below it elsewhere.
    """
    lines = [
        f"<tr{' class=total' if number in totals else ''}>{_row(columns, row)}</tr>" for number, row in enumerate(rows)
    ]
    if not lines:
        return ""
    heads = "".join(f'<th scope="col"{_kinds(column)}>{escape(column.heading)}</th>' for column in columns)
    dense = " class=dense" if is_dense else ""
    body = "".join(lines)
    return f'<div class="scroll"><table{dense}><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(columns: Sequence[Column], values: Sequence[str | Cell]) -> str:
    cells: list[str] = []
    for number, (column, value) in enumerate(zip(columns, values, strict=True)):
        tag, scope = ("td", "") if number else ("th", ' scope="row"')
        cells.append(f"<{tag}{scope}{_kinds(column)}>{_content(value)}</{tag}>")
    return "".join(cells)


def _content(value: str | Cell) -> str:
    if isinstance(value, str):
        return escape(value)
    remark = f" <small>{escape(value.remark)}</small>" if value.remark else ""
    return f"{escape(value.text)}{remark}{value.html}"


def _kinds(column: Column) -> str:
    kinds = [name for name, is_so in (("r", column.is_number), ("wide", column.is_wide)) if is_so]
    if column.kind:
        kinds.append(column.kind)
    return f' class="{" ".join(kinds)}"' if kinds else ""


def meter(share: float) -> str:
    """A bar as long as a share between 0 and 1."""
    return f'<span class="meter"><i style="width:{100 * share:.1f}%"></i></span>'


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Small pictures of the same kind side by side: a name, a remark and the picture, as HTML, of each."""
    drawn = "".join(
        f"<div><b>{escape(name)}</b> <small>{escape(remark)}</small>{picture}</div>"
        for name, remark, picture in entries
    )
    return f'<div class="body tiles">{drawn}</div>' if drawn else ""
