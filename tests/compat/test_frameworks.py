"""Applications on Spring Cloud Azure and Apache Camel, unchanged, with every message accounted for.

The programs are in tests/compat/frameworks. Each sends numbers to several places, fails on some of them on purpose, and
writes a journal of what it has sent and handled. `make test-sdks` runs them twice: undisturbed, and with a broker that
is killed in the middle and started again on the same port.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tandem.connection_string import ConnectionString
from tandem.testing import Broker
from tandem.testing.ports import HOST
from tests.compat.fixed_ports import broker_with_tls_on
from tests.compat.programs import IS_LONG
from tests.interop.peers.available import require_framework
from tests.markers import mission
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(not IS_LONG, reason="`make test-sdks` runs the programs on frameworks")

NUMBERS: Final = set(range(1_000))
# As in Journal.java: some messages fail once, some always.
FAILING: Final = {number for number in NUMBERS if number % 10 == 4}
POISONED: Final = {number for number in NUMBERS if number % 25 == 7}
REMINDERS: Final = set(range(len(NUMBERS) // 5))
SESSIONS: Final = 3

# A poisoned message is dead-lettered by the broker after this many attempts, unless the application does it before.
MAX_DELIVERY_COUNT: Final = 5
# Milliseconds. Longer than a message waits in a client, also on a slow machine.
LOCK_MS: Final = 60_000

# Of each place when the broker is killed: handled and not yet settled by at most four consumers, and sent, but not yet
# confirmed, by one sender. A message of either kind comes twice.
MAX_DUPLICATES: Final = 4 + 1

# The JMS starter takes the host of a connection string, and neither its port nor the parts that it does not know.
JMS_PORT: Final = 5671


@dataclass(frozen=True)
class Place:
    """What consumers at one place are to handle, and what they may dead-letter."""

    path: str
    numbers: set[int]
    dead: set[int]


QUEUES: Final = ("orders", "tasks", "reminders")
# The durable subscription `audit` of the JMS client `shop`. The broker would create it when the client first connects.
# The test creates it before, so that it also gets what is sent earlier.
DURABLE: Final = "audit$shop$D"
ORDERS: Final = Place("orders", NUMBERS, POISONED)
BILLING: Final = Place("events/subscriptions/billing", NUMBERS, POISONED)
AUDIT: Final = Place("events/subscriptions/audit", NUMBERS, POISONED)
SAGA: Final = Place("saga", NUMBERS, set())
DELAYED: Final = Place("reminders", REMINDERS, set())


@dataclass(frozen=True)
class Application:
    """A program on a framework, and its places."""

    framework: str
    program: str
    places: Mapping[str, Place]


APPLICATIONS: Final = (
    Application(
        "spring",
        "Binder",
        {
            "orders": ORDERS,
            # The binder dead-letters at the first error, if it is set to dead-letter at all.
            "billing": Place("events/subscriptions/billing", NUMBERS, POISONED | FAILING),
            "audit": AUDIT,
            "saga": SAGA,
            "reminders": DELAYED,
        },
    ),
    Application(
        "spring",
        "Jms",
        {
            "orders": ORDERS,
            "tasks": Place("tasks", NUMBERS, POISONED),
            "billing": BILLING,
            "audit": Place(f"events/subscriptions/{DURABLE}", NUMBERS, POISONED),
            "reminders": DELAYED,
        },
    ),
    Application(
        "camel",
        "Camel",
        {"orders": ORDERS, "billing": BILLING, "audit": AUDIT, "saga": SAGA, "reminders": DELAYED},
    ),
)


class Run:
    """A running program, and its journal."""

    def __init__(self, application: Application, broker: Broker, folder: Path) -> None:
        self.application = application
        self.broker = broker
        self._journal = folder / "journal"
        self._log = folder / "log"
        for queue in QUEUES:
            broker.create_queue(queue, lock_duration_ms=LOCK_MS, max_delivery_count=MAX_DELIVERY_COUNT)
        broker.create_queue("saga", lock_duration_ms=LOCK_MS, requires_session=True)
        broker.create_topic("events")
        for subscription in ("billing", DURABLE if application.program == "Jms" else "audit"):
            broker.create_subscription(
                "events", subscription, lock_duration_ms=LOCK_MS, max_delivery_count=MAX_DELIVERY_COUNT
            )
        connection_string = broker.connection_string.replace(HOST, "localhost")
        options: list[str] = []
        if application.program == "Jms":
            connection_string = jms_connection_string(broker)
            options = trust(broker, folder / "tandem.p12")
        command = require_framework(application.framework, application.program, *options)
        with self._journal.open("wb") as journal, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, connection_string, "", str(len(NUMBERS))], stdin=subprocess.PIPE, stdout=journal, stderr=log
            )

    def events(self, event: str, place: str) -> list[int]:
        # The last line may not be complete.
        lines = self._journal.read_text(encoding="utf-8").split("\n")[:-1]
        return [
            int(number) for one, where, number in (line.split("\t") for line in lines) if (one, where) == (event, place)
        ]

    def log(self) -> str:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-4000:]
        return self._log.read_text(errors="replace")[-4000:]

    def dead(self, place: str) -> set[int]:
        """What was dead-lettered, also if the program has read it from there."""
        listed = self.broker.management.operations(self.application.places[place].path).messages(
            "dead-lettered", 0, None
        )
        return {int(one["body"]) for one in listed} | set(self.events("dead", place))

    def missing(self) -> dict[str, set[int]]:
        """What has neither been handled nor dead-lettered."""
        found = {
            name: place.numbers - set(self.events("handled", name)) - self.dead(name)
            for name, place in self.application.places.items()
        }
        return {name: numbers for name, numbers in found.items() if numbers}

    def unhandled(self) -> int:
        """How many messages that no place may dead-letter have not been handled, by the journal alone."""
        places = self.application.places.items()
        return sum(len(place.numbers - place.dead - set(self.events("handled", name))) for name, place in places)

    def wait_for_all(self) -> None:
        # At first without questions, which the broker would have to answer while it is busy.
        wait_until(lambda: not self.unhandled(), "for all messages", lambda: f"{self.missing()}\n{self.log()}")
        wait_until(lambda: not self.missing(), "for all messages", lambda: f"{self.missing()}\n{self.log()}")
        wait_until(lambda: not self.waiting(), "for empty queues", lambda: f"{self.waiting()}\n{self.log()}")

    def waiting(self) -> dict[str, int]:
        """What has not been settled, of each entity."""
        entities = [*self.broker.queues(), *self.broker.management.subscriptions("events").list_all()]
        counts = {one["name"]: one["message_count"] - one["dead_letter_message_count"] for one in entities}
        return {name: count for name, count in counts.items() if count}

    def duplicates(self, place: str) -> int:
        handled = self.events("handled", place)
        return len(handled) - len(set(handled)) + len(set(handled) & self.dead(place))

    def check(self, max_duplicates: int) -> int:
        """Check what was handled where, and return how many messages came twice."""
        for name, place in self.application.places.items():
            handled, dead = set(self.events("handled", name)), self.dead(name)
            assert handled <= place.numbers - POISONED if place.dead else handled == place.numbers, name
            assert place.dead & POISONED <= dead <= place.dead, name
            assert self.duplicates(name) <= max_duplicates, name
        assert self.events("early", "reminders") == []
        for session in range(SESSIONS):
            # In order: what was handled twice counts when it came first.
            numbers = list(dict.fromkeys(one for one in self.events("handled", "saga") if one % SESSIONS == session))
            assert numbers == sorted(numbers)
        return sum(map(self.duplicates, self.application.places))

    def stop(self) -> int:
        """Let the program end by itself, and return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


