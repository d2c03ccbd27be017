"""Who a primary is, and which backlog queues are its own: by names and marks, without a network."""

from __future__ import annotations

import socket

import pytest

from tandem.client import NamespaceIdentity, QueueDescription
from tandem.connection_string import ServiceAddress
from tandem.pairing.marks import BacklogMark
from tandem.pairing.ownership import (
    BacklogOwner,
    BacklogQueue,
    ForeignBacklogError,
    Reached,
    backlog_queues_of,
    resolve_owner,
)
from tests.markers import mission

MACHINE = socket.gethostname().lower()
AWAY = Reached(False)
SILENT = Reached(True)
SALES = Reached(True, NamespaceIdentity("sales", "1" * 32))
SALES_BY_DEFAULT = Reached(True, NamespaceIdentity("sales", "1" * 32, is_default=True))
DEFAULT = Reached(True, NamespaceIdentity("sbemulatorns", "abcdef0123456789"))


def owner_at(address: str, reached: Reached, name: str | None = None, *queues: BacklogQueue) -> BacklogOwner:
    return resolve_owner(ServiceAddress.parse(address), reached, name, queues)


def queue(path: str, mark: BacklogMark | None = None) -> BacklogQueue:
    (found,) = backlog_queues_of([QueueDescription(path, user_metadata=None if mark is None else mark.to_text())])
    return found


SPELLINGS = ["amqp://127.0.0.1:5672", "amqp://localhost:5672", "amqp://[::1]:5672", "amqp://LOCALHOST.:5672"]


@mission("M21")
@pytest.mark.parametrize("address", [*SPELLINGS, "amqp://sales.localhost:5672", "sb://broker.example:5671"])
def test_a_primary_that_reports_its_name_is_called_by_it_however_its_address_is_written(address: str) -> None:
    assert owner_at(address, SALES).name == "sales"
    assert owner_at(address, SALES).id == "1" * 32


@pytest.mark.parametrize("address", SPELLINGS)
def test_the_name_that_every_broker_has_by_default_is_made_unique(address: str) -> None:
    assert owner_at(address, DEFAULT).name == "sbemulatorns-abcdef01"


@pytest.mark.parametrize("reached", [AWAY, SILENT])
@pytest.mark.parametrize("address", SPELLINGS)
def test_all_spellings_of_this_machine_are_one_and_carry_its_name(address: str, reached: Reached) -> None:
    owner = owner_at(address, reached)
    assert owner.name == f"{MACHINE}-5672"
    assert owner.addresses == (f"{MACHINE}:5672",)


@mission("M21")
@pytest.mark.parametrize(
    "address, name",
    [
        ("sb://contoso.servicebus.windows.net", "contoso"),
        ("sb://Contoso.servicebus.usgovcloudapi.net", "contoso"),
        ("amqp://sales.localhost:5672", "sales"),
        ("sb://broker.example", "broker.example"),
        ("sb://broker.example:5671", "broker.example-5671"),
        ("amqp://[2001:db8::5]:5672", "2001-db8-5-5672"),
        ("amqp://sbemulatorns.localhost:5672", f"sbemulatorns.{MACHINE}-5672"),
    ],
)
@pytest.mark.parametrize("reached", [AWAY, SILENT])
def test_a_primary_that_does_not_say_is_named_by_its_address(address: str, name: str, reached: Reached) -> None:
    assert owner_at(address, reached).name == name


def test_a_name_that_was_chosen_stands() -> None:
    for reached in (AWAY, SILENT, SALES):
        assert owner_at("amqp://localhost:5672", reached, "chosen").name == "chosen"


def test_an_id_is_known_of_what_answered_and_of_the_cloud_only() -> None:
    assert owner_at("amqp://localhost:5672", AWAY).id is None
    assert owner_at("amqp://localhost:5672", SILENT).id == f"{MACHINE}:5672"
    assert owner_at("sb://contoso.servicebus.windows.net", AWAY).id == "contoso.servicebus.windows.net"


def test_marks_survive_the_way_through_a_queue_and_foreign_texts_are_not_marks() -> None:
    mark = BacklogMark("sales", "1" * 32, (f"{MACHINE}:5672",))
    assert BacklogMark.parse(mark.to_text()) == mark
    assert BacklogMark.parse(BacklogMark("sales", None).to_text()) == BacklogMark("sales", None)
    for text in (None, "", "ours, do not touch", "{}", "[]", '{"tandem-backlog": 5}', '{"tandem-backlog": {"id": 5}}'):
        assert BacklogMark.parse(text) is None


def test_a_mark_fits_its_queue_however_many_addresses_a_primary_has() -> None:
    mark = BacklogMark("sales", "1" * 32)
    for number in range(20):
        mark = mark.with_address(f"{'long-host-name.' * 12}{number}:5672")
    text = mark.to_text()
    assert len(text) <= 1_024
    known = BacklogMark.parse(text)
    assert known is not None
    assert known.addresses[-1].endswith("19:5672"), "the newest stays"


