"""What requests to the operations say, and what they are answered: the JSON, as types.

Requests are read by these types, so that a wrong one is refused with the name of what is wrong; answers are written by
them; and the OpenAPI document is made of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from tandem.limits import MAX_UNDEFERRED_NUMBERS

__all__ = [
    "BodyMode",
    "Error",
    "ErrorDetail",
    "JobList",
    "JobProgress",
    "JobState",
    "MentionedMessage",
    "MessageList",
    "MoveRequest",
    "PurgeRequest",
    "ResubmitRequest",
    "SessionList",
    "SessionState",
    "SessionStateRequest",
    "ShownJob",
    "ShownMessage",
    "ShownSession",
    "State",
    "UndeferRequest",
]

State = Literal["active", "deferred", "scheduled", "dead-lettered", "transfer-dead-lettered"]
BodyMode = Literal["none", "preview", "full"]
JobState = Literal["running", "completed", "failed", "cancelled"]

_SequenceNumber = Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="A sequence number.")]
_Limit = Annotated[int, Meta(ge=1, le=(1 << 63) - 1, description="How many messages at most.")]
_Moment = Annotated[int, Meta(ge=0, lt=1 << 61)] | Annotated[str, Meta(max_length=64)]
_Filter = Annotated[
    str, Meta(min_length=1, max_length=1_024, description="A SQL filter, as in a rule: only messages that match.")
]
_Target = Annotated[
    str, Meta(min_length=1, max_length=512, description="A queue, a topic, or topic/Subscriptions/name.")
]


# --- errors ---------------------------------------------------------------------------------------------------------


class RefusedArgument(Struct):
    """The field that is at fault. The template has its name and the values in braces."""

    field: str
    template: str
    values: dict[str, Any]


class ErrorDetail(Struct):
    """What went wrong."""

    condition: str
    message: str
    status: int
    argument: RefusedArgument | UnsetType = UNSET


class Error(Struct):
    """The answer to whatever was refused."""

    error: ErrorDetail


# --- messages -------------------------------------------------------------------------------------------------------


class ShownMessage(Struct, kw_only=True):
    """One message. Times are milliseconds since 1970 in UTC; null is never, or not."""

    sequence_number: int
    enqueue_sequence_number: int | None
    state: State
    message_id: str | None
    label: str | None
    content_type: str | None
    correlation_id: str | None
    session_id: str | None
    to: str | None
    reply_to: str | None
    enqueued_time_ms: int
    expires_at_ms: int | None
    time_to_live_ms: int | None
    scheduled_enqueue_time_ms: int | None
    locked_until_ms: int | None
    delivery_count: int
    size_in_bytes: int
    # Values that JSON has no type for are objects of one entry, as in rules: {"uuid": "..."}.
    application_properties: dict[str, Any]
    dead_letter_reason: str | None
    dead_letter_error_description: str | None
    dead_letter_source: str | None
    body_kind: Literal["none", "data", "amqp-sequence", "amqp-value"] | None
    body_size_in_bytes: int | None
    # Null if it was not asked for.
    body: str | None
    body_encoding: Literal["text", "base64", "json"] | None
    is_body_truncated: bool
    # What of the message is no AMQP, and is missing above.
    unreadable: str | None


class MessageList(Struct):
    """Messages in the order of their sequence numbers."""

    messages: list[ShownMessage]
    # Ask again with this as `from`; null if there are no more.
    next_from: int | None


# --- jobs -----------------------------------------------------------------------------------------------------------


class PurgeRequest(Struct, forbid_unknown_fields=True):
    """Which messages to delete."""

    state: State
    # Only messages that were enqueued before: milliseconds since 1970, or a text such as 2026-11-16T02:47:08Z.
    before: _Moment | None = None
    from_: _SequenceNumber = field(default=0, name="from")


class ResubmitRequest(Struct, forbid_unknown_fields=True):
    """Which dead letters to send again."""

    # Dead letters that were forwarded to this queue are active in it.
    state: Literal["dead-lettered", "transfer-dead-lettered", "active"] = "dead-lettered"
    dry_run: bool = False
    filter: _Filter | None = None
    limit: _Limit | None = None
    # Where they came from, if it is left out.
    target: _Target | None = None
    from_: _SequenceNumber = field(default=0, name="from")


class MoveRequest(Struct, forbid_unknown_fields=True):
    """Which messages to move, and where to."""

    target: _Target
    state: State
    dry_run: bool = False
    filter: _Filter | None = None
    limit: _Limit | None = None
    from_: _SequenceNumber = field(default=0, name="from")


class UndeferRequest(Struct, forbid_unknown_fields=True):
    """Which deferred messages to make active again: all, if no numbers are given."""

    sequence_numbers: Annotated[list[_SequenceNumber], Meta(min_length=1, max_length=MAX_UNDEFERRED_NUMBERS)] | None = (
        None
    )
    from_: _SequenceNumber = field(default=0, name="from")


class MentionedMessage(Struct):
    """One of the messages that a job is about."""

    sequence_number: int
    message_id: str | None
    target: str | None
    reason: str | None


class JobProgress(Struct):
    """How many messages were dealt with, passed over, or refused, of how many that there were at the start."""

    done: int
    skipped: int
    failed: int
    total: int


class ShownJob(Struct, kw_only=True):
    """A job, running or over."""

    id: str
    kind: Literal["purge", "resubmit", "move", "undefer"]
    entity: str
    message_state: State
    target: str | None
    dry_run: bool
    state: JobState
    progress: JobProgress
    # All messages up to this number were looked at: a new job can go on `from` the next one.
    last_sequence_number: int
    # Application properties that messages lose on their way.
    removed_properties: list[str]
    # The first messages that went or, in a dry run, would go; and the first that cannot, with the reason.
    sample: list[MentionedMessage]
    failures: list[MentionedMessage]
    error: ErrorDetail | None
    created_at_ms: int
    finished_at_ms: int | None


class JobList(Struct):
    """The newest first."""

    jobs: list[ShownJob]


# --- sessions -------------------------------------------------------------------------------------------------------


class ShownSession(Struct, kw_only=True):
    """A session that has active messages or a state."""

    session_id: str
    active_message_count: int
    has_state: bool
    state_size_in_bytes: int | None
    state_updated_at_ms: int | None
    is_locked: bool
    locked_until_ms: int | None


class SessionList(Struct):
    """Sessions in the order of their ids."""

    sessions: list[ShownSession]
    # Ask again with this as `after`; null if there are no more.
    next_after: str | None


class SessionState(Struct):
    """What an application keeps beside a session; null if there is nothing."""

    session_id: str
    state: str | None
    encoding: Literal["text", "base64"] | None


class SessionStateRequest(Struct, forbid_unknown_fields=True):
    """The new state of a session."""

    state: str
    encoding: Literal["text", "base64"] = "text"
