"""`tandem peek`, `dead-letter`, `purge`, `session`, `export` and `import` against a running broker."""

from __future__ import annotations

import json
import stat
import subprocess
import unittest.mock
import uuid
from pathlib import Path
from typing import Any

import pytest

from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tests.cli.program import one_line, tandem_here


class Shell:
    """Commands with the broker in their environment."""

    def __init__(self, connection_string: ConnectionString) -> None:
        self.connection_string = str(connection_string)
        self.client = ManagementClient(connection_string)

    def done(self, *arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        return tandem_here(*arguments, connection_string=self.connection_string, stdin=stdin)

    def run(self, *arguments: str | Path) -> str:
        done = self.done(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def lines(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in self.run(*arguments, "--json").splitlines()]

    def queue(self, **fields: object) -> str:
        name = f"operations/{uuid.uuid4().hex}"
        self.client.queues.create(name, fields)
        return name

    def dead_letters(self, *bodies: str) -> str:
        """A queue with these dead letters, whose property `n` counts from 0."""
        queue = self.queue()
        for number, body in enumerate(bodies):
            self.run("send", queue, body, "--property", f"n:int={number}", "--message-id", body)
        self.run("receive", queue, "--max", str(len(bodies)), "--dead-letter", "--reason", "bad")
        return queue


@pytest.fixture
def shell(connection_string: ConnectionString) -> Shell:
    return Shell(connection_string)


# --- peek -----------------------------------------------------------------------------------------------------------


def test_messages_are_shown_by_their_state_and_stay(shell: Shell) -> None:
    queue = shell.queue()
    shell.run("send", queue, "now", "--label", "first")
    shell.run("send", queue, "later", "--schedule-at", "1h")
    for _ in range(2):
        (message,) = shell.lines("peek", queue)
        assert (message["body"], message["label"], message["delivery_count"]) == ("now", "first", 0)
    (scheduled,) = shell.lines("peek", queue, "--state", "scheduled")
    assert scheduled["body"] == "later"
    assert "first" in shell.run("peek", queue)
    assert "scheduled for" in shell.run("peek", queue, "--state", "scheduled")
    assert shell.run("peek", queue, "--state", "deferred").strip() == f"There are no deferred messages in {queue}."


def test_a_part_of_the_messages_is_shown_or_all(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = shell.queue()
    shell.run("send", queue, "x", "--count", "25")
    monkeypatch.setattr("tandem.management.client.PAGE_MESSAGES", 7)

    def numbers(*arguments: str) -> list[int]:
        return [message["sequence_number"] for message in shell.lines("peek", queue, *arguments)]

    assert numbers() == list(range(1, 11))
    assert numbers("--top", "0") == list(range(1, 26))
    assert numbers("--from", "20", "--top", "3") == [20, 21, 22]
    assert numbers("--from", "26") == []


# --- dead letters ---------------------------------------------------------------------------------------------------


def test_dead_letters_are_listed_with_their_reasons(shell: Shell) -> None:
    queue = shell.dead_letters("a", "b")
    listed = shell.lines("dead-letter", "list", queue)
    assert [(message["body"], message["dead_letter_reason"]) for message in listed] == [("a", "bad"), ("b", "bad")]
    heading = shell.run("dead-letter", "list", queue).splitlines()[0]
    assert "reason" in heading
    assert "no transfer-dead-lettered messages" in shell.run("dead-letter", "list", queue, "--transfer")


def test_a_dry_run_says_what_would_be_resubmitted_and_does_nothing(shell: Shell) -> None:
    queue = shell.dead_letters("a", "b")
    said = shell.run("dead-letter", "resubmit", queue, "--dry-run").splitlines()
    assert said[0] == f"2 messages of {queue} would be resubmitted"
    assert [line.split() for line in said[1:]] == [
        ["sequence", "message", "id", "to"],
        ["1", "a", queue],
        ["2", "b", queue],
    ]
    (job,) = shell.lines("dead-letter", "resubmit", queue, "--dry-run")
    assert (job["dry_run"], job["progress"]["done"]) == (True, 2)
    assert len(shell.lines("dead-letter", "list", queue)) == 2


def test_dead_letters_go_back_those_that_a_condition_selects(shell: Shell) -> None:
    queue = shell.dead_letters("a", "b", "c")
    said = shell.run("dead-letter", "resubmit", queue, "--where", "n > 0", "--limit", "1")
    assert said.startswith(f"1 message of {queue} resubmitted")
    assert [message["body"] for message in shell.lines("receive", queue, "--max", "0", "--wait", "0s")] == ["b"]
    other = shell.queue()
    shell.run("dead-letter", "resubmit", queue, "--to", other)
    assert [message["body"] for message in shell.lines("peek", other)] == ["a", "c"]


def test_dead_letters_that_cannot_go_are_told_with_the_reason(shell: Shell) -> None:
    queue = shell.dead_letters("a")
    full = shell.queue(status="SendDisabled")
    done = shell.done("dead-letter", "resubmit", queue, "--to", full)
    assert done.returncode == 1
    assert "disabled" in done.stdout + done.stderr
    assert len(shell.lines("dead-letter", "list", queue)) == 1


def test_a_mistake_in_a_condition_is_shown_by_a_caret(shell: Shell) -> None:
    done = shell.done("dead-letter", "resubmit", shell.queue(), "--where", "n >> 1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1:] == ["  n >> 1", "     ^"]


def test_whoever_interrupts_a_command_stops_its_job(shell: Shell) -> None:
    queue = shell.dead_letters("a")
    running = {"id": "7", "state": "running", "progress": {"done": 0, "skipped": 0, "failed": 0, "total": 1}}
    cancelled: list[str] = []
    with (
        unittest.mock.patch("tandem.management.client.Operations.start_job", return_value=running),
        unittest.mock.patch("tandem.management.client.ManagementClient.job", side_effect=KeyboardInterrupt),
        unittest.mock.patch(
            "tandem.management.client.ManagementClient.cancel_job",
            side_effect=cancelled.append,
        ),
    ):
        assert shell.done("dead-letter", "resubmit", queue).returncode == 130
    assert cancelled == ["7"]


# --- purge ----------------------------------------------------------------------------------------------------------


def test_messages_of_one_state_are_deleted_for_good(shell: Shell) -> None:
    queue = shell.dead_letters("dead")
    shell.run("send", queue, "x", "--count", "5")
    shell.run("send", queue, "later", "--schedule-at", "1h")
    assert shell.run("purge", queue, "--yes").strip() == f"5 messages of {queue} deleted"
    assert shell.lines("peek", queue) == []
    (job,) = shell.lines("purge", queue, "--yes", "--state", "scheduled")
    assert (job["state"], job["progress"]["done"]) == ("completed", 1)
    assert shell.run("dead-letter", "purge", queue, "--yes").strip() == f"1 message of {queue} deleted"


def test_only_what_came_before_a_moment_is_deleted(shell: Shell) -> None:
    queue = shell.queue()
    shell.run("send", queue, "x")
    assert shell.run("purge", queue, "--yes", "--before", "2001-01-01T00:00:00Z").startswith("0 messages")
    assert "before is 'noon'" in one_line(shell.done("purge", queue, "--yes", "--before", "noon"))


def test_a_script_has_to_say_yes_and_a_person_is_asked(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = shell.queue()
    shell.run("send", queue, "x")
    refused = one_line(shell.done("purge", queue))
    assert f"deletes all active messages of {queue}" in refused
    assert "--yes" in refused
    monkeypatch.setattr("tandem.cli.shared.output.is_terminal", lambda: True)
    no = shell.done("purge", queue, stdin=b"n\n")
    assert (no.returncode, no.stderr) == (1, "tandem: nothing was done\n")
    yes = shell.done("purge", queue, stdin=b"y\n")
    assert yes.returncode == 0
    assert "1 message" in yes.stdout


# --- sessions -------------------------------------------------------------------------------------------------------


def test_sessions_are_listed_and_their_state_is_set_shown_and_cleared(shell: Shell) -> None:
    queue = shell.queue(requires_session=True)
    assert shell.run("session", "list", queue).strip() == f"There are no sessions in {queue}."
    shell.run("send", queue, "x", "--session-id", "a/b", "--count", "2")
    none = shell.done("session", "show", queue, "a/b")
    assert (none.returncode, none.stdout) == (1, "")
    assert "has no state" in none.stderr
    shell.run("session", "set", queue, "a/b", '{"step": 2}')
    assert shell.run("session", "show", queue, "a/b") == '{"step": 2}'
    (shown,) = shell.lines("session", "show", queue, "a/b")
    assert (shown["state"], shown["encoding"]) == ('{"step": 2}', "text")
    ((session,),) = [one["sessions"] for one in shell.lines("session", "list", queue)]
    assert (session["session_id"], session["active_message_count"], session["has_state"]) == ("a/b", 2, True)
    assert "11 bytes" in shell.run("session", "list", queue)
    shell.run("session", "clear", queue, "a/b")
    assert shell.done("session", "show", queue, "a/b", "--json").returncode == 1


def test_a_state_that_is_no_text_stays_as_it_is(shell: Shell, tmp_path: Path) -> None:
    queue = shell.queue(requires_session=True)
    (tmp_path / "state").write_bytes(b"\xff\x00")
    shell.run("session", "set", queue, "s", "--file", tmp_path / "state")
    assert shell.run("session", "show", queue, "s") == "\udcff\x00"


# --- export and import ----------------------------------------------------------------------------------------------


def test_what_was_exported_can_be_imported_and_only_what_is_missing_is_made(shell: Shell, tmp_path: Path) -> None:
    shell.queue()  # stays, so that the document always has something that is not missing
    queue = shell.queue(max_delivery_count=3)
    file = tmp_path / "entities.json"
    assert f"topics to {file}" in shell.run("export", "--file", file)
    document = json.loads(file.read_text())
    assert [one["max_delivery_count"] for one in document["queues"] if one["name"] == queue] == [3]
    assert shell.run("export").startswith('{\n  "version": 1')
    (again,) = shell.lines("export")
    assert again["queues"] == document["queues"]
    shell.client.queues.delete(queue)
    said = shell.run("import", file, "--dry-run").splitlines()
    assert [line.split() for line in said[:2]] == [["entity", "name", "outcome"], ["queue", queue, "created"]]
    assert said[-1].startswith("a dry run, nothing was done: 1 created, ")
    assert shell.run("import", file).splitlines()[-1].startswith("1 created, ")
    shell.client.queues.update(queue, {"max_delivery_count": 7})
    (kept,) = shell.lines("import", str(file))
    assert (kept["created"], kept["updated"]) == (0, 0)
    (report,) = shell.lines("import", str(file), "--replace")
    assert (report["created"], report["updated"]) == (0, 1)
    assert shell.client.queues.show(queue)["max_delivery_count"] == 3


def test_what_cannot_be_imported_is_told_with_the_reason(shell: Shell) -> None:
    wrong = {"version": 1, "queues": [{"name": "operations/wrong", "max_delivery_count": 0}], "topics": []}
    done = shell.done("import", "-", stdin=json.dumps(wrong).encode())
    assert done.returncode == 1
    assert "max_delivery_count is 0" in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1] == "1 failed"


def test_a_file_with_keys_is_for_its_owner_only(shell: Shell, tmp_path: Path) -> None:
    rules = [{"name": "shop", "rights": ["Send"], "primary_key": "secret"}]
    queue = shell.queue(authorization_rules=rules)
    shell.run("export", "--file", tmp_path / "without")
    assert "secret" not in (tmp_path / "without").read_text()
    shell.run("export", "--with-keys", "--file", tmp_path / "with")
    assert "secret" in (tmp_path / "with").read_text()
    assert stat.S_IMODE((tmp_path / "with").stat().st_mode) == 0o600
    shell.client.queues.delete(queue)


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ("peek missing", "'missing' could not be found. `tandem queue list`"),
        ("purge missing --yes", "'missing' could not be found"),
        ("dead-letter resubmit missing", "'missing' could not be found"),
        ("session list missing", "'missing' could not be found"),
        ("import missing.json", "missing.json cannot be read: No such file"),
        ("import -", "- is no JSON document"),
        ("export --file /nowhere/at/all", "--file /nowhere/at/all cannot be written"),
        ("session set q s", "give a state as an argument"),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(shell: Shell, arguments: str, reason: str) -> None:
    assert reason in one_line(shell.done(*arguments.split()))


@pytest.mark.parametrize(
    "command",
    ["peek", "purge", "dead-letter list", "dead-letter resubmit", "dead-letter purge", "session set", "import"],
)
def test_help_has_examples_and_no_name_is_cut_off(command: str) -> None:
    text = tandem_here(*command.split(), "--help").stdout
    assert f"  tandem {command} " in text
    assert "--connection-string" in text
    assert "…" not in text
