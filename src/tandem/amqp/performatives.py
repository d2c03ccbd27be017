"""The nine performatives (AMQP 1.0 part 2.7), each as a class with its general encoder and decoder.

Every field is written, nulls included: official SDKs index the decoded list by position and do not pad it. Transfer,
disposition and flow also have hand-tuned codecs in `hot_paths.py`; property tests hold the two against each other.
"""

# Longer than 650 lines: nine classes of one form, in the order of the specification. Two halves would hide the form.

from __future__ import annotations

from typing import Final

from tandem.amqp.delivery_states import AmqpError, DeliveryState, delivery_state, optional_error, type_code
from tandem.amqp.encode import encode_described_list
from tandem.amqp.fields import Fields, decode_composite, show, symbols
from tandem.amqp.terminus import Coordinator, Source, Target, source_of, target_of
from tandem.amqp.types import Symbol, UByte, UInt, ULong, UShort
from tandem.errors import DecodeError

__all__ = [
    "RECEIVER",
    "SENDER",
    "Attach",
    "Begin",
    "Close",
    "Detach",
    "Disposition",
    "End",
    "Flow",
    "Open",
    "Performative",
    "Transfer",
    "decode_performative",
]

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18

_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:open:list": OPEN,
    "amqp:begin:list": BEGIN,
    "amqp:attach:list": ATTACH,
    "amqp:flow:list": FLOW,
    "amqp:transfer:list": TRANSFER,
    "amqp:disposition:list": DISPOSITION,
    "amqp:detach:list": DETACH,
    "amqp:end:list": END,
    "amqp:close:list": CLOSE,
}

# The names of fields as the specification writes them.
_OPEN_FIELDS: Final = (
    *("container-id", "hostname", "max-frame-size", "channel-max", "idle-time-out", "outgoing-locales"),
    *("incoming-locales", "offered-capabilities", "desired-capabilities", "properties"),
)
_BEGIN_FIELDS: Final = (
    *("remote-channel", "next-outgoing-id", "incoming-window", "outgoing-window", "handle-max"),
    *("offered-capabilities", "desired-capabilities", "properties"),
)
_ATTACH_FIELDS: Final = (
    *("name", "handle", "role", "snd-settle-mode", "rcv-settle-mode", "source", "target", "unsettled"),
    *("incomplete-unsettled", "initial-delivery-count", "max-message-size", "offered-capabilities"),
    *("desired-capabilities", "properties"),
)
_FLOW_FIELDS: Final = (
    *("next-incoming-id", "incoming-window", "next-outgoing-id", "outgoing-window", "handle", "delivery-count"),
    *("link-credit", "available", "drain", "echo", "properties"),
)
_TRANSFER_FIELDS: Final = (
    *("handle", "delivery-id", "delivery-tag", "message-format", "settled", "more", "rcv-settle-mode", "state"),
    *("resume", "aborted", "batchable"),
)
_DISPOSITION_FIELDS: Final = ("role", "first", "last", "settled", "state", "batchable")
_DETACH_FIELDS: Final = ("handle", "closed", "error")
_ERROR_FIELDS: Final = ("error",)

# The values of the `role` type (part 2.8.1).
SENDER: Final = False
RECEIVER: Final = True

MAX_UINT: Final = 0xFFFF_FFFF
MAX_USHORT: Final = 0xFFFF


def _uint(value: int | None) -> UInt | None:
    return None if value is None else UInt(value)


def _ulong(value: int | None) -> ULong | None:
    return None if value is None else ULong(value)


def _ubyte(value: int | None) -> UByte | None:
    return None if value is None else UByte(value)


def _ushort(value: int | None) -> UShort | None:
    return None if value is None else UShort(value)


def _error(error: AmqpError | None) -> object:
    return None if error is None else error.to_described()


