"""Options of a wrong type are refused where they are given, by name, value and what is expected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tandem.client import BrokeredMessage, EventHubClient, MessagingFactory, MessagingFactorySettings, RetryPolicy
from tandem.client import TokenProvider as Provider
from tandem.client.hubs.event_processor import EventProcessorSettings
from tandem.errors import StateError, UsageError
from tests.client.network import HOST, KEY, RULE_NAME

TEXT = f"Endpoint=sb://{HOST}:1;SharedAccessKeyName={RULE_NAME};SharedAccessKey={KEY};UseDevelopmentEmulator=true"


def factory() -> MessagingFactory:
    return MessagingFactory.from_connection_string(TEXT)


# Any: mistakes have types that no signature allows.
Call = Callable[[Any], object]

WHOLE_NUMBERS: dict[str, Call] = {
    "prefetch_count": lambda value: MessagingFactorySettings(prefetch_count=value),
    "max_attempts": lambda value: RetryPolicy(max_attempts=value),
    "max_batch_count": lambda value: EventProcessorSettings(max_batch_count=value),
    "prefetch_count of a queue": lambda value: factory().create_queue_client("q", prefetch_count=value),
    "prefetch_count of a subscription": lambda value: factory().create_subscription_client(
        "t", "s", prefetch_count=value
    ),
    "prefetch_count of a partition": lambda value: EventHubClient.from_connection_string(TEXT, "hub").create_consumer(
        "$Default", "0", prefetch_count=value
    ),
}
TIMES: dict[str, Call] = {
    "operation_timeout": lambda value: MessagingFactorySettings(operation_timeout=value),
    "time_to_live": lambda value: BrokeredMessage(time_to_live=value),
}
SECONDS: dict[str, Call] = {
    "min_backoff_s": lambda value: RetryPolicy(min_backoff_s=value),
    "max_backoff_s": lambda value: RetryPolicy(max_backoff_s=value),
    "load_balancing_interval_s": lambda value: EventProcessorSettings(load_balancing_interval_s=value),
    "ownership_expiry_s": lambda value: EventProcessorSettings(ownership_expiry_s=value),
    "close_grace_s": lambda value: EventProcessorSettings(close_grace_s=value),
    "max_wait_s": lambda value: EventProcessorSettings(max_wait_s=value),
    "lifetime_s": lambda value: Provider.create_shared_access_signature("rule", "key", lifetime_s=value),
}


@pytest.mark.parametrize("value", [2.5, True, "10", timedelta(1)], ids=repr)
@pytest.mark.parametrize("name", WHOLE_NUMBERS)
def test_a_count_is_a_whole_number(name: str, value: object) -> None:
    with pytest.raises(UsageError) as raised:
        WHOLE_NUMBERS[name](value)
    assert str(raised.value) == f"{name.split(maxsplit=1)[0]} is {value!r}; it must be a whole number, an int"


@pytest.mark.parametrize(
    "value, example", [(10, "10"), (0.5, "0.5"), ("10", "10"), (False, "10")], ids=["10", "0.5", "text", "False"]
)
@pytest.mark.parametrize("name", TIMES)
def test_a_time_is_a_timedelta_and_the_error_shows_how_to_write_it(name: str, value: object, example: str) -> None:
    with pytest.raises(UsageError) as raised:
        TIMES[name](value)
    assert str(raised.value) == f"{name} is {value!r}; it must be a timedelta, such as timedelta(seconds={example})"


@pytest.mark.parametrize("value", ["10", True, timedelta(1), float("nan")], ids=repr)
@pytest.mark.parametrize("name", SECONDS)
def test_seconds_are_a_number(name: str, value: object) -> None:
    with pytest.raises(UsageError) as raised:
        SECONDS[name](value)
    assert str(raised.value) == f"{name} is {value!r}; it must be a number of seconds"


async def test_the_time_to_wait_for_messages_is_a_timedelta_or_seconds() -> None:
    wrong: Any = "soon"
    async with factory() as made:
        with pytest.raises(UsageError, match="timeout is 'soon'; it must be a number of seconds"):
            await made.create_queue_client("q").receive(wrong)


async def test_what_was_closed_is_named_by_its_kind_and_its_address() -> None:
    made = factory()
    await made.close()
    with pytest.raises(StateError, match=f"the factory for amqp://{HOST}:1 is closed; make a new one"):
        await made.create_queue_client("q").send(BrokeredMessage("too late"))
    hub = EventHubClient.from_connection_string(TEXT, "hub")
    await hub.close()
    with pytest.raises(StateError, match=f"the event hub client for amqp://{HOST}:1 is closed; make a new one"):
        await hub.get_properties()
