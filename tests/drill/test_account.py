"""The account of a drill: what counts as what, and which promises it finds broken."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tandem.drill.account import Account, Ending, expectations, violations
from tandem.drill.figures import combine_figures, make_figures
from tandem.drill.formula import Operations
from tandem.drill.plan import ENTITIES, DrillPlan, Fault
from tandem.drill.traffic import make_message
from tests.drill.sample import arrive, sample_chronicle, sample_figures

NOTHING = Ending(failed_over=(), away=(), unanswered=0, left=0)


def test_the_same_message_under_another_number_is_a_duplicate_and_under_the_same_a_redelivery() -> None:
    account = Account()
    for sequence_number in (1, 1, 2):
        arrive(account, 0, sequence_number)
    assert (account.redelivered, account.duplicates, account.out_of_order) == (1, 1, 0)


def test_what_comes_behind_a_later_one_of_its_lane_is_out_of_order() -> None:
    account = Account()
    for number in (0, 2, 1, 3):
        arrive(account, number, number + 1)
    assert account.out_of_order == 1


def test_what_was_taken_and_never_came_is_lost() -> None:
    account = Account()
    account.note_sent("drill-0", 0.0)
    account.note_sent("drill-1", 0.0)
    arrive(account, 1, 1)
    assert violations(DrillPlan(), account, NOTHING) == ["1 message is lost: drill-0"]


def test_duplicates_are_allowed_for_sends_whose_outcome_was_not_known_and_no_more() -> None:
    account = Account()
    for sequence_number in (1, 2, 3):
        arrive(account, 0, sequence_number)
    assert violations(DrillPlan(), account, Ending((), (), 2, 0)) == []
    (broken,) = violations(DrillPlan(), account, Ending((), (), 1, 0))
    assert broken == "2 duplicates, and only 1 sends whose outcome was not known: drill-0"
    (broken,) = violations(DrillPlan(has_duplicate_detection=True), account, Ending((), (), 5, 0))
    assert "although the entities detect them" in broken


@pytest.mark.parametrize("fault", [Fault.UNAUTHORIZED, Fault.SERVER_BUSY])
def test_nothing_may_fail_over_at_what_a_detour_does_not_mend(fault: Fault) -> None:
    plan = DrillPlan(fault=fault)
    assert violations(plan, Account(), Ending({"orders"}, (), 0, 0)) == [f"'orders' failed over at {fault.value}"]
    assert any("no entity fails over" in one for one in expectations(plan))


def test_only_the_entity_that_was_away_may_fail_over() -> None:
    plan = DrillPlan(fault=Fault.STALL, entity="orders")
    assert violations(plan, Account(), Ending({"orders"}, (), 0, 0)) == []
    assert violations(plan, Account(), Ending({"orders", "news"}, (), 0, 0)) == [
        "'news' failed over, and only 'orders' was away"
    ]
    assert any("no entity but 'orders' fails over" in one for one in expectations(plan))


def test_a_send_may_fail_only_for_want_of_a_right() -> None:
    account = Account(refused=3)
    assert violations(DrillPlan(fault=Fault.UNAUTHORIZED), account, NOTHING) == []
    assert "3 sends failed" in violations(DrillPlan(), account, NOTHING)[0]


def test_a_message_of_another_pair_must_not_arrive() -> None:
    account = Account("pair-2-")
    arrive(account, 0, 1)
    assert violations(DrillPlan(pairs=2), account, NOTHING) == ["1 messages of another pair arrived here"]
    assert any("each pair has backlog queues of its own" in one for one in expectations(DrillPlan(pairs=2)))


def test_figures_of_several_pairs_are_summed_and_their_violations_say_which_pair_it_was() -> None:
    one, other = sample_figures(), sample_figures(violations=["1 message is lost: drill-7"], seconds_to_detect=9.0)
    metered = Operations(14, 15, 1, 14, 40, 2, 20, 3)
    combined = combine_figures([one, other], metered, ["15 receives"])
    assert (combined["sent"], combined["diverted"], combined["seconds_to_detect"]) == (40, 14, 9.0)
    assert (combined["backlog_receives"], combined["extra_receives"], combined["peeks"]) == (15, 1, 3)
    assert combined["violations"] == ["pair 2: 1 message is lost: drill-7", "15 receives"]


def test_what_is_left_behind_is_told() -> None:
    broken = violations(DrillPlan(), Account(), Ending((), {"news"}, 0, 4))
    assert broken == ["4 messages are still in the backlog", "'news' is not back, although the primary is"]


def test_figures_count_from_the_beginning_of_the_outage() -> None:
    figures = sample_figures()
    assert figures["violations"] == []
    assert (figures["seconds_to_detect"], figures["seconds_to_restore"], figures["seconds_to_drain"]) == (
        2.0,
        18.5,
        2.0,
    )
    assert (
        figures["return_seconds"],
        figures["outage_seconds"],
        figures["started_seconds"],
        figures["ended_seconds"],
    ) == (*(1.0, 20.0, -10.0, 30.0),)
    assert figures["curves"]["sent"][-1][1] == figures["curves"]["received"][-1][1] == 20
    assert figures["curves"]["diverted"] == [[11.1, 7]]
    assert [one["state"] for one in figures["states"] if one["entity"] == "orders"] == [
        *("healthy", "failing", "failed-over", "healthy")
    ]


def test_what_did_not_happen_has_no_time() -> None:
    chronicle = sample_chronicle()
    chronicle.events.clear()
    figures = make_figures(DrillPlan(), Account(), chronicle, NOTHING)
    assert (figures["seconds_to_detect"], figures["seconds_to_drain"], figures["diverted"]) == (None, None, 0)


def test_messages_go_to_every_entity_in_turn_some_later_some_with_a_session() -> None:
    now = datetime.now(UTC)
    messages = [make_message(index, now) for index in range(120)]
    lanes = {message.lane for message in messages}
    assert {lane.partition("/")[0] for lane in lanes} == set(ENTITIES)
    assert all((message.session_id is not None) == ("payments" in message.lane) for message in messages)
    assert any(message.scheduled_enqueue_time_utc is not None for message in messages)
    assert any(message.time_to_live is not None for message in messages)
