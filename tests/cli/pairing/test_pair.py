"""`tandem pair` and `tandem syphon`, against two brokers."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandem.cli.pairing.pair import summarize
from tandem.cli.pairing.paired_clients import last_heard_text, presence
from tandem.client import sync
from tandem.pairing import SendAvailabilityPairedNamespaceOptions
from tandem.testing import Broker
from tests.cli.program import PROGRAM, TIME_LIMIT_S, environment, one_line, tandem_here
from tests.markers import mission
from tests.patience import PATIENCE_S, wait_until


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    folder = tmp_path_factory.mktemp("pair")
    arguments = ("--dev", "--allow-faults")
    with Broker(folder / "p", arguments=arguments) as primary, Broker(folder / "s", arguments=arguments) as secondary:
        yield primary, secondary


def run(brokers: tuple[Broker, Broker], *arguments: str) -> subprocess.CompletedProcess[str]:
    primary, secondary = brokers
    return tandem_here(
        *arguments, "--secondary", secondary.connection_string, connection_string=primary.connection_string
    )


def as_json(brokers: tuple[Broker, Broker], *arguments: str) -> Any:
    done = run(brokers, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def divert(brokers: tuple[Broker, Broker], namespace: str, queue: str, count: int) -> None:
    """Send messages to a queue of the primary that cannot be sent to."""
    primary, secondary = brokers
    primary.create_queue(queue)
    primary.request("POST", "/$api/v1/faults", {"kind": "refuse-sends", "entity": queue, "error": "internal-error"})
    with (
        sync.MessagingFactory.from_connection_string(primary.connection_string) as factory,
        sync.MessagingFactory.from_connection_string(secondary.connection_string) as other,
    ):
        manager = sync.NamespaceManager.from_connection_string(secondary.connection_string)
        factory.pair_namespace(
            SendAvailabilityPairedNamespaceOptions(manager, other, 2, timedelta(0), primary_namespace=namespace)
        )
        client = factory.create_queue_client(queue)
        client.send_batch([sync.BrokeredMessage(str(number), message_id=f"m{number}") for number in range(count)])
    primary.request("DELETE", "/$api/v1/faults")


def depth(brokers: tuple[Broker, Broker], namespace: str) -> int:
    return sum(
        one["active"] for one in as_json(brokers, "pair", "status", "--primary-namespace", namespace)["backlog_queues"]
    )


@mission("M19", "M21")
def test_check_finds_out_whether_a_pair_would_work(brokers: tuple[Broker, Broker]) -> None:
    found = as_json(brokers, "pair", "check", "--backlog-queues", "2", "--primary-namespace", "checked")
    assert found["is_ok"]
    assert [one["what"] for one in found["findings"]] == [
        "primary: can be reached",
        "pair: two different namespaces",
        "secondary: can be reached, with the right Manage",
        "backlog queue 0",
        "backlog queue 1",
        "backlog queues: the largest message",
        "backlog queues: room for an outage",
    ]
    _, secondary = brokers
    assert not [queue for queue in secondary.queues() if queue["name"].startswith("checked")], "nothing is changed"
    secondary.create_queue("checked/x-servicebus-transfer/0", max_delivery_count=5_000, lock_duration_ms=5_000)
    secondary.create_queue("checked/x-servicebus-transfer/1", requires_session=True)
    done = run(brokers, "pair", "check", "--backlog-queues", "2", "--primary-namespace", "checked", "--json")
    assert done.returncode == 1
    details = {one["what"]: (one["is_ok"], one["detail"]) for one in json.loads(done.stdout)["findings"]}
    assert details["backlog queue 0"][0]
    assert "lock_duration is 0:00:05 (usually 0:01:00)" in details["backlog queue 0"][1]
    assert not details["backlog queue 1"][0]
    assert details["secondary: the right Send"][0]
    assert details["secondary: the right Listen (for a syphon)"][0]


@mission("M21")
@pytest.mark.parametrize(
    "fields, risk",
    [
        ({"max_delivery_count": 10}, "max_delivery_count is 10: a message is dead-lettered after as many crashes"),
        ({"default_message_time_to_live_ms": 3_600_000}, "default_message_time_to_live is 1:00:00: messages are lost"),
        ({"auto_delete_on_idle_ms": 600_000}, "auto_delete_on_idle is 0:10:00: the queue is deleted with its messages"),
        ({"forward_to": "elsewhere"}, "messages leave the backlog"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_check_fails_for_a_backlog_queue_that_could_lose_messages(
    brokers: tuple[Broker, Broker], fields: dict[str, Any], risk: str
) -> None:
    _, secondary = brokers
    name = next(iter(fields)).replace("_", "-")
    if "forward_to" in fields:
        secondary.create_queue("elsewhere")
    secondary.create_queue(f"{name}/x-servicebus-transfer/0", **{"max_delivery_count": 2**31 - 1, **fields})
    done = run(brokers, "pair", "check", "--backlog-queues", "1", "--primary-namespace", name, "--json")
    assert done.returncode == 1
    (found,) = [one for one in json.loads(done.stdout)["findings"] if one["what"] == "backlog queue 0"]
    assert not found["is_ok"]
    assert risk in found["detail"]


def finding(brokers: tuple[Broker, Broker], what: str, *arguments: str) -> dict[str, Any]:
    done = run(brokers, "pair", "check", *arguments, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["is_ok"] else 1)
    (one,) = [one for one in found["findings"] if one["what"] == f"backlog queues: {what}"]
    assert isinstance(one, dict)
    return one


@mission("M20", "M29")
def test_check_says_how_long_an_outage_the_queues_as_they_are_absorb(brokers: tuple[Broker, Broker]) -> None:
    _, secondary = brokers
    secondary.create_queue("absorbing/x-servicebus-transfer/0", max_size_in_megabytes=1_024)
    given = ("--primary-namespace", "absorbing", "--backlog-queues", "2")
    room = finding(brokers, "room for an outage", *given)
    assert (room["is_ok"], room["figures"]) == (True, None)
    assert room["detail"].startswith("2 backlog queues have 6,144 MB free; --rate says")
    demand = (*given, "--rate", "500", "--message-bytes", "896", "--outage")
    # 6 GB hold 6,291,456 messages of 896 bytes with the 128 that rewriting adds.
    enough = finding(brokers, "room for an outage", *demand, "3h")
    assert enough["is_ok"]
    assert "absorb an outage of 3h29m42s (6,291,456 messages)" in enough["detail"]
    assert enough["figures"]["backlog_queues_needed"] == 2
    short = finding(brokers, "room for an outage", *demand, "4h")
    assert not short["is_ok"]
    assert "An outage of 4h brings 7,200,000 messages and needs 3 backlog queues." in short["detail"]


def test_check_of_an_outage_without_a_rate_is_refused(brokers: tuple[Broker, Broker]) -> None:
    assert "--outage is '4h'; give --rate too" in one_line(run(brokers, "pair", "check", "--outage", "4h"))


@mission("M24")
def test_check_fails_on_backlog_queues_that_take_smaller_messages_than_the_primary(
    brokers: tuple[Broker, Broker],
) -> None:
    primary, secondary = brokers
    primary.create_topic("films", max_message_size_in_kilobytes=4_096)
    given = ("--primary-namespace", "sized", "--backlog-queues", "2")
    try:
        assert finding(brokers, "the largest message", *given)["is_ok"], "pairing creates queues that are large enough"
        path = "sized/x-servicebus-transfer/1"
        secondary.create_queue(path)
        small = finding(brokers, "the largest message", *given)
        assert not small["is_ok"]
        assert f"'films' of the primary takes messages of 4,096 KB and {path} only 256 KB" in small["detail"]
        _, _, advice = small["detail"].partition("At the secondary: tandem ")
        assert tandem_here(*advice.split(), connection_string=secondary.connection_string).returncode == 0
        assert finding(brokers, "the largest message", *given)["is_ok"]
    finally:
        primary.delete_topic("films")


def test_check_says_who_cannot_be_reached(brokers: tuple[Broker, Broker]) -> None:
    _, secondary = brokers
    nowhere = secondary.connection_string.replace(str(secondary.port), "9")
    done = tandem_here("pair", "check", "--secondary", nowhere, connection_string=secondary.connection_string)
    assert done.returncode == 1
    assert "NO" in done.stdout
    assert "cannot be reached" in done.stdout


def test_status_shows_the_backlog_and_the_states(brokers: tuple[Broker, Broker]) -> None:
    divert(brokers, "shown", "shown-orders", 3)
    status = as_json(brokers, "pair", "status", "--primary-namespace", "shown")
    assert sum(one["active"] for one in status["backlog_queues"]) == 3
    (entity,) = [one for one in status["entities"] if one["entity"] == "shown-orders"]
    assert (entity["state"], entity["diverted"]) == ("failed-over", 3)
    assert (entity["client_state"], entity["ping_interval_s"]) == ("closed", 60.0), "it told so when it ended"
    table = run(brokers, "pair", "status", "--primary-namespace", "shown").stdout
    assert "closed, " in table
    assert "shown/x-servicebus-transfer/0" in table
    assert "failed-over" in table


def test_status_of_what_was_never_paired_says_so(brokers: tuple[Broker, Broker]) -> None:
    done = run(brokers, "pair", "status", "--primary-namespace", "nobody")
    assert "nothing was paired yet" in done.stdout


def test_the_last_state_counts_for_each_client() -> None:
    events: list[dict[str, Any]] = [
        {"entity": "a", "client": "x", "event": "failing", "time": "1"},
        {"entity": "a", "client": "x", "event": "failed-over", "time": "2"},
        {"entity": "a", "client": "y", "event": "failed-over", "time": "3"},
        {"entity": "a", "client": "x", "event": "diverted", "count": 5},
        {"entity": "a", "client": "x", "event": "restored", "time": "4"},
        {"entity": "a", "client": "z", "event": "syphoned", "count": 2},
    ]
    states = [(one["client"], one["state"], one["diverted"], one["syphoned"]) for one in summarize(events)]
    assert states == [("x", "healthy", 5, 0), ("y", "failed-over", 0, 0), ("z", "healthy", 0, 2)]


NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def event(kind: str, seconds_ago: float, **more: Any) -> dict[str, Any]:
    time = (NOW - timedelta(seconds=seconds_ago)).isoformat().replace("+00:00", "Z")
    return {"entity": "orders", "client": "x", "event": kind, "time": time, **more}


@pytest.mark.parametrize(
    "events, state, text",
    [
        ([event("failed-over", 7_200, ping_interval_s=60.0), event("ping", 100)], "open", "1m ago"),
        ([event("failed-over", 7_200, ping_interval_s=60.0), event("ping", 3_700)], "gone", "gone, 1h ago"),
        ([event("failed-over", 7_200, ping_interval_s=3_600.0)], "open", "2h ago"),
        ([event("failed-over", 400)], "gone", "gone, 6m ago"),
        ([event("failed-over", 7_200), event("restored", 90_000)], "open", "1d ago"),
        ([event("failed-over", 100), event("closed", 50, entity="")], "closed", "closed, 50s ago"),
        ([event("failed-over", 100), event("closed", 50, entity="", client="y")], "open", "1m ago"),
        ([event("diverted", 100, count=1, time="no time")], "open", ""),
    ],
    ids=["pings", "silent", "pings rarely", "an event of before", "healthy", "closed", "another's end", "no time"],
)
def test_a_client_is_gone_if_it_was_closed_or_its_pings_ceased(
    events: list[dict[str, Any]], state: str, text: str
) -> None:
    (one,) = summarize(events)
    assert (presence(one, NOW), last_heard_text(one, NOW)) == (state, text)


@mission("M26")
def test_dead_letters_of_a_backlog_queue_can_be_read_in_a_narrow_terminal(
    brokers: tuple[Broker, Broker],
) -> None:
    primary, secondary = brokers
    divert(brokers, "narrow", "narrow-orders", 2)
    primary.delete_queue("narrow-orders")
    as_json(brokers, "syphon", "run", "--until-empty", "--backlog-queues", "2", "--primary-namespace", "narrow")
    mine = [queue for queue in secondary.queues() if queue["name"].startswith("narrow/")]
    (path,) = [queue["name"] for queue in mine if queue["dead_letter_message_count"]]
    command = [*PROGRAM, "dead-letter", "list", path]
    variables = environment(COLUMNS="80", TANDEM_CONNECTION_STRING=secondary.connection_string)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables, timeout=TIME_LIMIT_S)
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    assert "message id   m0" in lines
    assert "reason       SyphonRefusedByPrimary" in lines
    assert "properties   x-ms-path=narrow-orders" in lines
    described = " ".join(line.strip() for line in lines)
    assert f"'narrow-orders' at amqp://127.0.0.1:{primary.port}: The messaging entity" in described
    assert len(lines) < 30, "a few lines for each of two messages"


@mission("M26")
def test_a_syphon_runs_until_the_backlog_is_empty(brokers: tuple[Broker, Broker]) -> None:
    divert(brokers, "drained", "drained-orders", 20)
    assert depth(brokers, "drained") == 20
    done = as_json(brokers, "syphon", "run", "--until-empty", "--backlog-queues", "2", "--primary-namespace", "drained")
    assert done == {"moved": 20, "dead_lettered": 0}
    assert depth(brokers, "drained") == 0
    assert brokers[0].queue("drained-orders")["active_message_count"] == 20


def start_syphon(brokers: tuple[Broker, Broker], namespace: str) -> subprocess.Popen[str]:
    primary, secondary = brokers
    options = ["--secondary", secondary.connection_string, "--backlog-queues", "2", "--primary-namespace", namespace]
    process = subprocess.Popen(
        [*PROGRAM, "syphon", "run", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TANDEM_CONNECTION_STRING=primary.connection_string),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready: 2 backlog queues")
    return process


@mission("M26")
def test_a_syphon_that_is_killed_loses_nothing_and_one_that_is_stopped_ends_well(
    brokers: tuple[Broker, Broker],
) -> None:
    count = 400
    # What a syphon that is killed had locked comes again when the locks end: sooner than after the usual minute.
    for number in range(2):
        brokers[1].create_queue(f"killed/x-servicebus-transfer/{number}", lock_duration_ms=5_000)
    divert(brokers, "killed", "killed-orders", count)
    with start_syphon(brokers, "killed") as process:
        wait_until(lambda: brokers[0].queue("killed-orders")["active_message_count"] > 0, "the first messages arrive")
        process.kill()
    with start_syphon(brokers, "killed") as process:
        wait_until(lambda: not depth(brokers, "killed"), "the backlog is empty")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        # Other tests pair the same primary under other names.
        assert all(line.startswith("note: this primary also has backlog queues") for line in errors.splitlines())
        assert output.startswith("moved ")
    primary, _ = brokers
    received: set[str] = set()
    with sync.MessagingFactory.from_connection_string(primary.connection_string) as factory:
        client = factory.create_queue_client("killed-orders", prefetch_count=100)
        while len(received) < count:
            messages = client.receive_batch(100, PATIENCE_S)
            assert messages, f"only {len(received)} of {count} came"
            received |= {str(message.message_id) for message in messages}
    assert received == {f"m{number}" for number in range(count)}