class Performative:
    """Base: a described list with fixed fields."""

    __slots__ = ()

    def code(self) -> int:
        raise NotImplementedError

    def field_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def values(self) -> list[object]:
        raise NotImplementedError

    def encode(self) -> bytes:
        return encode_described_list(self.code(), self.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Performative) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        return show(type(self).__name__, self.field_names(), self.values())


class Open(Performative):
    """Part 2.7.1."""

    __slots__ = (
        "channel_max",
        "container_id",
        "desired_capabilities",
        "hostname",
        "idle_timeout_ms",
        "incoming_locales",
        "max_frame_size",
        "offered_capabilities",
        "outgoing_locales",
        "properties",
    )

    def __init__(
        self,
        container_id: str,
        hostname: str | None = None,
        max_frame_size: int = MAX_UINT,
        channel_max: int = MAX_USHORT,
        idle_timeout_ms: int | None = None,
        outgoing_locales: list[Symbol] | None = None,
        incoming_locales: list[Symbol] | None = None,
        offered_capabilities: list[Symbol] | None = None,
        desired_capabilities: list[Symbol] | None = None,
        properties: dict[object, object] | None = None,
    ) -> None:
        self.container_id = container_id
        self.hostname = hostname
        self.max_frame_size = max_frame_size
        self.channel_max = channel_max
        self.idle_timeout_ms = idle_timeout_ms
        self.outgoing_locales = outgoing_locales
        self.incoming_locales = incoming_locales
        self.offered_capabilities = offered_capabilities
        self.desired_capabilities = desired_capabilities
        self.properties = properties

    def code(self) -> int:
        return OPEN

    def field_names(self) -> tuple[str, ...]:
        return _OPEN_FIELDS

    def values(self) -> list[object]:
        return [
            self.container_id,
            self.hostname,
            UInt(self.max_frame_size),
            UShort(self.channel_max),
            _uint(self.idle_timeout_ms),
            symbols(self.outgoing_locales),
            symbols(self.incoming_locales),
            symbols(self.offered_capabilities),
            symbols(self.desired_capabilities),
            self.properties,
        ]

    @staticmethod
    def read(values: list[object]) -> Open:
        fields = Fields("open", _OPEN_FIELDS, values)
        max_frame_size = fields.uint(2)
        channel_max = fields.ushort(3)
        return Open(
            fields.required(0, fields.string(0)),
            fields.string(1),
            MAX_UINT if max_frame_size is None else max_frame_size,
            MAX_USHORT if channel_max is None else channel_max,
            fields.uint(4),
            fields.symbols(5),
            fields.symbols(6),
            fields.symbols(7),
            fields.symbols(8),
            fields.mapping(9),
        )


class Begin(Performative):
    """Part 2.7.2."""

    __slots__ = (
        "desired_capabilities",
        "handle_max",
        "incoming_window",
        "next_outgoing_id",
        "offered_capabilities",
        "outgoing_window",
        "properties",
        "remote_channel",
    )

    def __init__(
        self,
        remote_channel: int | None,
        next_outgoing_id: int,
        incoming_window: int,
        outgoing_window: int,
        handle_max: int = MAX_UINT,
        offered_capabilities: list[Symbol] | None = None,
        desired_capabilities: list[Symbol] | None = None,
        properties: dict[object, object] | None = None,
    ) -> None:
        self.remote_channel = remote_channel
        self.next_outgoing_id = next_outgoing_id
        self.incoming_window = incoming_window
        self.outgoing_window = outgoing_window
        self.handle_max = handle_max
        self.offered_capabilities = offered_capabilities
        self.desired_capabilities = desired_capabilities
        self.properties = properties

    def code(self) -> int:
        return BEGIN

    def field_names(self) -> tuple[str, ...]:
        return _BEGIN_FIELDS

    def values(self) -> list[object]:
        return [
            _ushort(self.remote_channel),
            UInt(self.next_outgoing_id),
            UInt(self.incoming_window),
            UInt(self.outgoing_window),
            UInt(self.handle_max),
            symbols(self.offered_capabilities),
            symbols(self.desired_capabilities),
            self.properties,
        ]

    @staticmethod
    def read(values: list[object]) -> Begin:
        fields = Fields("begin", _BEGIN_FIELDS, values)
        handle_max = fields.uint(4)
        return Begin(
            fields.ushort(0),
            fields.required(1, fields.uint(1)),
            fields.required(2, fields.uint(2)),
            fields.required(3, fields.uint(3)),
            MAX_UINT if handle_max is None else handle_max,
            fields.symbols(5),
            fields.symbols(6),
            fields.mapping(7),
        )


