"""`tandem send` and `tandem receive` against a running broker."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tandem.amqp import Message
from tandem.amqp.message import encode_message
from tandem.cli.messages.message_fields import fields_of
from tandem.cli.shared.output import neutral, neutral_lines
from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tests.cli.program import tandem, tandem_here

# What it takes to clear a screen, set a title, and write from right to left.
NASTY = "\x1b[2J\x1b]0;mine\x07\u202egnp.exe\x9b1m\r\n"


class Entity:
    """A queue or a subscription of its own, and the two commands on it."""

    def __init__(self, connection_string: ConnectionString, path: str) -> None:
        self.connection_string = connection_string
        self.path = path

    def done(self, command: str, *arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        return tandem_here(command, *arguments, connection_string=str(self.connection_string), stdin=stdin)

    def send(self, *arguments: str | Path, stdin: bytes = b"") -> str:
        done = self.done("send", self.path, *arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def receive(self, *arguments: str) -> list[Any]:
        """What is there, and the exit code says whether anything is."""
        done = self.done("receive", self.path, "--json", "--wait", "0s", *arguments)
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == (0 if messages else 1), done.stderr
        return messages

    def bodies(self, *arguments: str) -> list[str]:
        return [message["body"] for message in self.receive("--max", "0", *arguments)]

    def refusal(self, command: str, *arguments: str) -> str:
        done = self.done(command, *arguments)
        assert done.stdout == ""
        assert done.returncode == (2 if command == "receive" else 1)
        (line,) = done.stderr.splitlines()
        return line


@pytest.fixture
def queue(connection_string: ConnectionString) -> Entity:
    return new_queue(connection_string)


def new_queue(connection_string: ConnectionString, **fields: object) -> Entity:
    name = f"messages/{uuid.uuid4().hex}"
    ManagementClient(connection_string).queues.create(name, fields)
    return Entity(connection_string, name)


# --- send -----------------------------------------------------------------------------------------------------------


def test_a_message_comes_out_as_it_was_sent(queue: Entity) -> None:
    before_ms = int(time.time() * 1_000)
    options = {
        "--label": "new",
        "--message-id": "order-1",
        "--content-type": "text/plain",
        "--correlation-id": "basket-7",
        "--to": "billing",
        "--reply-to": "answers",
        "--time-to-live": "1h",
    }
    queue.send("a table, four chairs", *[part for option in options.items() for part in option])
    (message,) = queue.receive()
    assert message["body"] == "a table, four chairs"
    assert message["body_encoding"] == "text"
    assert message["label"] == "new"
    assert message["message_id"] == "order-1"
    assert message["content_type"] == "text/plain"
    assert message["correlation_id"] == "basket-7"
    assert (message["to"], message["reply_to"]) == ("billing", "answers")
    assert message["time_to_live_ms"] == 3_600_000
    assert message["expires_at_ms"] == message["enqueued_time_ms"] + 3_600_000
    assert before_ms <= message["enqueued_time_ms"] < message["locked_until_ms"]
    assert (message["sequence_number"], message["delivery_count"]) == (1, 0)
    assert message["application_properties"] == {}


def test_properties_keep_their_types(queue: Entity) -> None:
    given = {
        "text": "x=y",
        "n:int": "-3",
        "x:double": "1.5",
        "yes:bool": "true",
        "price:decimal": "1.50",
        "at:datetime": "2026-01-01T00:00:00Z",
        "span:timespan": "1m30s",
        "id:uuid": "00000000-0000-0000-0000-000000000001",
        "blob:binary": "00ff",
        "none:null": "",
    }
    queue.send("", *[part for name, value in given.items() for part in ("--property", f"{name}={value}")])
    (message,) = queue.receive("--abandon")
    assert message["application_properties"] == {
        "text": "x=y",
        "n": -3,
        "x": 1.5,
        "yes": True,
        "price": {"decimal": "1.50"},
        "at": {"datetime": 639_028_224_000_000_000},
        "span": {"timespan": 900_000_000},
        "id": {"uuid": "00000000-0000-0000-0000-000000000001"},
        "blob": {"binary": "00ff"},
        "none": None,
    }
    table = queue.done("receive", queue.path).stdout
    words = "".join(line[line.find("text=") :] if "text=" in line else line.strip() for line in table.splitlines()[1:])
    assert "2026-01-01T00:00:00Z" in words.replace(" ", "")


def test_many_are_sent_in_order_each_with_an_id_of_its_own(queue: Entity) -> None:
    answer = json.loads(queue.send("hello", "--count", "1200", "--json"))
    assert answer == {"entity": queue.path, "count": 1_200, "message_id": None}
    messages = queue.receive("--max", "0")
    assert [message["sequence_number"] for message in messages] == list(range(1, 1_201))
    assert len({message["message_id"] for message in messages}) == 1_200


def test_the_sentence_and_the_json_tell_what_was_sent(queue: Entity) -> None:
    assert queue.send("x").strip() == f"sent 1 message to {queue.path}"
    assert queue.send("x", "--count", "2").strip() == f"sent 2 messages to {queue.path}"
    sent = json.loads(queue.send("x", "--json"))
    assert sent["message_id"] == queue.receive("--max", "0")[-1]["message_id"]


def test_a_body_is_taken_from_a_file_or_the_standard_input_byte_by_byte(queue: Entity, tmp_path: Path) -> None:
    content = bytes(range(256))
    (tmp_path / "body").write_bytes(content)
    queue.send("--file", tmp_path / "body")
    queue.send("--file", "-", stdin=content)
    done = queue.done("receive", queue.path, "--max", "2", "--body-only")
    assert os.fsencode(done.stdout) == content + b"\n" + content


def test_a_scheduled_message_is_not_there_yet(queue: Entity, connection_string: ConnectionString) -> None:
    queue.send("later", "--schedule-at", "1h")
    queue.send("much later", "--schedule-at", "2999-01-01")
    assert queue.receive() == []
    assert ManagementClient(connection_string).queues.show(queue.path)["scheduled_message_count"] == 2


def test_a_topic_passes_a_message_on_to_its_subscriptions(connection_string: ConnectionString) -> None:
    topic = f"messages/{uuid.uuid4().hex}"
    client = ManagementClient(connection_string)
    client.topics.create(topic, {})
    client.subscriptions(topic).create("all", {})
    Entity(connection_string, topic).send("news")
    assert Entity(connection_string, f"{topic}/Subscriptions/all").bodies() == ["news"]


# --- receive --------------------------------------------------------------------------------------------------------


def test_messages_are_completed_when_they_were_printed(queue: Entity) -> None:
    for body in "abc":
        queue.send(body)
    assert [message["body"] for message in queue.receive()] == ["a"]
    assert queue.bodies() == ["b", "c"]
    assert queue.bodies() == []


def test_nothing_that_comes_is_an_exit_code_and_a_sentence(queue: Entity) -> None:
    done = queue.done("receive", queue.path, "--wait", "10ms")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == f"no message came from {queue.path} within 10ms"


def test_abandoned_messages_come_once_and_then_again_with_their_delivery_counted(queue: Entity) -> None:
    queue.send("a")
    queue.send("b")
    assert [message["body"] for message in queue.receive("--abandon", "--max", "5")] == ["a", "b"]
    again = queue.receive("--max", "5")
    assert [(message["body"], message["delivery_count"]) for message in again] == [("a", 1), ("b", 1)]


def test_a_dead_letter_carries_its_reason_and_is_received_from_the_sub_queue(queue: Entity) -> None:
    queue.send("poison")
    queue.receive("--dead-letter", "--reason", "bad", "--description", "cannot be eaten")
    assert queue.receive() == []
    (message,) = queue.receive("--sub-queue", "dead-letter")
    assert message["body"] == "poison"
    assert (message["dead_letter_reason"], message["dead_letter_error_description"]) == ("bad", "cannot be eaten")
    assert queue.receive("--sub-queue", "dead-letter") == []
    assert queue.receive("--sub-queue", "transfer-dead-letter") == []


def test_messages_that_are_deleted_as_they_are_sent_are_gone(queue: Entity) -> None:
    queue.send("x", "--count", "3")
    (message,) = queue.receive("--delete")
    assert message["locked_until_ms"] is None
    assert len(queue.receive("--delete", "--max", "0")) == 2
    assert queue.receive() == []


def test_a_session_is_chosen_by_its_id_or_is_the_next_one(connection_string: ConnectionString) -> None:
    queue = new_queue(connection_string, requires_session=True)
    for body, session in (("a", "one"), ("b", "two"), ("c", "one")):
        queue.send(body, "--session-id", session)
    assert "sessions" in queue.refusal("receive", queue.path)
    assert queue.bodies("--session-id", "two") == ["b"]
    messages = queue.receive("--next-session", "--max", "0")
    assert [(message["session_id"], message["body"]) for message in messages] == [("one", "a"), ("one", "c")]
    assert queue.receive("--next-session") == []


def test_inside_tls_without_the_emulator_flag(
    queue: Entity, connection_string: ConnectionString, broker_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.connection_string = ConnectionString("localhost", connection_string.port, is_emulator=False)
    assert "SSL_CERT_FILE" in queue.refusal("send", queue.path, "x")
    monkeypatch.setenv("SSL_CERT_FILE", str(broker_dir / "tls" / "ca.pem"))
    queue.send("x")
    assert queue.bodies() == ["x"]


def test_a_signature_takes_the_place_of_a_key_in_every_command(
    queue: Entity, connection_string: ConnectionString
) -> None:
    signature = connection_string.make_token(connection_string.address.http_url, int(time.time()) + 3_600)
    queue.connection_string = dataclasses.replace(connection_string, rule_name="", key="", signature=signature)
    assert "SharedAccessSignature=" in str(queue.connection_string)
    queue.send("x")
    assert "active message count" in queue.done("queue", "show", queue.path).stdout
    assert queue.bodies() == ["x"]
    hub = f"hub-{uuid.uuid4().hex}"
    for command in (["create", hub], ["send", hub, "x"], ["read", hub]):
        done = queue.done("hub", *command)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_console_program_does_the_same(queue: Entity) -> None:
    environment = str(queue.connection_string)
    sent = tandem("send", queue.path, "x", connection_string=environment)
    assert (sent.returncode, sent.stderr) == (0, "")
    received = tandem("receive", queue.path, "--body-only", connection_string=environment)
    assert (received.returncode, received.stdout, received.stderr) == (0, "x", "")


# --- what is shown --------------------------------------------------------------------------------------------------


def test_no_text_of_a_message_can_drive_a_terminal(queue: Entity) -> None:
    # An argument of a process holds no NUL, and a label of AMQP no lone surrogate; everything else can come.
    queue.send(NASTY, "--label", NASTY, "--message-id", NASTY, "--property", f"{NASTY}={NASTY}")
    done = queue.done("receive", queue.path, "--abandon", "--max", "1")
    assert done.returncode == 0
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert "\\x1b[2J" in done.stdout.replace(" ", "").replace("\n", "")
    line = queue.done("receive", queue.path, "--json").stdout
    assert line.isascii()
    assert json.loads(line)["body"] == NASTY


def test_neutral_texts_show_what_they_hide() -> None:
    assert neutral("naïve 🧑‍🚀 [bold] \\n") == "naïve 🧑‍🚀 [bold] \\n"
    assert neutral(NASTY) == "\\x1b[2J\\x1b]0;mine\\x07\\u202egnp.exe\\x9b1m\\r\\n"
    assert neutral("\U000e0001\ud800\u2028") == "\\U000e0001\\ud800\\u2028"
    assert neutral_lines("a\tb\r\n\x1b[0m") == "a\tb\\r\n\\x1b[0m"


def test_a_body_that_is_no_text_is_shown_as_hexadecimal_digits(queue: Entity) -> None:
    queue.send("--file", "-", stdin=b"\xff\x00" * 40)
    (message,) = queue.receive("--abandon")
    assert (message["body_encoding"], message["body_size_in_bytes"]) == ("base64", 80)
    table = queue.done("receive", queue.path).stdout
    assert "80 bytes: ff 00 ff 00" in " ".join(table.split())


def test_bodies_that_are_values_and_messages_that_are_broken_are_shown_as_far_as_they_can_be() -> None:
    value = fields_of(Message(encode_message(value={"a": [1, None, uuid.UUID(int=1)]})))
    assert (json.loads(value["body"]), value["body_encoding"]) == (
        {"a": [1, None, {"uuid": str(uuid.UUID(int=1))}]},
        "json",
    )
    assert fields_of(Message(encode_message(value="text")))["body"] == "text"
    assert fields_of(Message(encode_message(sequence=[1, 2])))["body"] == "[1, 2]"
    assert fields_of(Message(b""))["body"] == ""
    # Application properties whose key is no text.
    broken = fields_of(Message(bytes.fromhex("005374c104025001") + b"\x40" + encode_message(data=b"x")))
    assert (broken["body"], broken["application_properties"]) == ("x", {})
    assert broken["unreadable"]


def test_a_table_has_no_columns_in_which_nothing_stands(queue: Entity) -> None:
    queue.send("x")
    heading, row = queue.done("receive", queue.path).stdout.splitlines()
    assert heading.split() == ["sequence", "message", "id", "enqueued", "body"]
    assert row.split()[-1] == "x"


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ("send missing x", "'missing' could not be found. `tandem queue list`"),
        ("send {}", "give a body as an argument ('' for an empty one) or with --file"),
        ("send {} x --file y", "one of them"),
        ("send {} --file missing", "--file missing cannot be read: No such file"),
        ("send {} x --property a", "--property is 'a'; write NAME=VALUE"),
        ("send {} x --property a:decimal=x", "property.a is not a decimal: 'x'"),
        ("send {} x --time-to-live soon", "--time-to-live is 'soon'"),
        ("send {} x --schedule-at soon", "--schedule-at is 'soon'; write a moment as"),
        ("send {} x --schedule-at never", "--schedule-at is 'never'"),
        ("receive missing", "'missing' could not be found. `tandem queue list`"),
        ("receive {} --delete --abandon", "one of --delete, --abandon and --dead-letter"),
        ("receive {} --reason x", "--reason and --description are for --dead-letter"),
        ("receive {} --session-id x --next-session", "one of --session-id and --next-session"),
        ("receive {} --json --body-only", "one of --body-only and --json"),
        ("receive {} --wait soon", "--wait is 'soon'"),
        ("receive {} --connection-string {wrong}", "refused the rule, its key or its signature. Check the"),
        ("send {} x --connection-string {nobody}", "no broker answers at sb://127.0.0.1:1"),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(
    queue: Entity, connection_string: ConnectionString, arguments: str, reason: str
) -> None:
    wrong = str(ConnectionString("127.0.0.1", connection_string.port, key="wrong"))
    nobody = str(ConnectionString("127.0.0.1", 1))
    command, *rest = arguments.split()
    line = queue.refusal(command, *[one.replace("{}", queue.path).format(wrong=wrong, nobody=nobody) for one in rest])
    assert line.startswith("tandem: ")
    assert reason in line


def test_a_message_that_the_broker_refuses_is_an_error(queue: Entity, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(300_000))
    line = queue.refusal("send", queue.path, "--file", str(tmp_path / "large"))
    assert "262,144" in line or "262144" in line
    assert "TrackingId" not in line


@pytest.mark.parametrize("command", ["send", "receive"])
def test_help_has_examples_and_no_name_is_cut_off(command: str) -> None:
    text = tandem_here(command, "--help").stdout
    assert f"tandem {command} orders" in text
    assert "--connection-string" in text
    assert "…" not in text
