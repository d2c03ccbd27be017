"""`tandem hub` against a running broker."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import uuid
from typing import Any

import pytest

from tandem.client import BrokerCheckpointStore, Checkpoint, Ownership, Stream
from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tests.cli.program import PROGRAM, TIME_LIMIT_S, Commands, environment, tandem_here
from tests.markers import mission
from tests.patience import wait_until

# What it takes to clear a screen and set a title.
NASTY = "\x1b[2J\x1b]0;mine\x07"


@pytest.fixture
def hubs(connection_string: ConnectionString) -> Commands:
    return Commands(connection_string, "hub")


@pytest.fixture
def hub(connection_string: ConnectionString) -> str:
    """With two partitions."""
    name = f"hubs/{uuid.uuid4().hex}"
    ManagementClient(connection_string).hubs.create(name, {"partition_count": 2})
    return name


def read(hubs: Commands, hub: str, *arguments: str) -> list[Any]:
    done = hubs.done("read", hub, "--json", *arguments)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == (0 if events else 1), done.stderr
    return events


def places(events: list[Any]) -> list[tuple[str, int]]:
    return [(event["partition"], event["sequence_number"]) for event in events]


@mission("M10")
def test_a_hub_is_created_listed_shown_updated_and_deleted(hubs: Commands) -> None:
    name = "trip/logs"
    options = ["--partitions", "3", "--retention", "1d", "--retention-bytes", "1G"]
    created = hubs.json("create", name, *options, "--consumer-group", "a", "--consumer-group", "b")
    assert (created["partition_count"], created["retention_ms"]) == (3, 86_400_000)
    assert (created["retention_bytes"], created["consumer_groups"]) == (1 << 30, ["$Default", "a", "b"])
    shown = hubs.json("show", name)
    assert [one["partition"] for one in shown.pop("partitions")] == ["0", "1", "2"]
    assert shown == created
    assert created in hubs.json("list")["hubs"]
    changes = ["--retention", "never", "--retention-bytes", "none", "--status", "SendDisabled"]
    updated = hubs.json("update", name, *changes, "--add-consumer-group", "c", "--delete-consumer-group", "a")
    assert (updated["retention_ms"], updated["retention_bytes"], updated["status"]) == (None, None, "SendDisabled")
    assert updated["consumer_groups"] == ["$Default", "b", "c"]
    assert hubs.json("delete", name) == {"name": name, "is_deleted": True}
    assert name not in hubs.run("list")


@mission("M10")
def test_checkpoints_show_who_processes_what_and_how_far(
    hubs: Commands, hub: str, connection_string: ConnectionString
) -> None:
    assert "has claimed a partition" in hubs.run("checkpoints", hub)
    hubs.run("send", hub, "hello", "--partition", "1", "--count", "3")
    store = BrokerCheckpointStore.from_connection_string(str(connection_string))
    stream = Stream("", hub, "$Default")
    asyncio.run(store.claim_ownerships(stream, [Ownership("0", f"me{NASTY}", 0.0)]))
    asyncio.run(store.update_checkpoint(stream, Checkpoint("1", 0)))
    heading, owned, read_from = hubs.run("checkpoints", hub, "--group", "$default").splitlines()
    assert heading.split() == ["partition", "owner", "claimed", "checkpoint", "behind", "kept"]
    assert owned.split()[:2] == ["0", "me\\x1b[2J\\x1b]0;mine\\x07"]
    assert read_from.split()[:5] == ["1", "-", "-", "0", "2"]
    shown = hubs.json("checkpoints", hub)
    assert [one["partition"] for one in shown["ownerships"]] == ["0"]
    assert [(one["partition"], one["events_behind"]) for one in shown["checkpoints"]] == [("1", 2)]


def test_people_read_tables_with_a_bar_for_each_partition(hubs: Commands, hub: str) -> None:
    hubs.run("send", hub, "hello", "--partition", "1")
    text = hubs.run("show", hub)
    assert "consumer groups" in text
    heading, empty, full = text.splitlines()[-3:]
    assert heading.split()[:6] == ["partition", "first", "next", "events", "bytes", "fill"]
    assert "░" * 10 in empty
    assert "█" * 10 in full
    assert hub in hubs.run("list")
    assert "$operations" not in hubs.run("list")
    assert "$operations" in hubs.run("list", "--all")


@mission("M10")
def test_events_come_out_as_they_were_sent(hubs: Commands, hub: str) -> None:
    options = ["--key", "kitchen", "--property", "floor:int=2", "--content-type", "text/plain"]
    assert hubs.run("send", hub, "warm", *options).strip() == f"sent 1 event to {hub}"
    (event,) = read(hubs, hub)
    assert (event["body"], event["partition_key"], event["content_type"]) == ("warm", "kitchen", "text/plain")
    assert (event["application_properties"], event["sequence_number"], event["offset"]) == ({"floor": 2}, 0, "0")
    # They stay where they are.
    assert read(hubs, hub) == [event]


def test_a_partition_is_sent_to_and_read_by_its_number(hubs: Commands, hub: str) -> None:
    sent = hubs.json("send", hub, "x", "--partition", "1", "--count", "450")
    assert sent == {"hub": hub, "partition": "1", "partition_key": None, "count": 450}
    assert places(read(hubs, hub, "--max", "0")) == [("1", number) for number in range(450)]
    assert len(read(hubs, hub)) == 100
    assert len(read(hubs, hub, "--partition", "1", "--max", "200")) == 200
    assert read(hubs, hub, "--partition", "0") == []


def test_reading_begins_where_it_is_told(hubs: Commands, hub: str) -> None:
    for partition, count in (("0", "3"), ("1", "5")):
        hubs.run("send", hub, "x", "--partition", partition, "--count", count)
    assert places(read(hubs, hub, "--from", "2")) == [("0", 2), ("1", 2), ("1", 3), ("1", 4)]
    # Where a partition has not come that far, there is nothing.
    assert places(read(hubs, hub, "--from", "4")) == [("1", 4)]
    assert len(read(hubs, hub, "--from", "10m")) == 8
    assert len(read(hubs, hub, "--from", "2020-01-31T12:00:00Z", "--max", "2")) == 2
    assert read(hubs, hub, "--from", "2100-01-31T12:00:00") == []
    assert read(hubs, hub, "--from", "end") == []


def test_nothing_in_an_event_can_drive_a_terminal(hubs: Commands, hub: str) -> None:
    hubs.run("send", hub, NASTY, "--key", NASTY, "--property", f"{NASTY}={NASTY}")
    for arguments in ([], ["--json"]):
        text = hubs.run("read", hub, *arguments)
        assert "\x1b" not in text
        assert "\x07" not in text


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["show", "missing"], "`tandem hub list` shows what exists"),
        (["create", "$operations"], "only the broker makes"),
        (["create", "a", "--retention", "soon"], "--retention is 'soon'"),
        (["create", "a", "--retention-bytes", "1X"], "--retention-bytes is '1X'"),
        (["create", "a", "--retention", "1s"], "--retention is 1s; it must be between 1m and"),
        (["update", "{hub}"], "nothing to change"),
        (["update", "{hub}", "--delete-consumer-group", "$Default"], "cannot be deleted"),
        (["send", "{hub}", "x", "--key", "k", "--partition", "0"], "one of --key and --partition"),
        (["send", "{hub}", "x", "--partition", "9"], "between 0 and 1"),
        (["send", "{hub}"], "give a body"),
        (["delete", "$operations"], "cannot be deleted"),
    ],
)
def test_a_refusal_is_one_line_that_says_why(hubs: Commands, hub: str, arguments: list[str], reason: str) -> None:
    assert reason in hubs.refusal(*[hub if one == "{hub}" else one for one in arguments])


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["missing"], "`tandem hub list` shows what exists"),
        (["{hub}", "--partition", "7"], "has 0 to 1, or all"),
        (["{hub}", "--from", "yesterday"], "--from is 'yesterday'"),
        (["{hub}", "--group", "nobody"], "no such consumer group"),
    ],
)
def test_a_read_that_fails_says_why_and_ends_with_two(
    hubs: Commands, hub: str, arguments: list[str], reason: str
) -> None:
    hubs.run("send", hub, "x")
    done = hubs.done("read", *[hub if one == "{hub}" else one for one in arguments])
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert reason in line


def test_following_goes_on_with_what_comes(hubs: Commands, hub: str, connection_string: ConnectionString) -> None:
    hubs.run("send", hub, "old")
    with following(connection_string, hub) as reader:
        wait_until(lambda: receiver_count(connection_string, hub) == 2, "both read")
        hubs.run("send", hub, "new", "--partition", "1")
        assert reader.stdout is not None
        assert json.loads(reader.stdout.readline())["body"] == "new"
        reader.send_signal(signal.SIGINT)
        assert reader.wait(TIME_LIMIT_S) == 0


def test_following_ends_when_as_many_came_as_were_wanted(hubs: Commands, hub: str) -> None:
    hubs.run("send", hub, "x", "--count", "5")
    assert len(read(hubs, hub, "--follow", "--from", "start", "--max", "5")) == 5


def following(connection_string: ConnectionString, hub: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, "hub", "read", hub, "--follow", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(TANDEM_CONNECTION_STRING=str(connection_string)),
        # Whoever runs the tests in the background ignores the signal, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 # no threads are running yet
    )


def receiver_count(connection_string: ConnectionString, hub: str) -> int:
    partitions = ManagementClient(connection_string).hub(hub).positions()["partitions"]
    return sum(one["receiver_count"] for one in partitions)


def test_help_has_examples() -> None:
    for command in ("create", "send", "read"):
        assert f"tandem hub {command} telemetry" in tandem_here("hub", command, "--help").stdout