class Attach(Performative):
    """Part 2.7.3."""

    __slots__ = (
        "desired_capabilities",
        "handle",
        "incomplete_unsettled",
        "initial_delivery_count",
        "max_message_size",
        "name",
        "offered_capabilities",
        "properties",
        "rcv_settle_mode",
        "role",
        "snd_settle_mode",
        "source",
        "target",
        "unsettled",
    )

    def __init__(
        self,
        name: str,
        handle: int,
        role: bool,
        snd_settle_mode: int | None = None,
        rcv_settle_mode: int | None = None,
        source: Source | None = None,
        target: Target | Coordinator | None = None,
        unsettled: dict[object, object] | None = None,
        incomplete_unsettled: bool = False,
        initial_delivery_count: int | None = None,
        max_message_size: int | None = None,
        offered_capabilities: list[Symbol] | None = None,
        desired_capabilities: list[Symbol] | None = None,
        properties: dict[object, object] | None = None,
    ) -> None:
        self.name = name
        self.handle = handle
        self.role = role
        self.snd_settle_mode = snd_settle_mode
        self.rcv_settle_mode = rcv_settle_mode
        self.source = source
        self.target = target
        self.unsettled = unsettled
        self.incomplete_unsettled = incomplete_unsettled
        self.initial_delivery_count = initial_delivery_count
        self.max_message_size = max_message_size
        self.offered_capabilities = offered_capabilities
        self.desired_capabilities = desired_capabilities
        self.properties = properties

    def code(self) -> int:
        return ATTACH

    def field_names(self) -> tuple[str, ...]:
        return _ATTACH_FIELDS

    def values(self) -> list[object]:
        return [
            self.name,
            UInt(self.handle),
            self.role,
            _ubyte(self.snd_settle_mode),
            _ubyte(self.rcv_settle_mode),
            None if self.source is None else self.source.to_described(),
            None if self.target is None else self.target.to_described(),
            self.unsettled,
            self.incomplete_unsettled,
            _uint(self.initial_delivery_count),
            _ulong(self.max_message_size),
            symbols(self.offered_capabilities),
            symbols(self.desired_capabilities),
            self.properties,
        ]

    @staticmethod
    def read(values: list[object]) -> Attach:
        fields = Fields("attach", _ATTACH_FIELDS, values)
        fields.required(2, fields.any(2))
        return Attach(
            fields.required(0, fields.string(0)),
            fields.required(1, fields.uint(1)),
            fields.boolean(2, False),
            fields.ubyte(3),
            fields.ubyte(4),
            source_of(fields.any(5)),
            target_of(fields.any(6)),
            fields.mapping(7),
            fields.boolean(8, False),
            fields.uint(9),
            fields.ulong(10),
            fields.symbols(11),
            fields.symbols(12),
            fields.mapping(13),
        )


