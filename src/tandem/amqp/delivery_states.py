"""Delivery states and outcomes (AMQP 1.0 parts 3.4 and 4.5.5 to 4.5.8), and the error composite (part 2.8.14)."""

from __future__ import annotations

from typing import Final

from tandem.amqp.encode import encode, encode_described_list
from tandem.amqp.fields import Fields, show
from tandem.amqp.types import Described, Symbol, UInt, ULong
from tandem.errors import DecodeError, ProtocolError

__all__ = [
    "ACCEPTED",
    "RELEASED",
    "Accepted",
    "AmqpError",
    "Declared",
    "DeliveryState",
    "Modified",
    "Received",
    "Rejected",
    "Released",
    "TransactionalState",
    "UnknownState",
    "delivery_state",
    "optional_error",
]

ERROR: Final = 0x1D
RECEIVED: Final = 0x23
ACCEPTED_CODE: Final = 0x24
REJECTED: Final = 0x25
RELEASED_CODE: Final = 0x26
MODIFIED: Final = 0x27
DECLARED: Final = 0x33
TRANSACTIONAL_STATE: Final = 0x34

# Peers may name a type by symbol instead of by number (part 1.2).
_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:error:list": ERROR,
    "amqp:received:list": RECEIVED,
    "amqp:accepted:list": ACCEPTED_CODE,
    "amqp:rejected:list": REJECTED,
    "amqp:released:list": RELEASED_CODE,
    "amqp:modified:list": MODIFIED,
    "amqp:declared:list": DECLARED,
    "amqp:transactional-state:list": TRANSACTIONAL_STATE,
}


class AmqpError:
    """What a peer is told: always three fields on the wire, since the official SDKs index the third."""

    __slots__ = ("condition", "description", "info")

    def __init__(
        self, condition: str, description: str | None = None, info: dict[object, object] | None = None
    ) -> None:
        self.condition = condition
        self.description = description
        self.info = info

    @staticmethod
    def of(error: ProtocolError) -> AmqpError:
        return AmqpError(error.condition, error.description)

    def shortened(self, by_bytes: int) -> AmqpError:
        """Return the error with a description that takes `by_bytes` fewer bytes, as far as it has that many."""
        text = (self.description or "").encode()
        kept = text[: max(0, len(text) - by_bytes)].decode("utf-8", "ignore")
        return AmqpError(self.condition, kept, self.info)

    def to_described(self) -> Described:
        return Described(ULong(ERROR), [Symbol(self.condition), self.description, self.info])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AmqpError) and encode(self.to_described()) == encode(other.to_described())

    def __hash__(self) -> int:
        return hash(self.condition)

    def __repr__(self) -> str:
        values: list[object] = [self.condition, self.description, self.info]
        return show("AmqpError", ("condition", "description", "info"), values)


class DeliveryState:
    """Base of all delivery states."""

    __slots__ = ()

    def to_described(self) -> Described:
        raise NotImplementedError

    def encoded(self) -> bytes:
        return encode(self.to_described())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeliveryState) and self.encoded() == other.encoded()

    def __hash__(self) -> int:
        return hash(self.encoded())

    def __repr__(self) -> str:
        described = self.to_described()
        return f"{type(self).__name__}({described.value!r})"


class Accepted(DeliveryState):
    """Processed; the sender may forget it. Use the constant `ACCEPTED`: equal ids in a row are merged by identity."""

    __slots__ = ()

    def to_described(self) -> Described:
        return Described(ULong(ACCEPTED_CODE), [])


class Released(DeliveryState):
    """Not processed and not counted as a failure; it may be delivered again. Use the constant `RELEASED`."""

    __slots__ = ()

    def to_described(self) -> Described:
        return Described(ULong(RELEASED_CODE), [])


class Rejected(DeliveryState):
    """Invalid and not to be sent again, with the reason."""

    __slots__ = ("error",)

    def __init__(self, error: AmqpError | None = None) -> None:
        self.error = error

    def to_described(self) -> Described:
        return Described(ULong(REJECTED), [None if self.error is None else self.error.to_described()])


class Modified(DeliveryState):
    """Not processed, with changes to be made before it is delivered again, or elsewhere."""

    __slots__ = ("delivery_failed", "message_annotations", "undeliverable_here")

    def __init__(
        self,
        delivery_failed: bool | None = None,
        undeliverable_here: bool | None = None,
        message_annotations: dict[object, object] | None = None,
    ) -> None:
        self.delivery_failed = delivery_failed
        self.undeliverable_here = undeliverable_here
        self.message_annotations = message_annotations

    def to_described(self) -> Described:
        fields: list[object] = [self.delivery_failed, self.undeliverable_here, self.message_annotations]
        return Described(ULong(MODIFIED), fields)


