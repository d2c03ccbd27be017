"""The report of a drill: its figures as JSON, and one page with an account and a picture that needs nothing else."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, Final

from tandem.drill.figures import MEANINGS
from tandem.drill.picture import draw_drill

__all__ = ["page", "save_report"]

_STYLE: Final = """\
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 980px; margin: 2em auto; padding: 0 1em }
svg { max-width: 100%; height: auto }
table { border-collapse: collapse; margin: 1em 0 }
td, th { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #8883; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.kept { color: #1d7a4c } .broken { color: #c0392b }
code { background: #8882; padding: .1em .3em }"""


# Any: the figures as they are printed as JSON.
def save_report(figures: dict[str, Any], folder: Path) -> Path:
    """Write drill.json and drill.html, and return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "drill.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    target = folder / "drill.html"
    target.write_text(page(figures), encoding="utf-8")
    return target


def page(figures: dict[str, Any]) -> str:
    """One page of HTML, without a script and without anything from elsewhere."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"><title>Outage drill</title>',
            f"<style>{_STYLE}</style></head><body>",
            "<h1>Outage drill</h1>",
            _verdict(figures),
            draw_drill(figures),
            _account(figures),
            _expected(figures),
            f"<p>The same again: <code>{escape(figures['command'])}</code></p>",
            "</body></html>\n",
        ]
    )


def _verdict(figures: dict[str, Any]) -> str:
    violations = figures["violations"]
    if not violations:
        counts = f"{figures['sent']:,} messages sent, {figures['received']:,} received, {figures['lost']:,} lost"
        return f'<p class="kept">Every promise was kept: {counts}.</p>'
    items = "".join(f"<li>{escape(one)}</li>" for one in violations)
    return f'<p class="broken">Promises were broken:</p><ul class="broken">{items}</ul>'


def _account(figures: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{name.replace("_", " ")}</td><td class="number">{_value(figures[name])}</td>'
        f"<td>{escape(meaning)}</td></tr>"
        for name, meaning in MEANINGS.items()
    )
    return f"<h2>The account</h2><table><tr><th>figure</th><th>value</th><th>meaning</th></tr>{rows}</table>"


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def _expected(figures: dict[str, Any]) -> str:
    items = "".join(f"<li>{escape(one)}</li>" for one in figures["expected"])
    return f"<h2>What was expected</h2><ul>{items}</ul>"
