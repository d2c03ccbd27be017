"""Write the pages of docs/ that are made from the code, or with --check say which are out of date.

docs/limits.md                     from src/tandem/limits.py
docs/reference/compatibility.md    from the last `make test-sdks`, in tests/compat/results.json, and the data beside it
docs/reference/errors.md           from src/tandem/errors.py
docs/reference/event-hubs.md       its table of settings, from src/tandem/entity_settings.py
docs/reference/faults.md           its tables, from src/tandem/fault_kinds.py and tools/fault_surfaces.py
docs/reference/pairing.md          its table of errors, from src/tandem/pairing/judging.py
docs/reference/queues.md           its table of settings, from src/tandem/entity_settings.py
docs/reference/tiers.md            its table, from src/tandem/engine/tiers.py
docs/reference/state-machines.md   from the tables of src/tandem/amqp/states.py, src/tandem/pairing/failover.py and
                                   src/tandem/server/health/gauge.py
docs/reference/topics.md           its table of settings, from src/tandem/entity_settings.py
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tandem import client, errors, limits
from tandem.amqp import states
from tandem.durations import duration_text
from tandem.engine.tiers import Tier, limits_of
from tandem.entity_settings import HUB, QUEUE, SETTINGS, STATUSES, SUBSCRIPTION, TOPIC, Form, Setting
from tandem.fault_kinds import DEFAULT_ERRORS, ERRORS, FaultKind, name_of_error
from tandem.pairing.detour import Judgement
from tandem.pairing.failover import TRANSITIONS
from tandem.pairing.judging import FailoverRule, judge_primary
from tandem.server.health import gauge
from tools import compatibility
from tools.fault_surfaces import DESCRIPTIONS, EXPECTED, MEANINGS, Surface

ROOT = Path(__file__).resolve().parent.parent
# A table of any of the state machines: the key of a Mapping is invariant, so no common base will do.
Table = Mapping[Any, enum.Enum]
_TABLE_BEGIN = "<!-- The table of errors is made from the code by `make docs`. -->"
_TABLE_END = "<!-- End of the table of errors. -->"
_TIERS_BEGIN = "<!-- The table of limits is made from the code by `make docs`. -->"
_TIERS_END = "<!-- End of the table of limits. -->"

_CONSEQUENCES = {
    Judgement.LOST: "failover, unless the next connection works",
    Judgement.TIMED_OUT: "failover",
    Judgement.UNAVAILABLE: "failover",
    Judgement.TRANSIENT: "tried again; failover after the timeout of the send",
    Judgement.REFUSED: "raised",
    Judgement.BUSY: "waits 10 seconds",
}

_COMPATIBILITY_NOTICE = (
    "<!-- Made by `make docs` from the results of `make test-sdks`: run that, and commit both. -->\n\n"
)
NOTICE = "<!-- Made from the code by `make docs`: change the code, not this page. -->\n\n"


_HELD_BY_A_CONNECTION = [
    [
        "open transactions",
        "`MAX_TRANSACTION_BYTES_PER_CONNECTION`",
        "the operation is refused, and the transaction can only be rolled back",
    ],
    [
        "messages and batches that wait for the disk, requests that wait for an answer",
        "`MAX_UNDECIDED_BYTES_PER_CLIENT`",
        "the broker stops reading from the connection",
    ],
    ["incomplete deliveries", "`MAX_INCOMPLETE_BYTES`", "the connection is closed"],
    [
        "messages on their way to a client that does not read, or that keeps its session window shut",
        "`MAX_OWED_BYTES`, and 1 MiB",
        "its receivers get nothing more until it reads",
    ],
    [
        "messages locked for its receivers",
        "`MAX_LOCKS_PER_CONNECTION`",
        "its receivers get nothing more until some are settled",
    ],
    [
        "messages of the entities that it receives from",
        "`MAX_HEADS_BYTES` for all entities",
        "they stay on disk until they can be delivered",
    ],
    ["answers to requests", "`MAX_ANSWER_BYTES`, and one answer", "further requests wait"],
    [
        "links and sessions",
        "5,000 of each, and `MAX_ATTACH_BYTES` for one that waits for a session",
        "the connection is closed",
    ],
]

_HOSTILE_CONNECTION = """
## What one connection can hold

