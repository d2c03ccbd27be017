"""Qpid JMS and Spring's JMS template against a running broker, and through the death of one.

The programs are in tests/compat/jms; `make peers` compiles them where Maven is at hand. `make test` runs every feature
once, and a few hundred messages through a kill -9; `make test-sdks` runs thousands.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode

from tandem.testing import Broker
from tests.compat.admin import new_name
from tests.compat.programs import IS_LONG
from tests.interop.peers.available import require_jms
from tests.markers import mission
from tests.patience import wait_until

QUEUE_FEATURES: Final = (
    "message-types", "header-fields", "browse", "selector", "selector-refused", "rollback", "commit",
    "prefetched-messages", "recover", "temporary-queue", "delivery-delay", "anonymous-producer", "missing-queue",
    "template-send-and-receive", "template-selected", "template-browse", "template-request-and-reply",
    "template-listener-rollback",
)  # fmt: skip
TOPIC_FEATURES: Final = (
    "topic", "topic-selector", "durable-subscription", "shared-subscription", "shared-durable-subscription",
    "no-local-refused", "temporary-topic",
)  # fmt: skip

# Milliseconds. The longest that there is: what comes back only with the end of a lock comes too late for any feature.
LOCK_MS: Final = 300_000

# Seconds. A tour takes ten on a machine of its own.
LIMIT_S: Final = 600.0

MESSAGES: Final = 3_000 if IS_LONG else 300

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


def program(main: str, broker: Broker, *arguments: str) -> list[str | Path]:
    parts = dict(part.split("=", 1) for part in broker.connection_string.split(";") if part)
    user, key = parts["SharedAccessKeyName"], parts["SharedAccessKey"]
    return [*require_jms(main), f"localhost:{broker.port}", user, key, *arguments]


@pytest.fixture(scope="module")
def tour(broker: Broker) -> dict[str, str]:
    """What surprised each feature; nothing is an empty text."""
    prefix = new_name("jms/")
    command = program("JmsTour", broker, prefix)
    for feature in QUEUE_FEATURES:
        broker.create_queue(prefix + feature, lock_duration_ms=LOCK_MS)
    for feature in TOPIC_FEATURES:
        broker.create_topic(prefix + feature)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    lines = [line.partition("\t") for line in ended.stdout.splitlines()]
    surprises = {feature: surprise for feature, _, surprise in lines}
    missing = dict.fromkeys(QUEUE_FEATURES + TOPIC_FEATURES, f"not reported\n{ended.stderr[-2000:]}")
    return {**missing, **surprises}


@mission("M2", "M8")
@pytest.mark.parametrize("feature", QUEUE_FEATURES + TOPIC_FEATURES)
def test_jms_finds_that(feature: str, tour: dict[str, str]) -> None:
    assert tour[feature] == ""


def _drained(broker: Broker, queue: str) -> Counter[int]:
    """Return how often each number is in a queue."""
    numbers: Counter[int] = Counter()
    with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_receiver(queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver,
    ):
        count = int(broker.queue(queue)["active_message_count"])
        while sum(numbers.values()) < count:
            messages: list[Any] = receiver.receive_messages(500, max_wait_time=5)
            # A text message of JMS has a value as its body.
            numbers.update(int(message.body) for message in messages)
    return numbers


@mission("M18")
@pytest.mark.parametrize("library", ["qpid", "spring"])
def test_no_message_of_jms_is_lost_or_doubled_when_the_broker_is_killed(library: str, tmp_path: Path) -> None:
    require_jms("JmsTraffic")
    with Broker(tmp_path / "data") as broker:
        for queue in ("in", "out"):
            # Rollbacks on purpose and deaths count as failed deliveries: none of them may end as a dead letter.
            broker.create_queue(queue, lock_duration_ms=5_000, max_delivery_count=2_000)
        command = program("JmsTraffic", broker, "in", "out", str(MESSAGES), library)
        traffic = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert traffic.stdout is not None
            wait_until(lambda: _count(broker, "out") >= MESSAGES // 4)
            broker.kill()
            broker.start()
            repeats = int(traffic.stdout.readline().partition("\t")[2])
            wait_until(lambda: _count(broker, "in") == 0 and _count(broker, "out") >= MESSAGES)
            traffic.communicate(timeout=LIMIT_S)
        finally:
            traffic.kill()
            traffic.wait()
        numbers = _drained(broker, "out")
        assert numbers.keys() == set(range(MESSAGES))
        # A send whose outcome was lost is repeated, and both may be there. Nothing else is ever doubled.
        assert sum(numbers.values()) <= MESSAGES + repeats
        assert broker.queue("in")["dead_letter_message_count"] == 0


def _count(broker: Broker, queue: str) -> int:
    return int(broker.queue(queue)["active_message_count"])
