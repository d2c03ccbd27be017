"""What a rule looks at: the system and user properties of one message, decoded when first asked for and once only.

However many filters of however many subscriptions ask, a message's properties are decoded, their names folded and their
values made what rules compute with (`values.py`) at most once. The body is never decoded.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from tandem.amqp.message import Message, MessageId, Properties, id_text
from tandem.errors import DecodeError
from tandem.rules.errors import RuleArgumentError, RuleEvaluationError
from tandem.rules.system import (
    CODES,
    CONTENT_TYPE,
    CORRELATION_ID,
    DATETIME_CODES,
    DEAD_LETTER_SOURCE,
    DELIVERY_COUNT,
    ENQUEUED_SEQUENCE_NUMBER,
    ENQUEUED_TIME,
    EXPIRES_AT,
    LABEL,
    MESSAGE_ID,
    PARTITION_KEY,
    PROPERTIES_SECTION_COUNT,
    REPLY_TO,
    REPLY_TO_SESSION_ID,
    SCHEDULED_ENQUEUE_TIME,
    SEQUENCE_NUMBER,
    SESSION_ID,
    SIZE,
    SYSTEM_COUNT,
    TIME_TO_LIVE,
    TO,
    VIA_PARTITION_KEY,
)
from tandem.rules.values import DateTime, TimeSpan, amqp_value, fold, rule_value

__all__ = ["Subject", "system_value"]

# Units of work, as `RULE_WORK_PER_TURN` has them: to decode a user property, or to copy one for an action.
_PROPERTY_WORK: Final = 500


class Subject:
    """The properties of one message. Make it by `of_message` or `of_values`.

    `new_id` makes the GUIDs of `newid()`; without it a rule that calls `newid()` fails. A draft, which `draft` makes
    for an action, can be changed and keeps the values as they are in the message beside those that rules see.
    """

    __slots__ = ("_bare", "_is_section_read", "_message", "_raw", "_spellings", "_system", "_user", "new_id", "work")

    def __init__(self, new_id: Callable[[], uuid.UUID] | None = None) -> None:
        self.new_id = new_id
        # What evaluating rules for it has cost, in the units of `RULE_WORK_PER_TURN`; whoever counts sets it to 0.
        self.work: int = 0
        self._bare: bytes = b""
        self._message: Message | None = None
        self._is_section_read: bool = True
        self._system: list[object] = [None] * SYSTEM_COUNT
        # Folded name to value, as rules see it and as it is written; all spellings of a name that the message has.
        self._user: dict[str, object] | None = None
        self._raw: dict[str, object] | None = None
        self._spellings: dict[str, list[str]] | None = None

    @staticmethod
    def of_message(
        bare: bytes,
        *,
        time_to_live_ms: int | None = None,
        scheduled_enqueue_time_ms: int | None = None,
        enqueued_time_ms: int | None = None,
        partition_key: str | None = None,
        via_partition_key: str | None = None,
        delivery_count: int | None = None,
        sequence_number: int | None = None,
        enqueued_sequence_number: int | None = None,
        dead_letter_source: str | None = None,
        size_bytes: int | None = None,
        new_id: Callable[[], uuid.UUID] | None = None,
    ) -> Subject:
        """Of an encoded bare message, and of what is not in it. Times are milliseconds since 1970."""
        subject = Subject(new_id)
        subject._bare = bare
        subject._is_section_read = False
        system = subject._system
        system[PARTITION_KEY] = partition_key
        system[VIA_PARTITION_KEY] = via_partition_key
        system[DELIVERY_COUNT] = delivery_count
        system[SEQUENCE_NUMBER] = sequence_number
        system[ENQUEUED_SEQUENCE_NUMBER] = enqueued_sequence_number
        system[DEAD_LETTER_SOURCE] = dead_letter_source
        system[SIZE] = len(bare) if size_bytes is None else size_bytes
        if time_to_live_ms is not None:
            system[TIME_TO_LIVE] = TimeSpan.of_ms(time_to_live_ms)
        if scheduled_enqueue_time_ms is not None:
            system[SCHEDULED_ENQUEUE_TIME] = DateTime.of_ms(scheduled_enqueue_time_ms)
        if enqueued_time_ms is not None:
            system[ENQUEUED_TIME] = DateTime.of_ms(enqueued_time_ms)
            if time_to_live_ms is not None:
                system[EXPIRES_AT] = DateTime.of_ms(enqueued_time_ms + time_to_live_ms)
        return subject

    @staticmethod
    def of_values(
        system: Mapping[str, object] | None = None,
        user: Mapping[str, object] | None = None,
        new_id: Callable[[], uuid.UUID] | None = None,
    ) -> Subject:
        """Of plain values. Names of system properties are those of rules, without `sys.`; underscores do not count.

        An integer is taken for milliseconds where the property is a time (since 1970) or a TimeSpan.
        """
        subject = Subject(new_id)
        for name, value in (system or {}).items():
            code = CODES.get(fold(name).replace("_", ""))
            if code is None:
                raise RuleArgumentError(f"there is no system property {name!r:.80}")
            subject._system[code] = system_value(code, value)
        subject._keep_user(user or {})
        return subject

    def user(self, folded_name: str) -> object:
        """The value of a user property as rules see it; None if it is null or there is none."""
        values = self._user
        return self._read_user().get(folded_name) if values is None else values.get(folded_name)

    def has_user(self, folded_name: str) -> bool:
        values = self._user
        return folded_name in (self._read_user() if values is None else values)

    def system(self, folded_name: str) -> object:
        """The value of a system property as rules see it; None if the message does not have it."""
        code = CODES.get(folded_name)
        if code is None:
            raise RuleEvaluationError(f"there is no system property sys.{folded_name:.80}")
        return self.system_at(code)

    def system_at(self, code: int) -> object:
        """The same by its number in `system.py`."""
        if code < PROPERTIES_SECTION_COUNT and not self._is_section_read:
            self._read_section()
        return self._system[code]

    def draft(self) -> Subject:
        """A copy that an action can change. It has done the work that it takes to make it."""
        draft = Subject(self.new_id)
        self.system_at(MESSAGE_ID)
        draft._system = self._system.copy()
        draft._user = (self._read_user() if self._user is None else self._user).copy()
        raw: dict[str, object] = {}
        spellings: dict[str, list[str]] = {}
        for name, value in self._written().items():
            folded = fold(name)
            if folded not in raw:
                raw[folded] = value
                spellings[folded] = []
            spellings[folded].append(name)
        draft._raw = raw
        draft._spellings = spellings
        draft.work = _PROPERTY_WORK * len(raw)
        return draft

    def raw_user(self, folded_name: str) -> object:
        """Of a draft: the AMQP value of a user property; None if it is null or there is none."""
        return None if self._raw is None else self._raw.get(folded_name)

    def spellings(self, folded_name: str, name: str) -> list[str]:
        """Of a draft: how the message spells a name, and from now on as `name` if it does not have it.

        More than one is a sender's mistake, since names have no case.
        """
        assert self._spellings is not None
        return self._spellings.setdefault(folded_name, [name])

    def set_user(self, folded_name: str, raw: object) -> None:
        """Of a draft: give a user property an AMQP value."""
        assert self._user is not None
        assert self._raw is not None
        self._user[folded_name] = rule_value(raw)
        self._raw[folded_name] = raw

    def remove_user(self, folded_name: str) -> None:
        assert self._user is not None
        assert self._raw is not None
        self._user.pop(folded_name, None)
        self._raw.pop(folded_name, None)

    def set_system(self, code: int, value: object) -> None:
        self._system[code] = value

    def _located(self) -> Message:
        message = self._message
        if message is None:
            try:
                message = Message(self._bare)
            except DecodeError as error:
                raise RuleEvaluationError(f"the message cannot be read: {error}") from error
            self._message = message
        return message

    def _read_section(self) -> None:
        try:
            properties = self._located().properties or Properties()
        except DecodeError as error:
            raise RuleEvaluationError(f"the message's properties cannot be read: {error}") from error
        system = self._system
        system[MESSAGE_ID] = _optional_id(properties.message_id)
        system[CORRELATION_ID] = _optional_id(properties.correlation_id)
        system[CONTENT_TYPE] = rule_value(properties.content_type)
        system[LABEL] = properties.subject
        system[TO] = properties.to
        system[REPLY_TO] = properties.reply_to
        system[SESSION_ID] = properties.group_id
        system[REPLY_TO_SESSION_ID] = properties.reply_to_group_id
        self._is_section_read = True

    def _written(self) -> Mapping[str, object]:
        """The user properties as they are in the message, or as they were given."""
        if self._raw is not None:
            return self._raw
        try:
            return self._located().application_properties or {}
        except DecodeError as error:
            raise RuleEvaluationError(f"the message's application properties cannot be read: {error}") from error

    def _read_user(self) -> dict[str, object]:
        values = _seen(self._written())
        self.work += _PROPERTY_WORK * len(values)
        self._user = values
        return values

    def _keep_user(self, user: Mapping[str, object]) -> None:
        self._raw = {name: _encodable(value) for name, value in user.items()}
        self._user = _seen(user)


def _seen(written: Mapping[str, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in written.items():
        folded = fold(name)
        # Of two names that differ in case only the first one counts.
        if folded not in values:
            values[folded] = rule_value(value)
    return values


def _encodable(value: object) -> object:
    """What Python has a type for and AMQP's types here have not, as it would have come in a message."""
    if isinstance(value, (datetime.datetime, datetime.timedelta, decimal.Decimal)):
        return amqp_value(rule_value(value))
    return value


def _optional_id(message_id: MessageId | None) -> object:
    return None if message_id is None else id_text(message_id)


def system_value(code: int, value: object) -> object:
    """What rules see of a system property that is given as a plain value."""
    if isinstance(value, int) and not isinstance(value, bool):
        if code in DATETIME_CODES:
            return DateTime.of_ms(int(value))
        if code == TIME_TO_LIVE:
            return TimeSpan.of_ms(int(value))
    return rule_value(value)
