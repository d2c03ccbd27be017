"""The style of a page, and that of a picture that is a file of its own. Every colour comes from the palette."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tandem.pages.palette import DARK, LIGHT, SERIES

__all__ = ["PAGE_STYLE", "PICTURE_STYLE"]


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


# Paper is white: a page that is read in the dark is still printed in the colours of the day.
_PAGE_COLOURS: Final = f"""\
:root {{ color-scheme: light; --shadow: 0 1px 2px rgb(20 30 40 / .06), 0 4px 16px rgb(20 30 40 / .05);
  {_variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ color-scheme: dark; --shadow: none;
  {_variables(DARK)} }} }}"""

# A font of the reader's own: a page brings none along. Inter is the console's, where it is installed.
_PAGE_LAYOUT: Final = """
:root { --sans: Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; --radius: 8px; --gap: 16px;
  --mono: ui-monospace, "JetBrains Mono", "SF Mono", Menlo, monospace; --side: 14px }
* { box-sizing: border-box }
body { margin: 0; font: 14px/1.45 var(--sans); color: var(--ink); background: var(--paper-2);
  -webkit-text-size-adjust: 100% }
header, main, footer { max-width: 1120px; margin: 0 auto; padding: 0 22px }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 14px; padding-top: 18px; padding-bottom: 18px }
.brand { display: flex; align-items: center; gap: 9px; font-weight: 650; letter-spacing: -.01em }
.brand svg { width: 24px; height: 24px; fill: none; stroke: var(--accent); stroke-width: 2.2; stroke-linejoin: round }
h1 { margin: 0; font-size: 20px; letter-spacing: -.015em; font-weight: 650; overflow-wrap: anywhere }
h2 { margin: 0; font-size: 14px; font-weight: 620 }
header .right, .head .right { margin-left: auto }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--gap) }
footer { padding-top: 22px; padding-bottom: 40px; color: var(--ink-3); font-size: 12.5px }
p { margin: 0; padding: 12px var(--side); max-width: 78ch }
small, .quiet { color: var(--ink-2) }
code { font: 12.5px var(--mono); overflow-wrap: anywhere }
ul { margin: 0; padding: 12px var(--side) 12px 32px }
.num { font-variant-numeric: tabular-nums }
.pill { display: inline-flex; align-items: center; gap: 6px; padding: 2px 9px; border-radius: 99px; font-size: 12.5px;
  font-weight: 550; background: var(--paper-3); color: var(--ink-2) }
.pill i { flex: none; width: 7px; height: 7px; border-radius: 50%; background: currentColor }
.pill.ok { color: var(--ok); background: var(--ok-soft) }
.pill.warn { color: var(--warn); background: var(--warn-soft) }
.pill.bad { color: var(--bad); background: var(--bad-soft) }

.card { background: var(--paper); border: 1px solid var(--line); border-radius: var(--radius);
  box-shadow: var(--shadow) }
.head { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 16px; padding: 11px var(--side);
  border-bottom: 1px solid var(--line) }
.body { padding: 14px var(--side) }
.note { border-top: 1px solid var(--line); color: var(--ink-2); font-size: 13px; max-width: none }
.two { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.3fr); gap: var(--gap); align-items: start }
.stack { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--gap) }
.stats { display: grid; grid-template-columns: repeat(auto-fit, minmax(168px, 1fr)); gap: 12px }
.stat { padding: 12px var(--side) 11px } .stat small { display: block; font-size: 12.5px }
.stat b { display: block; margin: 2px 0 3px; font-size: 22px; line-height: 1.25; font-weight: 620;
  letter-spacing: -.02em }
.stat.ok b { color: var(--ok) } .stat.warn b { color: var(--warn) } .stat.bad b { color: var(--bad) }
.attention { list-style: none; padding: 0 }
.attention li { display: flex; gap: 10px; align-items: baseline; padding: 10px var(--side);
  border-bottom: 1px solid var(--line) }
.attention li:last-child { border-bottom: 0 } .attention .pill { flex: none } .attention span { min-width: 0 }

.scroll { overflow-x: auto }
table { width: 100%; border-collapse: collapse }
th, td { padding: 7px var(--side); border-bottom: 1px solid var(--line); text-align: left; vertical-align: baseline }
th { font-weight: 550; font-size: 12.5px; color: var(--ink-2) } thead th { white-space: nowrap }
tbody th { font-size: 14px; font-weight: 600; color: var(--ink); overflow-wrap: anywhere; min-width: 12ch }
th small, td small { font-size: 12.5px; font-weight: 400 } th small { display: block }
tbody tr:last-child > * { border-bottom: 0 } tr.total > * { font-weight: 620; border-top: 1px solid var(--ink-3) }
.r { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
td.spark, td.share { width: 14%; vertical-align: middle } td.share .meter { margin: 0 }
.meter { display: block; height: 8px; margin-top: 5px; min-width: 60px; border-radius: 4px; background: var(--paper-3) }
.meter i { display: block; height: 100%; min-width: 2px; border-radius: 4px; background: var(--first) }

figure { margin: 0 }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; color: var(--ink-2); font-size: 12.5px }
.legend span { display: inline-flex; gap: 6px; align-items: center }
.legend i { flex: none; width: 9px; height: 9px; border-radius: 2px } .legend i.dot { border-radius: 50% }
.area { position: relative; height: 170px; margin-top: 18px }
.area svg { position: absolute; width: 100%; height: 100%; overflow: visible }
.x, .y { font-size: 11.5px; color: var(--ink-2); font-variant-numeric: tabular-nums }
.x { position: relative; height: 20px } .x span, .y span { position: absolute; white-space: nowrap }
.x span { top: 5px; transform: translateX(-50%) } .x .start { transform: none } .x .end { transform: translateX(-100%) }
.y span { left: 0; line-height: 16px; text-shadow: 0 0 3px var(--paper), 0 0 3px var(--paper) }
.band { position: absolute; top: 0; bottom: 0; min-width: 2px; background: var(--warn-soft) }
.band b { position: absolute; bottom: 100%; line-height: 16px; font-size: 11.5px; font-weight: 550; color: var(--warn);
  white-space: nowrap }
