"""The programs in Java and Go that use the official SDKs of those languages, and the plan that each of them follows.

A program reads its plan from the standard input, one line for each step: group, transport, feature and the entity of
that feature, separated by tabs. It writes one JSON line for each step. One process serves all steps, so that a virtual
machine starts once. `make peers` compiles the programs; nothing is compiled or fetched while tests run.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tandem.testing import Broker
from tests.compat.admin import new_name
from tests.compat.sdk import ROOT_KEY, ROOT_RULE
from tools.sdk_features import ADMINISTRATION, EVENT_HUBS, FEATURES, NOT_IN_SDK, SERVICE_BUS, TRANSPORTS

# Set by `make test-sdks`: every feature over every transport, where `make test` takes the short form.
IS_LONG: Final = os.environ.get("TANDEM_SDKS") == "long"

# Seconds. A plan takes about a minute; a program whose server never answers ends here.
LIMIT_S: Final = 900.0

# What `make test` asks of each language: one feature of each kind over plain TCP, and one of each SDK over the others.
SHORT_FORM: Final = {
    (SERVICE_BUS, "tcp"): (
        "send-one", "property-types", "receive-and-delete", "peek", "schedule", "abandon", "defer", "dead-letter",
        "accept-next-session", "session-state", "missing-queue", "wrong-key", "publish-filtered", "rule-actions",
        "transaction-commit",
    ),
    (SERVICE_BUS, "tls"): ("send-one",),
    (SERVICE_BUS, "websocket"): ("send-one",),
    (EVENT_HUBS, "tcp"): ("send-and-read", "partitions", "runtime-information", "owner-level"),
    (EVENT_HUBS, "tls"): ("send-and-read",),
    (EVENT_HUBS, "websocket"): ("send-and-read",),
    (ADMINISTRATION, "tls"): ("queue", "rules", "missing", "unauthorized"),
}  # fmt: skip


class Step(NamedTuple):
    """One feature of a group over one transport."""

    group: str
    transport: str
    feature: str


@dataclass(frozen=True)
class Program:
    """A compiled program, and the name of its language."""

    language: str
    command: Sequence[str | Path]


@dataclass(frozen=True)
class Tour:
    """What one run of a program reported, and how it ended."""

    reports: Mapping[Step, Mapping[str, Any]]
    end: str

    def judge(self, step: Step) -> None:
        report = self.reports.get(step)
        assert report is not None, f"the program did not report it: {self.end}"
        assert report["ok"], report["surprise"]


@functools.cache
def steps(language: str) -> tuple[Step, ...]:
    """Return what the SDK of a language is asked to do, in the long or in the short form."""
    missing = NOT_IN_SDK[language]
    wanted = [
        Step(group, transport, feature)
        for group, features in FEATURES.items()
        # The administration client speaks HTTPS and nothing else.
        for transport in (("tls",) if group == ADMINISTRATION else TRANSPORTS)
        for feature in features
        if feature not in missing.get(group, {})
    ]
    return tuple(step for step in wanted if IS_LONG or step.feature in SHORT_FORM.get((step.group, step.transport), ()))


def run(program: Program, broker: Broker, chosen: Sequence[Step] | None = None, http_port: int | None = None) -> Tour:
    """Make the entities, let the program follow its plan, and return its reports.

    The plan has the chosen steps, or all of the language. The administration client asks the broker on `http_port`, or
    on the port that every broker has for HTTP.
    """
    plan = "".join(
        f"{step.group}\t{step.transport}\t{step.feature}\t{_make_entity(broker, step)}\n"
        for step in (steps(program.language) if chosen is None else chosen)
    )
    # TLS wants a name: an address is nothing that a client may ask for in its first message.
    endpoint = f"Endpoint=sb://localhost:{broker.port}"
    addresses = [
        f"{endpoint};SharedAccessKeyName={ROOT_RULE};SharedAccessKey={ROOT_KEY}",
        f"{endpoint};SharedAccessKeyName=Listener;SharedAccessKey=key-of-listener",
    ]
    command = [*program.command, *addresses, str(http_port or broker.http_port), broker.ca_path]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            ended = subprocess.run(
                command, input=plan.encode(), stdout=output, stderr=errors, timeout=LIMIT_S, check=False
            )
            end = f"it ended with exit code {ended.returncode}"
        except subprocess.TimeoutExpired:
            end = f"it was ended after {LIMIT_S:.0f} s"
        output.seek(0)
        errors.seek(0)
        # The last line may be cut off.
        lines = [line for line in output.read().decode().splitlines(keepends=True) if line.endswith("\n")]
        log = errors.read().decode(errors="replace")[-4000:]
    reports = {
        Step(report["group"], report["transport"], report["feature"]): report for report in map(json.loads, lines)
    }
    return Tour(reports, f"{end}\n--- stderr ---\n{log}")


def _make_entity(broker: Broker, step: Step) -> str:
    """Make the entity of a feature and return its name. The slash in the name is one more thing that has to work."""
    name = new_name(f"{step.transport}/{step.feature}")
    wanted = FEATURES[step.group][step.feature]
    if step.group == EVENT_HUBS:
        broker.create_hub(name, partition_count=4, consumer_groups=["audit"])
    elif "subscriptions" in wanted:
        broker.create_topic(name, **wanted.get("topic", {}))
        for subscription, fields in wanted["subscriptions"].items():
            broker.create_subscription(name, subscription, **fields)
    elif step.group == SERVICE_BUS:
        settings = dict(wanted.get("queue", {}))
        if wanted.get("target") or "forward_to" in settings:
            broker.create_queue(f"{name}-target")
        if "forward_to" in settings:
            settings["forward_to"] = f"{name}-target"
        broker.create_queue(name, **settings)
    # What the administration client does begins with nothing; the name is the prefix of what it makes.
    return name
