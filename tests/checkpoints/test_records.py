"""Ownerships and checkpoints between the official SDK's dictionaries and the client library's own types."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.checkpoints.records import claims_by_stream, read_checkpoint, written_checkpoint, written_ownership
from tandem.client import Checkpoint, Ownership, Stream
from tandem.errors import UsageError

NAMES: dict[str, Any] = {"fully_qualified_namespace": "n", "eventhub_name": "h", "consumer_group": "g"}
STREAM = Stream("n", "h", "g")


def test_claims_are_grouped_by_consumer_group_and_a_first_claim_has_no_etag() -> None:
    first = {**NAMES, "partition_id": "0", "owner_id": "me"}
    other = {**NAMES, "consumer_group": "other", "partition_id": "1", "owner_id": "", "etag": "7"}
    assert claims_by_stream([first, other]) == {
        STREAM: [Ownership("0", "me", 0.0, None)],
        Stream("n", "h", "other"): [Ownership("1", "", 0.0, "7")],
    }


def test_what_is_written_has_the_names_of_the_sdk() -> None:
    assert written_ownership(STREAM, Ownership("0", "me", 12.5, "7")) == {
        **NAMES,
        "partition_id": "0",
        "owner_id": "me",
        "last_modified_time": 12.5,
        "etag": "7",
    }
    checkpoint = {**NAMES, "partition_id": "0", "sequence_number": 5, "offset": "9"}
    assert written_checkpoint(STREAM, read_checkpoint(checkpoint)) == checkpoint


@pytest.mark.parametrize("offset, expected", [(None, None), (9, "9"), ("a:9", "a:9")])
def test_an_offset_is_a_text_or_missing(offset: object, expected: str | None) -> None:
    record = {**NAMES, "partition_id": "0", "sequence_number": 5, "offset": offset}
    assert read_checkpoint(record) == Checkpoint("0", 5, expected)


def test_a_checkpoint_without_a_sequence_number_is_refused() -> None:
    with pytest.raises(UsageError, match="sequence_number"):
        read_checkpoint({**NAMES, "partition_id": "0", "sequence_number": None, "offset": "9"})
