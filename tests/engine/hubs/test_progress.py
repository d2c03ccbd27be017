"""Ownerships and checkpoints of consumer groups: claims by etag, and what becomes of them with group and hub."""

from __future__ import annotations

import pytest

from tandem.engine.effects import DropProgress, PutProgress
from tandem.engine.hubs.progress import NEVER_CLAIMED
from tandem.errors import ArgumentOutOfRange
from tandem.limits import MAX_OFFSET_CHARACTERS, MAX_OWNER_ID_CHARACTERS
from tests.engine.hubs.hub_desk import HubDesk
from tests.markers import mission

GROUP = "$Default"


@mission("M10")
def test_a_claim_on_an_older_record_is_refused_and_changes_nothing() -> None:
    desk = HubDesk()
    progress = desk.hub().progress
    first = progress.claim(GROUP, 0, "a", NEVER_CLAIMED)
    assert first is not None
    etag = first.etag
    assert progress.claim(GROUP, 0, "b", NEVER_CLAIMED) is None
    assert progress.claim(GROUP, 0, "b", etag - 1) is None
    assert [(one.owner_id, one.etag) for one in progress.of_group(GROUP)] == [("a", etag)]
    taken = progress.claim(GROUP, 0, "b", etag)
    assert taken is not None
    assert taken.etag > etag
    assert len([one for one in desk.namespace.effects.changes if isinstance(one, PutProgress)]) == 2


def test_a_claim_that_is_refused_leaves_no_record_behind() -> None:
    desk = HubDesk()
    progress = desk.hub().progress
    assert progress.claim(GROUP, 0, "a", 7) is None
    assert progress.of_group(GROUP) == []
    assert not desk.namespace.effects.has_writes


def test_a_checkpoint_leaves_the_owner_and_its_etag_alone() -> None:
    progress = HubDesk().hub().progress
    claimed = progress.claim(GROUP, 0, "a", NEVER_CLAIMED)
    assert claimed is not None
    etag = claimed.etag
    progress.checkpoint(GROUP, 0, 41, "offset")
    progress.checkpoint(GROUP, 0, 40, None)
    (record,) = progress.of_group(GROUP)
    assert (record.owner_id, record.etag, record.sequence_number, record.offset) == ("a", etag, 40, None)


def test_groups_are_kept_apart_and_their_names_have_no_case() -> None:
    progress = HubDesk().hub(consumer_groups=["Mine"]).progress
    progress.checkpoint("Mine", 0, 1, None)
    progress.checkpoint(GROUP, 0, 2, None)
    assert [one.sequence_number for one in progress.of_group("mine")] == [1]
    assert [one.sequence_number for one in progress.of_group(GROUP)] == [2]


def test_a_group_that_is_deleted_and_made_again_begins_anew() -> None:
    desk = HubDesk()
    hub = desk.hub(consumer_groups=["mine"])
    old = hub.progress.claim("mine", 0, "a", NEVER_CLAIMED)
    assert old is not None
    old_etag = old.etag
    hub.progress.checkpoint(GROUP, 0, 5, None)
    fields = {**hub.description.to_fields(), "consumer_groups": []}
    desk.namespace.hubs.update(hub, type(hub.description).from_fields(fields))
    (dropped,) = [one for one in desk.namespace.effects.changes if isinstance(one, DropProgress)]
    assert (dropped.hub_number, dropped.group) == (hub.number, "mine")
    desk.update_hub(hub, consumer_groups=["mine"])
    assert hub.progress.of_group("mine") == []
    # Whoever still has the etag of the old group owns nothing in the new one.
    new = hub.progress.claim("mine", 0, "b", NEVER_CLAIMED)
    assert new is not None
    assert new.etag > old_etag
    assert [one.sequence_number for one in hub.progress.of_group(GROUP)] == [5]


def test_what_is_restored_goes_on_with_newer_etags() -> None:
    desk = HubDesk()
    hub = desk.hub()
    far = desk.namespace.now_ms + 1_000_000
    hub.progress.restore(GROUP, 0, {"owner_id": "a", "etag": far, "claimed_at_ms": 5, "checkpointed_at_ms": 0})
    again = hub.progress.claim(GROUP, 0, "a", far)
    assert again is not None
    assert again.etag == far + 1


def test_texts_have_a_limit() -> None:
    progress = HubDesk().hub().progress
    with pytest.raises(ArgumentOutOfRange, match=f"owner_id has .* at most {MAX_OWNER_ID_CHARACTERS}"):
        progress.claim(GROUP, 0, "x" * (MAX_OWNER_ID_CHARACTERS + 1), NEVER_CLAIMED)
    with pytest.raises(ArgumentOutOfRange, match=f"offset has .* at most {MAX_OFFSET_CHARACTERS}"):
        progress.checkpoint(GROUP, 0, 1, "x" * (MAX_OFFSET_CHARACTERS + 1))
    assert progress.of_group(GROUP) == []