class Flow(Performative):
    """Part 2.7.4."""

    __slots__ = (
        "available",
        "delivery_count",
        "drain",
        "echo",
        "handle",
        "incoming_window",
        "link_credit",
        "next_incoming_id",
        "next_outgoing_id",
        "outgoing_window",
        "properties",
    )

    def __init__(
        self,
        next_incoming_id: int | None,
        incoming_window: int,
        next_outgoing_id: int,
        outgoing_window: int,
        handle: int | None = None,
        delivery_count: int | None = None,
        link_credit: int | None = None,
        available: int | None = None,
        drain: bool = False,
        echo: bool = False,
        properties: dict[object, object] | None = None,
    ) -> None:
        self.next_incoming_id = next_incoming_id
        self.incoming_window = incoming_window
        self.next_outgoing_id = next_outgoing_id
        self.outgoing_window = outgoing_window
        self.handle = handle
        self.delivery_count = delivery_count
        self.link_credit = link_credit
        self.available = available
        self.drain = drain
        self.echo = echo
        self.properties = properties

    def code(self) -> int:
        return FLOW

    def field_names(self) -> tuple[str, ...]:
        return _FLOW_FIELDS

    def values(self) -> list[object]:
        return [
            _uint(self.next_incoming_id),
            UInt(self.incoming_window),
            UInt(self.next_outgoing_id),
            UInt(self.outgoing_window),
            _uint(self.handle),
            _uint(self.delivery_count),
            _uint(self.link_credit),
            _uint(self.available),
            self.drain,
            self.echo,
            self.properties,
        ]

    @staticmethod
    def read(values: list[object]) -> Flow:
        fields = Fields("flow", _FLOW_FIELDS, values)
        return Flow(
            fields.uint(0),
            fields.required(1, fields.uint(1)),
            fields.required(2, fields.uint(2)),
            fields.required(3, fields.uint(3)),
            fields.uint(4),
            fields.uint(5),
            fields.uint(6),
            fields.uint(7),
            fields.boolean(8, False),
            fields.boolean(9, False),
            fields.mapping(10),
        )


class Transfer(Performative):
    """Part 2.7.5. The payload is what follows the performative in its frame; it is not a field."""

    __slots__ = (
        "aborted",
        "batchable",
        "delivery_id",
        "delivery_tag",
        "handle",
        "message_format",
        "more",
        "rcv_settle_mode",
        "resume",
        "settled",
        "state",
    )

    def __init__(
        self,
        handle: int,
        delivery_id: int | None = None,
        delivery_tag: bytes | None = None,
        message_format: int | None = None,
        settled: bool | None = None,
        more: bool = False,
        rcv_settle_mode: int | None = None,
        state: DeliveryState | None = None,
        resume: bool = False,
        aborted: bool = False,
        batchable: bool = False,
    ) -> None:
        self.handle = handle
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.message_format = message_format
        self.settled = settled
        self.more = more
        self.rcv_settle_mode = rcv_settle_mode
        self.state = state
        self.resume = resume
        self.aborted = aborted
        self.batchable = batchable

    def code(self) -> int:
        return TRANSFER

    def field_names(self) -> tuple[str, ...]:
        return _TRANSFER_FIELDS

    def values(self) -> list[object]:
        return [
            UInt(self.handle),
            _uint(self.delivery_id),
            self.delivery_tag,
            _uint(self.message_format),
            self.settled,
            self.more,
            _ubyte(self.rcv_settle_mode),
            None if self.state is None else self.state.to_described(),
            self.resume,
            self.aborted,
            self.batchable,
        ]

    @staticmethod
    def read(values: list[object]) -> Transfer:
        fields = Fields("transfer", _TRANSFER_FIELDS, values)
        return Transfer(
            fields.required(0, fields.uint(0)),
            fields.uint(1),
            fields.binary(2),
            fields.uint(3),
            None if fields.any(4) is None else fields.boolean(4, False),
            fields.boolean(5, False),
            fields.ubyte(6),
            delivery_state(fields.any(7), "transfer.state"),
            fields.boolean(8, False),
            fields.boolean(9, False),
            fields.boolean(10, False),
        )