.grid { stroke: var(--line) } .grid, .line { vector-effect: non-scaling-stroke }
.line { fill: none; stroke-width: 1.75; stroke-linejoin: round } .point { stroke-width: 6; stroke-linecap: round }
.fill { opacity: .1 }
.sparkline { display: block; width: 100%; height: 22px }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 14px 24px }
.tiles b { display: block; font-weight: 600; overflow-wrap: anywhere }
.tiles .sparkline { height: 30px; margin-top: 2px }
.lanes { display: grid; gap: 10px }
.lane > div:first-child { display: flex; gap: 2px 12px; flex-wrap: wrap; margin-bottom: 3px }
.lane b { font-weight: 600; overflow-wrap: anywhere }
.track { position: relative; height: 18px; border-radius: 4px; overflow: hidden; background: var(--paper-3) }
.track i { position: absolute; top: 0; bottom: 0; min-width: 2px }
.legend i.ping, .track i.ping { border-radius: 50%; background: var(--paper); border: 1px solid var(--ink-2) }
.track i.ping { top: 6px; bottom: 6px; width: 6px; margin-left: -3px }
.legend i.answered, .track i.answered { background: var(--ok); border-color: var(--ok) }

@media (min-width: 641px) { .dense th small { display: inline } }
@media (max-width: 900px) { .two { grid-template-columns: minmax(0, 1fr) } }
@media (max-width: 640px) {
  header, main, footer { padding-left: 12px; padding-right: 12px } .wide { display: none !important }
  .stats, .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)) }
  .stat:last-child:nth-child(odd) { grid-column: span 2 } th, td { padding-left: 8px; padding-right: 8px }
  th:first-child, td:first-child { padding-left: var(--side) }
  .r { padding-left: 0; padding-right: var(--side) }
  header .right { margin-left: 0 } .area { height: 140px }
}
@media print {
  @page { margin: 14mm } body { background: none; font-size: 9.5pt; print-color-adjust: exact;
    -webkit-print-color-adjust: exact }
  header, main, footer { max-width: none; padding-left: 0; padding-right: 0 }
  main, .two, .stack { display: block } .card { box-shadow: none; break-inside: avoid; margin-bottom: 12px }
  .stats { grid-template-columns: repeat(3, minmax(0, 1fr)); margin-bottom: 12px } .stat { margin: 0 }
  tr { break-inside: avoid }
  .scroll { overflow: visible } td, th { padding-top: 4px; padding-bottom: 4px }
}"""

# Bands of time by the state of an entity, and series by their number: the same names in plots and legends.
_STATES: Final = {"healthy": "ok-band", "failing": "warn-band", "failed-over": "bad-band", "draining": "second"}
_STATE_CLASSES: Final = "\n".join(f".{name} {{ background: var(--{colour}) }}" for name, colour in _STATES.items())
_SERIES_CLASSES: Final = "\n".join(
    f".s{number} {{ fill: var(--{colour}); stroke: var(--{colour}); background: var(--{colour}) }}"
    for number, colour in enumerate(SERIES)
)

PAGE_STYLE: Final = "\n".join([_PAGE_COLOURS, _STATE_CLASSES, _SERIES_CLASSES, _PAGE_LAYOUT.strip()])

# Of a picture that stands alone, as the plots of benchmarks do. With colours in place of variables, which programs
# other than browsers do not resolve.
_PICTURE: Final = """\
text { font: 11px Inter, system-ui, sans-serif; fill: {ink-2} }
.value { font-size: 9px }
.title { font-size: 13px; font-weight: 600; fill: {ink} }
.sheet { fill: {paper} } .grid { stroke: {line} } .axis { stroke: {ink-3} }
.s0 { fill: {first}; stroke: {first} } .s1 { fill: {second}; stroke: {second} }
.s2 { fill: {third}; stroke: {third} } .s3 { fill: {fourth}; stroke: {fourth} }
.line { fill: none; stroke-width: 2 } .bar { stroke: none }"""


def _coloured(style: str, colours: Mapping[str, str]) -> str:
    return re.sub(r"\{([a-z0-9-]+)\}", lambda found: colours[found[1]], style)


PICTURE_STYLE: Final = (
    f"{_coloured(_PICTURE, LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{_coloured(_PICTURE, DARK)}\n}}"
)
