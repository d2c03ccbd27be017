"""What a foreign client tries out on a server, and how it reports.

Each client program takes HOST PORT ADDRESS [FEATURE...] and prints one JSON object per feature and line:

    {"feature": "drain", "outcome": "passed", "detail": "", "seconds": 0.012}

The outcome is passed, failed or unsupported: the last means that the client's library cannot do it. ADDRESS is a
prefix: every feature uses queues of its own, named ADDRESS.FEATURE and the like, and expects them to be empty. User and
password are taken from AMQP_USER and AMQP_PASSWORD, guest and guest without them.

This module is imported by the programs too, so it needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Outcome = Literal["passed", "failed", "unsupported"]

# Name and meaning. A client program refuses to run if it does not know exactly these.
FEATURES: Final[Mapping[str, str]] = {
    # connections
    "sasl-anonymous": "a client gets in without a name",
    "sasl-plain": "a client gets in with user and password",
    "sasl-plain-refused": "a client with a wrong password is refused by a SASL outcome",
    "close-with-error": "a connection that the client closes with an error is closed by the server too",
    "idle-timeout": "an idle connection lives on, because the server sends empty frames in time",
    "two-sessions": "two sessions of one connection work independently",
    "many-links": "a session carries a hundred links",
    "link-reattach": "a link can be attached again under the name of a closed one",
    # messages
    "body-binary": "data sections of 0 to 70,000 bytes come back as sent",
    "body-string": "string values of both width variants come back as sent",
    "body-null": "a null value comes back",
    "body-list": "a list of every type, nested, comes back as sent",
    "body-map": "a map with keys and values of several types comes back as sent",
    "body-array": "arrays come back as sent",
    "body-described": "a described value comes back as sent",
    "body-sequence": "a sequence section comes back as sent",
    "body-data-sections": "several data sections in one message come back as sent",
    "header": "durable, priority and time to live come back as sent",
    "properties": "all thirteen properties come back as sent",
    "message-id-types": "message ids of all four types come back as sent",
    "message-annotations": "message annotations come back as sent",
    "application-properties": "application properties of every type come back as sent",
    "footer": "a footer comes back as sent",
    "message-format": "the message format of a transfer comes back as sent",
    "bare-message-bytes": "unusual but valid encodings arrive as the same bytes",
    "large-message": "300 KB travel both ways in frames of 4,096 bytes at most",
    "session-window": "500 KB arrive through a session window of 32 frames of 4,096 bytes",
    # links
    "credit-window": "1,000 messages arrive in order through a small window of credit",
    "credit-exact": "a receiver gets no more messages than it gave credit for",
    "drain": "draining delivers what there is and takes the rest of the credit back",
    "drain-empty": "draining an empty queue takes all credit back",
    "presettled-send": "messages that the sender settled in advance arrive",
    "presettled-receive": "a receiver that asked for settled messages gets them settled",
    "settle-second": "a receiver in mode second settles after the sender did",
    "outcome-accepted": "an accepted message is gone",
    "outcome-rejected": "a rejected message is gone",
    "outcome-released": "a released message comes again",
    "outcome-modified": "a modified message comes again",
    "modified-delivery-count": "a message modified as failed comes again with its delivery count raised",
    "batched-dispositions": "one disposition for a hundred deliveries settles them all",
    "detach-returns-unsettled": "what a closed link had not settled comes again",
    # transactions
    "transaction-commit": "messages sent in a transaction appear when it is committed, and not before",
    "transaction-rollback": "messages sent in a transaction that is rolled back never appear",
    "transaction-accept-commit": "a message accepted in a committed transaction is gone",
    "transaction-accept-rollback": "a message accepted in a rolled back transaction comes again",
    "transaction-unknown": "discharging a transaction that is not there is rejected",
}

# What a broker does and a mere relay of messages may leave out.
BROKER_FEATURES: Final = frozenset({"modified-delivery-count", "detach-returns-unsettled"})

_ROOT: Final = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class FeatureResult:
    """How one feature went."""

    feature: str
    outcome: Outcome
    detail: str
    seconds: float

    def line(self) -> str:
        """The line that a client program prints."""
        return json.dumps(
            {"feature": self.feature, "outcome": self.outcome, "detail": self.detail, "seconds": round(self.seconds, 3)}
        )


def run_client(
    command: Sequence[str | Path],
    *,
    host: str,
    port: int,
    address: str,
    features: Sequence[str] = (),
    user: str = "guest",
    password: str = "guest",
    limit_seconds: float = 240.0,
) -> dict[str, FeatureResult]:
    """Run a client program and return what it reported. A feature it did not get to is reported as failed.

    The call blocks: a server in the same process has to run in another thread.
    """
    environment = {**os.environ, "AMQP_USER": user, "AMQP_PASSWORD": password}
    try:
        run = subprocess.run(
            [*command, host, str(port), address, *features],
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            timeout=limit_seconds,
            check=False,
        )
        output, errors, end = run.stdout, run.stderr, f"it ended with status {run.returncode}"
    except subprocess.TimeoutExpired as expired:
        output, errors, end = expired.stdout or b"", expired.stderr or b"", f"it was ended after {limit_seconds} s"
    results = {}
    for line in output.decode().splitlines():
        report = json.loads(line)
        results[report["feature"]] = FeatureResult(
            report["feature"], report["outcome"], report["detail"], report["seconds"]
        )
    detail = f"the client did not get to it: {end}\n{errors.decode(errors='replace')[-4000:]}"
    for feature in features or FEATURES:
        results.setdefault(feature, FeatureResult(feature, "failed", detail, 0.0))
    return results