class Received(DeliveryState):
    """How much of a delivery the receiver holds; not an outcome."""

    __slots__ = ("section_number", "section_offset")

    def __init__(self, section_number: int, section_offset: int) -> None:
        self.section_number = section_number
        self.section_offset = section_offset

    def to_described(self) -> Described:
        return Described(ULong(RECEIVED), [UInt(self.section_number), ULong(self.section_offset)])


class Declared(DeliveryState):
    """The outcome of `declare`: the transaction's id."""

    __slots__ = ("txn_id",)

    def __init__(self, txn_id: bytes) -> None:
        self.txn_id = txn_id

    def to_described(self) -> Described:
        return Described(ULong(DECLARED), [self.txn_id])


class TransactionalState(DeliveryState):
    """A transfer or an outcome that takes effect when its transaction is discharged."""

    __slots__ = ("outcome", "txn_id")

    def __init__(self, txn_id: bytes, outcome: DeliveryState | None = None) -> None:
        self.txn_id = txn_id
        self.outcome = outcome

    def to_described(self) -> Described:
        outcome = None if self.outcome is None else self.outcome.to_described()
        return Described(ULong(TRANSACTIONAL_STATE), [self.txn_id, outcome])


class UnknownState(DeliveryState):
    """A state this library does not know. It is kept, so that an application may understand more than we do."""

    __slots__ = ("described",)

    def __init__(self, described: Described) -> None:
        self.described = described

    def to_described(self) -> Described:
        return self.described


ACCEPTED: Final = Accepted()
RELEASED: Final = Released()

# The two outcomes that nearly every disposition carries, encoded once. An outcome may be written as list0; list8
# costs one byte more and is what the official SDKs' own encoders write.
ACCEPTED_BYTES: Final = encode_described_list(ACCEPTED_CODE, [])
RELEASED_BYTES: Final = encode_described_list(RELEASED_CODE, [])


def type_code(descriptor: object, by_symbol: dict[str, int]) -> int:
    """The numeric code of a descriptor, whichever of its two forms it came in; -1 where it is neither."""
    if isinstance(descriptor, Symbol):
        return by_symbol.get(descriptor, -1)
    if isinstance(descriptor, ULong):
        return int(descriptor)
    return -1


def optional_error(value: object, field: str) -> AmqpError | None:
    """The error in a decoded value; None stays None. A complaint names the `field` that holds the value."""
    if value is None:
        return None
    if not isinstance(value, Described) or type_code(value.descriptor, _BY_SYMBOL) != ERROR:
        raise DecodeError(f"{field} must be an error, got {value!r:.80}")
    if not isinstance(value.value, list):
        raise DecodeError(f"{field} must be an error, which is a described list, got {value!r:.80}")
    fields = Fields("error", ("condition", "description", "info"), value.value)
    return AmqpError(fields.required(0, fields.symbol(0)), fields.string(1), fields.mapping(2))


def delivery_state(value: object, field: str) -> DeliveryState | None:
    """The delivery state in a decoded value; None stays None. A complaint names the `field` that holds the value."""
    if value is None:
        return None
    if not isinstance(value, Described):
        raise DecodeError(f"{field} must be a delivery state, got {value!r:.80}")
    code = type_code(value.descriptor, _BY_SYMBOL)
    if not isinstance(value.value, list):
        raise DecodeError(f"{field} must be a delivery state, which is a described list, got {value!r:.80}")
    return _state_of(code, value, value.value)


def _state_of(code: int, value: Described, values: list[object]) -> DeliveryState:
    if code == ACCEPTED_CODE:
        return ACCEPTED
    if code == RELEASED_CODE:
        return RELEASED
    if code == REJECTED:
        return Rejected(optional_error(Fields("rejected", ("error",), values).any(0), "rejected.error"))
    if code == MODIFIED:
        return _modified(Fields("modified", ("delivery-failed", "undeliverable-here", "message-annotations"), values))
    if code == RECEIVED:
        return _received(Fields("received", ("section-number", "section-offset"), values))
    if code == TRANSACTIONAL_STATE:
        fields = Fields("transactional-state", ("txn-id", "outcome"), values)
        outcome = delivery_state(fields.any(1), "transactional-state.outcome")
        return TransactionalState(fields.required(0, fields.binary(0)), outcome)
    if code == DECLARED:
        fields = Fields("declared", ("txn-id",), values)
        return Declared(fields.required(0, fields.binary(0)))
    return UnknownState(value)


def _modified(fields: Fields) -> Modified:
    # A null stays a null: an echo must repeat the peer's own words.
    failed = None if fields.any(0) is None else fields.boolean(0, False)
    elsewhere = None if fields.any(1) is None else fields.boolean(1, False)
    return Modified(failed, elsewhere, fields.mapping(2))


def _received(fields: Fields) -> Received:
    return Received(fields.required(0, fields.uint(0)), fields.required(1, fields.ulong(1)))
