"""The broker that a command means: how it is reached, and what to do about its errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tandem.arguments import JSON_WORDS, Words
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.output import neutral_lines
from tandem.connection_string import ROOT_RULE_NAME, ConnectionString
from tandem.errors import RemoteError
from tandem.management.client import ManagementClient
from tandem.management.http_client import BrokerUnreachable
from tandem.server.keys import DEFAULT_DATA_DIR, KEYS_NAME, load_or_make_keys

__all__ = ["MANAGING_HELP", "advised", "broker_of", "management"]

# The end of the help of each group of commands.
MANAGING_HELP: Final = """\
The broker is the one that --connection-string or TANDEM_CONNECTION_STRING names, else the one on this machine whose
keys are in ./tandem-data, else `tandem serve --dev` on this
machine. Times are written as 30s, 5m, 1h30m, 7d, PT30S or never.
"""

# What to do about an error of the broker, by its condition. {noun} is what the command is about, {list} what shows it.
_ADVICE: Final = {
    "amqp:not-found": "{list} what exists.",
    "com.microsoft:entity-already-exists": "`tandem {noun} {change}` changes it, `tandem {noun} delete` removes it.",
    "com.microsoft:auth-failed": "Check the connection string: `tandem connection-string` prints the right one.",
    "amqp:unauthorized-access": "Use a connection string whose rule has the right.",
}
_LIST_ADVICE: Final = {
    "queue": "`tandem queue list` shows",
    "topic": "`tandem topic list` shows",
    "subscription": "`tandem topic list` and `tandem subscription list TOPIC` show",
    "rule": "`tandem subscription list TOPIC` and `tandem rule list TOPIC SUBSCRIPTION` show",
    "hub": "`tandem hub list` shows",
    # Where any will do: a queue, a topic, or a subscription by its path.
    "entity": "`tandem queue list`, `tandem topic list` and `tandem subscription list TOPIC` show",
    "key": "`tandem key list` shows",
    "namespace": "`tandem namespace show` shows",
}
_START_ADVICE: Final = "Start one with `tandem serve --dev`, or point to another with --connection-string."

# What the service adds to its errors for its own support begins with this.
_TRACKING: Final = " TrackingId:"


@contextlib.contextmanager
def management(connection_string: str | None, noun: str, words: Words = JSON_WORDS) -> Iterator[ManagementClient]:
    """The broker's entities. An error becomes a message in these words that also says what to do next."""
    with advised(noun, words):
        yield ManagementClient(broker_of(connection_string))


def broker_of(connection_string: str | None, data_dir: Path = DEFAULT_DATA_DIR) -> ConnectionString:
    """The one that was named; or that of a data directory on this machine; or the one for development."""
    if connection_string:
        return ConnectionString.parse(connection_string)
    if (data_dir / KEYS_NAME).is_file():
        rule = load_or_make_keys(data_dir, is_dev=False).get(ROOT_RULE_NAME)
        if rule is not None:
            return ConnectionString(rule_name=rule.name, key=rule.primary_key)
    return ConnectionString()


@contextlib.contextmanager
def advised(noun: str, words: Words = JSON_WORDS, *, leaves_unreachable: bool = False) -> Iterator[None]:
    """Add to an error what to do next. `leaves_unreachable` leaves a broker that does not answer to the caller."""
    try:
        yield
    except BrokerUnreachable as error:
        if leaves_unreachable:
            raise
        raise CommandFailed(f"{error}. {_START_ADVICE}") from error
    except RemoteError as error:
        change = "rotate" if noun == "key" else "update"
        advice = _ADVICE.get(error.condition, "").format(noun=noun, list=_LIST_ADVICE[noun], change=change)
        if error.argument is None:
            reason = error.description.partition(_TRACKING)[0].rstrip()
        else:
            reason = words.sentence(error.argument)
        # Some have several lines: a caret shows where an expression goes wrong.
        raise CommandFailed(neutral_lines(" ".join([reason, advice]).strip())) from error
