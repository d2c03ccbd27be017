"""The report of a drill: its figures as JSON, and one page with an account and pictures that needs nothing else."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, Final

from tandem.drill.figures import MEANINGS
from tandem.drill.picture import draw_curves, draw_states
from tandem.pages.blocks import Column, Stat, Tone, attention, card, document, pill, stats, table
from tandem.pages.origin import Origin
from tandem.pages.words import duration_words

__all__ = ["page", "save_report"]

_TITLE: Final = "Outage drill"


# Any: the figures as they are printed as JSON.
def save_report(figures: dict[str, Any], folder: Path) -> Path:
    """Write drill.json and drill.html, and return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "drill.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    target = folder / "drill.html"
    target.write_text(page(figures, Origin.here()), encoding="utf-8")
    return target


def page(figures: dict[str, Any], origin: Origin) -> str:
    """One page of HTML, without a script and without anything from elsewhere."""
    broken = figures["violations"]
    verdict = pill("Promises were broken", "bad") if broken else pill("Every promise was kept", "ok")
    blocks = [
        stats(_headline(figures)),
        card("Broken promises", attention(("bad", "Broken", escape(sentence)) for sentence in broken)),
        draw_states(figures),
        draw_curves(figures),
        _account(figures),
        _expected(figures),
    ]
    return document(_TITLE, verdict, blocks, origin, subtitle=_subject(figures))


def _subject(figures: dict[str, Any]) -> str:
    where = figures["entity"] or "the primary"
    detection = ", duplicates detected" if figures["duplicate_detection"] else ""
    return f"{where}: {figures['fault']}, with the client {figures['driver']}{detection}"


def _headline(figures: dict[str, Any]) -> list[Stat]:
    lost: Tone = "bad" if figures["lost"] else "ok"
    left = max(0, figures["diverted"] - figures["syphoned"])
    return [
        Stat("Messages lost", f"{figures['lost']:,}", f"of {figures['sent']:,} sent", lost),
        Stat("Duplicates", f"{figures['duplicates']:,}", f"{figures['unanswered']:,} sends without an answer"),
        Stat("Outage", _time(figures["outage_seconds"]), "until the primary returned"),
        Stat("Time to detect", _time(figures["seconds_to_detect"]), "until the first failover"),
        Stat("Time to drain", _time(figures["seconds_to_drain"]), "from the return to an empty backlog"),
        Stat(
            "Diverted messages",
            f"{figures['diverted']:,}",
            f"{left:,} not moved back" if left else "all moved back to the primary",
            "bad" if left else "",
        ),
    ]


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else duration_words(seconds)


def _account(figures: dict[str, Any]) -> str:
    rows = [(name.replace("_", " "), _value(figures[name]), meaning) for name, meaning in MEANINGS.items()]
    columns = (Column("figure"), Column("value", is_number=True), Column("meaning"))
    return card("The account", table(columns, rows))


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def _expected(figures: dict[str, Any]) -> str:
    items = "".join(f"<li>{escape(one)}</li>" for one in figures["expected"])
    again = f"The same again: <code>{escape(figures['command'])}</code>"
    return card("What was expected", f"<ul>{items}</ul>", note=again)