One authenticated connection makes the broker hold a bounded amount of memory, whatever it sends and however slowly it
reads ([ADR 22](adr/0022-memory-of-one-connection.md)). Each way has its own bound:

{table}
`python -m tests.load.memory` attacks a broker in each of these ways and measures how its resident memory grows. The
greatest growth measured was 132 MB, by 100 transactions of 100 messages of 255 KB, of which the broker counts 32 MiB;
the bound of the programme is `MAX_CONNECTION_BYTES`, chosen just above that.
"""


_LIMITS_INTRODUCTION = """# Limits

Every bound that a client, an operator or a program can meet, and why it is what it is. A namespace of the tier
`standard` or `premium` has [further limits](reference/tiers.md), those of the cloud service.
"""


def limits_page() -> str:
    """Return each constant with the comment above it, whose first sentence is the unit."""
    source = (ROOT / "src/tandem/limits.py").read_text()
    parts = [NOTICE, _LIMITS_INTRODUCTION]
    table = _table(["what it makes the broker hold", "bound", "past it"], _HELD_BY_A_CONNECTION)
    parts.append(_HOSTILE_CONNECTION.format(table=table))
    comment: list[str] = []
    for line in source.splitlines():
        if heading := re.match(r"# --- (.+?) -+$", line):
            parts.append(f"\n## {heading[1]}\n\n| limit | value | unit | reason |\n|---|---|---|---|\n")
            comment = []
        elif line.startswith("# "):
            comment.append(line[2:])
        elif constant := re.match(r"([A-Z_0-9]+): Final = ", line):
            unit, _, reason = " ".join(comment).partition(". ")
            parts.append(f"| `{constant[1]}` | {getattr(limits, constant[1]):,} | {unit.lower()} | {reason} |\n")
            comment = []
        else:
            comment = []
    return "".join(parts)


def errors_page() -> str:
    """Every error with a wire form."""
    parts = [
        NOTICE,
        "# Errors\n\nWhat goes onto the wire, what it ends, and whether trying again helps.\n\n",
        "| class | condition | HTTP | ends the | transient | meaning |\n|---|---|---|---|---|---|\n",
    ]
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.ProtocolError) and kind is not errors.ProtocolError:
            transient = "yes" if kind.is_transient else "no"
            cells = [f"`{name}`", f"`{kind.condition}`", str(kind.http_status), kind.scope.value, transient]
            parts.append(f"| {' | '.join(cells)} | {(kind.__doc__ or '').strip()} |\n")
    return "".join(parts)


def faults_page() -> str:
    return _with_tables(
        "faults.md", {"kinds": _fault_kinds(), "errors": _fault_errors(), "surfaces": _fault_surfaces()}
    )


def settings_page(name: str, *kinds: str) -> str:
    """Return a page with its table of the settings of these kinds of entities."""
    return _with_tables(name, {"settings": settings_table(*kinds)})


def settings_table(*kinds: str) -> str:
    """Return each setting with its default, what is allowed, and what it is for."""
    rows: list[list[str]] = []
    for setting in SETTINGS:
        if set(setting.kinds) & set(kinds):
            defaults = [_default(setting) if kind in setting.kinds else "" for kind in kinds]
            rows.append([f"`{setting.name}`", *defaults, _allowed(setting, kinds), setting.help.replace("|", "\\|")])
    return _table(["setting", *(kinds if len(kinds) > 1 else ("default",)), "allowed", "meaning"], rows)


def _default(setting: Setting) -> str:
    if isinstance(setting.default, tuple):
        return ", ".join(f"`{one}`" for one in setting.default)
    return "null" if setting.default is None else _value(setting, setting.default)


def _value(setting: Setting, value: int | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return f"{value:,} (`{duration_text(value)}`)" if setting.form is Form.DURATION else f"{value:,}"


def _allowed(setting: Setting, kinds: tuple[str, ...]) -> str:
    rules: list[str] = []
    if setting.form in {Form.DURATION, Form.NUMBER, Form.BYTES}:
        least = _value(setting, setting.least)
        rules.append(f"from {least}" if setting.most is None else f"{least} to {_value(setting, setting.most)}")
    elif setting.form is Form.STATUS:
        choices = {kind: ", ".join(one.value for one in STATUSES[kind]) for kind in kinds}
        rules += choices.values() if len(kinds) == 1 else [f"{kind}: {names}" for kind, names in choices.items()]
    elif setting.form is Form.ADDRESS:
        rules.append("a queue or topic that exists")
    elif setting.form is Form.TEXT:
        rules.append(f"up to {setting.most:,} characters")
    elif setting.form is Form.NAMES:
        rules.append(f"up to {setting.most:,} names")
    if setting.is_nullable and setting.default is not None:
        rules.append("null")
    if setting.is_fixed:
        rules.append("cannot be changed later")
    return "; ".join(rules)


def _with_tables(name: str, tables: Mapping[str, str]) -> str:
    """Return a page as it is, with its tables made anew."""
    path = ROOT / "docs/reference" / name
    text = path.read_text()
    for title, table in tables.items():
        begin, end = f"<!-- Made from the code by `make docs`: {title} -->\n\n", "\n<!-- end -->"
        before, mark, rest = text.partition(begin)
        assert mark, f"{path} has lost the marks around its table of {title}"
        text = f"{before}{begin}{table}{end}{rest.partition(end)[2]}"
    return text


def _table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _fault_kinds() -> str:
    rows = []
    for kind in FaultKind:
        does, needs = DESCRIPTIONS[kind]
        error = DEFAULT_ERRORS.get(kind)
        rows.append([f"`{kind.value}`", does, needs, "" if error is None else f"`{name_of_error(error)}`"])
    return _table(["kind", "does", "needs", "error unless you choose one"], rows)


def _fault_errors() -> str:
    rows = [
        [f"`{name}`", f"`{error.condition}`", str(error.http_status), "yes" if error.is_transient else "no"]
        for name, error in ERRORS.items()
    ]
    return _table(["error", "condition", "HTTP", "transient"], rows)


def _fault_surfaces() -> str:
    rows = [[f"`{kind.value}`", *[EXPECTED[kind][surface].value for surface in Surface]] for kind in FaultKind]
    meanings = _table(["seen", "meaning"], [[seen.value, meaning] for seen, meaning in MEANINGS.items()])
    return _table(["kind", *[surface.value for surface in Surface]], rows) + "\n" + meanings


def _diagram(table: Table) -> str:
    lines = [f"    {state.name} --> {target.name}: {step.value}" for (state, step), target in table.items()]
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def states_page() -> str:
    """One diagram per table."""
    tables: list[tuple[str, str, Table]] = [
        ("Connection", "AMQP 1.0 part 2.4.6.", states.CONNECTION_TABLE),
        ("Session", "AMQP 1.0 part 2.5.5.", states.SESSION_TABLE),
        ("Link", "AMQP 1.0 part 2.6.", states.LINK_TABLE),
        ("SASL, server", "AMQP 1.0 part 5.3.", states.SASL_SERVER_TABLE),
        ("SASL, client", "AMQP 1.0 part 5.3.", states.SASL_CLIENT_TABLE),
    ]
    parts = [
        NOTICE,
        "# State machines\n\nThe tables of `tandem/amqp/states.py`, drawn. What has no arrow is not allowed: ",
        "from the peer it is answered with `amqp:not-allowed`, from the caller with `StateError`.\n",
    ]
    for name, clause, table in tables:
        parts.append(f"\n## {name}\n\n{clause}\n\n{_diagram(table)}")
    parts.append(
        "\n## Failover of an entity\n\nThe table of `tandem/pairing/failover.py`: where the messages of one entity of "
        "paired namespaces go. An input without an arrow changes nothing.\n\n"
    )
    moves = {pair: target for pair, (target, _) in TRANSITIONS.items() if target is not pair[0]}
    parts.append(_diagram(moves))
    parts.append(
        "\n## A facet of a broker's health\n\nThe table of `tandem/server/health/gauge.py`: how a broker judges one of "
        "its facets. Requests are refused while it is overloaded or easing.\n\n"
    )
    parts.append(_gauge_diagram())
    return "".join(parts)


def _gauge_diagram() -> str:
    lines: list[str] = []
    for (condition, reading, is_long), target in gauge.TRANSITIONS.items():
        is_always = gauge.TRANSITIONS[condition, reading, not is_long] is target
        if target is not condition and not (is_always and is_long):
            moment = "" if is_always else " for the sustained time"
            lines.append(f"    {condition.name} --> {target.name}: limit {reading.value}{moment}")
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def failover_table() -> str:
    """Every error of a send with what follows from it, by each rule."""
    client_errors = [getattr(client.errors, name) for name in client.errors.__all__]
    kinds = [one for one in client_errors if isinstance(one, type) and issubclass(one, client.errors.MessagingError)]
    rows: list[tuple[str, client.errors.MessagingError]] = [(f"`{kind.__name__}`", kind("")) for kind in kinds]
    inside = client.errors.error_of_condition("amqp:internal-error", "")
    rows.append(("`MessagingError` for `amqp:internal-error`", inside))
    parts = ["| error | `is_transient` | `availability` (default) | `documented` |\n|---|---|---|---|\n"]
    for name, error in sorted(rows, key=lambda row: row[0]):
        follows = [_CONSEQUENCES[judge_primary(error, rule)] for rule in FailoverRule]
        parts.append(f"| {name} | {'yes' if error.is_transient else 'no'} | {' | '.join(follows)} |\n")
    return "".join(parts)


def pairing_page() -> str:
    """The page as it is, with the table between its two marks made anew."""
    path = ROOT / "docs/reference/pairing.md"
    before, begin, rest = path.read_text().partition(_TABLE_BEGIN)
    _, end, after = rest.partition(_TABLE_END)
    assert end, f"{path} has lost the marks around its table of errors"
    return f"{before}{begin}\n\n{failover_table()}\n{end}{after}"


def tiers_table() -> str:
    """Return each limit that depends on the tier, one column for each tier."""
    columns = [limits_of(tier) for tier in Tier]
    parts = [f"| limit | {' | '.join(f'`{one.name}`' for one in columns)} |\n|---|{'---|' * len(columns)}\n"]
    for name in columns[0].to_fields():
        values = [_limit_text(one.to_fields()[name]) for one in columns]
        parts.append(f"| `{name}` | {' | '.join(values)} |\n")
    return "".join(parts)


def _limit_text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(f"{one:,}" for one in value) or "any"
    return f"{value:,}"


def tiers_page() -> str:
    """Return the page as it is, with the table between its two marks made anew."""
    path = ROOT / "docs/reference/tiers.md"
    before, begin, rest = path.read_text().partition(_TIERS_BEGIN)
    _, end, after = rest.partition(_TIERS_END)
    assert end, f"{path} has lost the marks around its table of limits"
    return f"{before}{begin}\n\n{tiers_table()}\n{end}{after}"


def pages() -> dict[Path, str]:
    return {
        ROOT / "docs/limits.md": limits_page(),
        ROOT / "docs/reference/compatibility.md": _COMPATIBILITY_NOTICE + compatibility.page(),
        ROOT / "docs/reference/errors.md": errors_page(),
        ROOT / "docs/reference/event-hubs.md": settings_page("event-hubs.md", HUB),
        ROOT / "docs/reference/faults.md": faults_page(),
        ROOT / "docs/reference/state-machines.md": states_page(),
        ROOT / "docs/reference/pairing.md": pairing_page(),
        ROOT / "docs/reference/queues.md": settings_page("queues.md", QUEUE),
        ROOT / "docs/reference/tiers.md": tiers_page(),
        ROOT / "docs/reference/topics.md": settings_page("topics.md", TOPIC, SUBSCRIPTION),
    }


def main(arguments: list[str]) -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run `make docs` and commit it", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages()[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
