"""Write docs/start/first-minutes.md by running its commands; --check reports whether the page is out of date.

Each command of `PAGE` runs against a broker on free ports with a temporary data directory, and its output follows it
on the page. Ports, times and keys, which differ from run to run, are replaced by text of the same width.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tandem.cli import main as tandem
from tandem.testing.broker import Broker

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "start" / "first-minutes.md"

# Columns of the terminal for which tables are laid out.
COLUMNS: Final = 100

# Lines that begin with a dollar are commands; all other lines are prose.
PAGE: Final = """\
<!-- Written by `python -m tools.transcript`, which runs all of this: change that, not this page. -->

# First minutes

Start a broker, send and receive messages, handle a dead letter and filter a topic, all from the command line. The page
shows every command with its output. After `make setup`, the command is `.venv/bin/tandem`.

## Start a broker

`--dev` selects the well-known key of the official emulator, so use it for development only.

$ tandem serve --dev &

Both ports accept AMQP, TLS, HTTP and WebSocket, and the broker keeps its data in `./tandem-data`. Commands connect to a
broker that runs on this machine with these settings. For any other broker, put its connection string into
`TANDEM_CONNECTION_STRING`.

## Send and receive

$ tandem queue create orders --max-delivery-count 3
$ tandem send orders "a table, four chairs" --message-id order-1 --property amount:int=1200
$ tandem send orders "a lamp" --message-id order-2 --property amount:int=80
$ tandem peek orders
$ tandem receive orders

`receive` prints a message and then completes it, which removes it from the queue. `--abandon` returns the message to
the queue instead. `--json` prints one object per line, for scripts, and `--body-only` prints just the body, for
pipes. Control characters in a body are escaped before they reach your terminal.

$ tandem queue list

## Handle dead letters

A message that cannot be processed becomes a dead letter: a receiver, or the broker after too many deliveries, moves it
to the dead-letter queue with a reason.

$ tandem receive orders --dead-letter --reason "no lamps left" --body-only
$ tandem dead-letter list orders
$ tandem dead-letter resubmit orders --dry-run
$ tandem dead-letter resubmit orders --where "amount < 100"
$ tandem purge orders --yes

## Topics, subscriptions and rules

Each subscription of a topic receives a copy of every message that its rules select. A new subscription has one rule,
`$Default`, which selects every message.

$ tandem topic create prices
$ tandem subscription create prices europe
$ tandem rule create prices europe eu --sql "region IN ('de', 'at', 'fr')" --action "SET currency = 'EUR'"
$ tandem rule delete prices europe '$Default'
$ tandem send prices "42.00" --property region=de
$ tandem send prices "50.00" --property region=us
$ tandem receive prices/Subscriptions/europe --max 10 --body-only

`rule test` explains why the second message did not arrive:

$ tandem rule test --topic prices --property region=us

## Connect your programs

The official Azure SDKs accept this connection string as it is:

$ tandem connection-string --dev

For a program that should only send to one queue, create a separate shared access rule, which has its own key:

$ tandem key create shop --right Send --entity orders

`tandem --help` lists every command, and `tandem COMMAND --help` explains one command with examples.
`tandem completion bash|zsh|fish` prints completion for your shell. Next: [running a broker](../howto/serve.md),
[the command line](../reference/command-line.md).
"""

_REPLACEMENTS: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-11-16 09:00:00"),
    # A random key in base64.
    (re.compile(r"(?<=SharedAccessKey=)[A-Za-z0-9+/]{43}="), "bm90IGEga2V5LCBhbmQgMzIgYnl0ZXMgb2YgdGV4dCE="),
)


def render() -> str:
    """The page as it is now."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "tandem-data") as broker:
        parts = [_block(broker, lines) if is_commands else "\n".join(lines) for is_commands, lines in _paragraphs()]
    return "\n".join(parts) + "\n"


def _paragraphs() -> Iterator[tuple[bool, list[str]]]:
    """Runs of lines that are commands, or are not."""
    lines: list[str] = []
    for line in PAGE.splitlines():
        if lines and line.startswith("$ ") != lines[-1].startswith("$ "):
            yield lines[0].startswith("$ "), lines
            lines = []
        lines.append(line)
    yield lines[0].startswith("$ "), lines


def _block(broker: Broker, commands: list[str]) -> str:
    """Commands with what they print."""
    parts = ["```console"]
    for command in commands:
        parts.append(command)
        words = shlex.split(command.removeprefix("$ "))
        # The one that serves is served by the broker that runs already.
        printed = broker.stdout if words[:2] == ["tandem", "serve"] else _run(words, broker)
        parts += [line.rstrip() for line in _stable(printed, broker).splitlines()]
    return "\n".join([*parts, "```"])


def _run(words: list[str], broker: Broker) -> str:
    """A command in this process: that is quicker than a child, and prints the same."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    arguments, environment = sys.argv, dict(os.environ)
    sys.argv = words
    os.environ.update(TANDEM_CONNECTION_STRING=broker.connection_string, COLUMNS=str(COLUMNS), NO_COLOR="1")
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), contextlib.suppress(SystemExit):
            tandem()
    finally:
        sys.argv = arguments
        os.environ.clear()
        os.environ.update(environment)
    buffer = output.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def _stable(printed: str, broker: Broker) -> str:
    text = printed.replace(f"sb://127.0.0.1:{broker.port}", "sb://localhost:5672")
    text = text.replace(f":{broker.port}", ":5672").replace(f":{broker.http_port}", ":5300")
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text


def main() -> None:
    page = render()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(page)
    elif TARGET.read_text() != page:
        sys.exit(f"{TARGET.relative_to(ROOT)} is out of date: run `python -m tools.transcript`")


if __name__ == "__main__":
    main()