class Disposition(Performative):
    """Part 2.7.6."""

    __slots__ = ("batchable", "first", "last", "role", "settled", "state")

    def __init__(
        self,
        role: bool,
        first: int,
        last: int | None = None,
        settled: bool = False,
        state: DeliveryState | None = None,
        batchable: bool = False,
    ) -> None:
        self.role = role
        self.first = first
        self.last = last
        self.settled = settled
        self.state = state
        self.batchable = batchable

    def code(self) -> int:
        return DISPOSITION

    def field_names(self) -> tuple[str, ...]:
        return _DISPOSITION_FIELDS

    def values(self) -> list[object]:
        state = None if self.state is None else self.state.to_described()
        return [self.role, UInt(self.first), _uint(self.last), self.settled, state, self.batchable]

    @staticmethod
    def read(values: list[object]) -> Disposition:
        fields = Fields("disposition", _DISPOSITION_FIELDS, values)
        fields.required(0, fields.any(0))
        return Disposition(
            fields.boolean(0, False),
            fields.required(1, fields.uint(1)),
            fields.uint(2),
            fields.boolean(3, False),
            delivery_state(fields.any(4), "disposition.state"),
            fields.boolean(5, False),
        )


class Detach(Performative):
    """Part 2.7.7."""

    __slots__ = ("closed", "error", "handle")

    def __init__(self, handle: int, closed: bool = False, error: AmqpError | None = None) -> None:
        self.handle = handle
        self.closed = closed
        self.error = error

    def code(self) -> int:
        return DETACH

    def field_names(self) -> tuple[str, ...]:
        return _DETACH_FIELDS

    def values(self) -> list[object]:
        return [UInt(self.handle), self.closed, _error(self.error)]

    @staticmethod
    def read(values: list[object]) -> Detach:
        fields = Fields("detach", _DETACH_FIELDS, values)
        return Detach(
            fields.required(0, fields.uint(0)),
            fields.boolean(1, False),
            optional_error(fields.any(2), "detach.error"),
        )


class End(Performative):
    """Part 2.7.8."""

    __slots__ = ("error",)

    def __init__(self, error: AmqpError | None = None) -> None:
        self.error = error

    def code(self) -> int:
        return END

    def field_names(self) -> tuple[str, ...]:
        return _ERROR_FIELDS

    def values(self) -> list[object]:
        return [_error(self.error)]

    @staticmethod
    def read(values: list[object]) -> End:
        return End(optional_error(Fields("end", _ERROR_FIELDS, values).any(0), "end.error"))


class Close(Performative):
    """Part 2.7.9."""

    __slots__ = ("error",)

    def __init__(self, error: AmqpError | None = None) -> None:
        self.error = error

    def code(self) -> int:
        return CLOSE

    def field_names(self) -> tuple[str, ...]:
        return _ERROR_FIELDS

    def values(self) -> list[object]:
        return [_error(self.error)]

    @staticmethod
    def read(values: list[object]) -> Close:
        return Close(optional_error(Fields("close", _ERROR_FIELDS, values).any(0), "close.error"))


def decode_performative(data: bytes, offset: int, end: int) -> tuple[Performative, int]:
    """The performative at `offset` by the general codec, and where its payload starts."""
    descriptor, values, stop = decode_composite(data, offset, end)
    return _read(type_code(descriptor, _BY_SYMBOL), descriptor, values), stop


def _read(code: int, descriptor: object, values: list[object]) -> Performative:
    # Ordered by frequency among the performatives that get here at all.
    if code == TRANSFER:
        return Transfer.read(values)
    if code == DISPOSITION:
        return Disposition.read(values)
    if code == FLOW:
        return Flow.read(values)
    if code == ATTACH:
        return Attach.read(values)
    if code == DETACH:
        return Detach.read(values)
    if code == BEGIN:
        return Begin.read(values)
    if code == END:
        return End.read(values)
    if code == OPEN:
        return Open.read(values)
    if code == CLOSE:
        return Close.read(values)
    raise DecodeError(f"{descriptor!r:.80} is not a performative")