@mission("M21")
def test_a_queue_without_a_mark_is_used_as_it_is() -> None:
    own = queue("sales/x-servicebus-transfer/0")
    owner = owner_at("amqp://localhost:5672", SALES, None, own)
    owner.require_own([own], "amqp://secondary")
    assert owner.select([own], 1) == [own]


def test_queues_of_another_namespace_with_the_same_name_are_refused() -> None:
    theirs = queue("sales/x-servicebus-transfer/0", BacklogMark("sales", "2" * 32, ("elsewhere:5672",)))
    owner = owner_at("amqp://localhost:5672", SALES, None, theirs)
    with pytest.raises(ForeignBacklogError, match=r"with the id 2222.*elsewhere:5672.*--primary-namespace"):
        owner.require_own([theirs], "amqp://secondary")
    assert owner.select([theirs], 10) == []


def test_queues_that_another_machine_made_provisionally_under_the_same_name_are_refused() -> None:
    theirs = queue("sales/x-servicebus-transfer/0", BacklogMark("sales", None, ("sales.elsewhere:5672",)))
    owner = owner_at("amqp://localhost:5672", SALES, None, theirs)
    with pytest.raises(ForeignBacklogError, match=r"could not reach its primary at sales.elsewhere:5672"):
        owner.require_own([theirs], "amqp://secondary")


def test_queues_that_were_made_provisionally_under_a_chosen_name_belong_to_who_is_given_the_name() -> None:
    made = queue("chosen/x-servicebus-transfer/0", BacklogMark("chosen", None, ("elsewhere:5672",)))
    owner = owner_at("amqp://localhost:5672", SALES, "chosen", made)
    owner.require_own([made], "amqp://secondary")
    assert owner.select([made], 1) == [made]


def test_a_primary_that_is_away_is_found_by_what_its_secondary_remembers() -> None:
    known = queue("sales/x-servicebus-transfer/0", BacklogMark("sales", "1" * 32, ("x:1", f"{MACHINE}:5672")))
    owner = owner_at("amqp://[::1]:5672", AWAY, None, known)
    assert (owner.name, owner.id) == ("sales", "1" * 32)


def test_a_primary_that_is_away_does_not_take_a_name_that_another_one_has() -> None:
    theirs = queue("sales/x-servicebus-transfer/0", BacklogMark("sales", "2" * 32, ("sales.elsewhere:5672",)))
    owner = owner_at("amqp://sales.localhost:5672", AWAY, None, theirs)
    assert owner.name == f"sales.{MACHINE}-5672"


def test_a_syphon_finds_what_was_made_under_a_provisional_name() -> None:
    marked = queue("provisional/x-servicebus-transfer/3", BacklogMark("provisional", "1" * 32))
    not_yet = queue("other/x-servicebus-transfer/0", BacklogMark("other", None, (f"sales.{MACHINE}:5672",)))
    theirs = queue("theirs/x-servicebus-transfer/0", BacklogMark("theirs", "2" * 32))
    unmarked = queue("unmarked/x-servicebus-transfer/0")
    queues = [marked, not_yet, theirs, unmarked]
    assert owner_at("amqp://localhost:5672", SALES).select(queues, 10) == [marked, not_yet]
    assert owner_at("amqp://localhost:5672", SALES, "unmarked").select(queues, 10) == [unmarked]


def test_a_syphon_finds_what_a_program_left_that_never_reached_the_primary() -> None:
    left = queue(f"{MACHINE}-5672/x-servicebus-transfer/0", BacklogMark("left", None, (f"{MACHINE}:5672",)))
    assert owner_at("amqp://sales.localhost:5672", SALES_BY_DEFAULT).select([left], 10) == [left]
    assert owner_at("amqp://sales.localhost:5672", SALES).select([left], 10) == [], "the address of another namespace"
    assert owner_at("amqp://sales.localhost:5673", SALES_BY_DEFAULT).select([left], 10) == [], "another broker"


def test_a_syphon_with_a_chosen_name_knows_what_it_leaves_out() -> None:
    other = queue("other/x-servicebus-transfer/0", BacklogMark("other", "1" * 32))
    theirs = queue("theirs/x-servicebus-transfer/0", BacklogMark("theirs", "2" * 32))
    not_yet = queue("not-yet/x-servicebus-transfer/0", BacklogMark("not-yet", None, ("elsewhere:5672",)))
    assert owner_at("amqp://localhost:5672", SALES, "chosen").unwatched([other, theirs, not_yet]) == {"other": 0}
    assert owner_at("amqp://localhost:5672", SALES).unwatched([other, theirs]) == {}


@mission("M21")
def test_a_syphon_leaves_unmarked_queues_beyond_its_count_alone() -> None:
    queues = [queue(f"sales/x-servicebus-transfer/{index}") for index in range(3)]
    assert owner_at("amqp://localhost:5672", SALES).select(queues, 2) == queues[:2]