def jms_connection_string(broker: Broker) -> str:
    parsed = ConnectionString.parse(broker.connection_string)
    return f"Endpoint=sb://localhost;SharedAccessKeyName={parsed.rule_name};SharedAccessKey={parsed.key}"


def trust(broker: Broker, store: Path) -> list[str]:
    """Make a trust store as the page on running a broker says, and return the options of the machine for it."""
    make = ["keytool", "-importcert", "-noprompt", "-alias", "tandem", "-storetype", "PKCS12", "-storepass", "changeit"]
    subprocess.run([*make, "-file", broker.ca_path, "-keystore", store], check=True, capture_output=True)
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]


@pytest.fixture(params=APPLICATIONS, ids=lambda application: str(application.program))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    application: Application = request.param
    # Without the program nobody has to wait for the port.
    require_framework(application.framework, application.program)
    data = tmp_path / "data"
    with contextlib.ExitStack() as stack:
        if application.program == "Jms":
            broker = stack.enter_context(broker_with_tls_on(JMS_PORT, data, "--dev"))
        else:
            broker = stack.enter_context(Broker(data))
        run = Run(application, broker, tmp_path)
        stack.callback(run.kill)
        yield run


@mission("M35", "M1", "M3", "M5", "M7")
@pytest.mark.timeout(600)
def test_an_application_handles_every_message_once(run: Run) -> None:
    run.wait_for_all()
    assert run.check(max_duplicates=0) == 0
    assert run.stop() == 0


@mission("M35", "M15", "M36")
@pytest.mark.timeout(600)
def test_an_application_loses_nothing_when_the_broker_is_killed(run: Run) -> None:
    third = len(NUMBERS) // 3
    wait_until(lambda: len(run.events("handled", "orders")) >= third, "for a third of the orders", run.log)
    run.broker.kill()
    run.broker.start()
    run.wait_for_all()
    duplicates = run.check(MAX_DUPLICATES)
    counted = Counter({name: len(run.events("handled", name)) for name in run.application.places})
    print(f"{run.application.program}: {counted.total()} handled, none lost, {duplicates} came twice")
    assert run.stop() == 0
