"""A fuzzer's input as a program: what a peer writes, how it is cut into pieces, and what the application does between.

Random bytes hardly ever make a frame. Here they choose among performatives with plausible fields, of which some are
then replaced by any value at all, so that the state machines behind the decoder are reached in every order.

    byte 0      who is tested, and how far its connection has come
    then        instructions until the input is used up: one byte each, and the bytes of its choices
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tandem.amqp.connection import AMQP_HEADER
from tandem.amqp.deliveries import IncomingDelivery, OutgoingDelivery
from tandem.amqp.delivery_states import ACCEPTED, RELEASED, AmqpError, DeliveryState, Modified, Rejected
from tandem.amqp.encode import encode
from tandem.amqp.events import (
    AuthenticationRequested,
    CreditReceived,
    DispositionReceived,
    Event,
    LinkAttached,
    SessionBegun,
)
from tandem.amqp.hot_paths import AMQP_FRAME, SASL_FRAME, frame
from tandem.amqp.link import Link, ReceiverLink, SenderLink
from tandem.amqp.performatives import RECEIVER
from tandem.amqp.sasl import SASL_HEADER
from tandem.amqp.session import Session
from tandem.amqp.terminus import Coordinator, Source, Target
from tandem.amqp.types import Array, Described, Symbol, UByte, UInt, ULong, UShort
from tandem.errors import DetachForced, NotFound, ProtocolError
from tests.fuzz.conversations import (
    CLIENT_LOGIN,
    MESSAGE,
    PEER_OPENING,
    SERVER_LOGIN,
    attached_client,
    attached_server,
    new_client,
    new_server,
)
from tests.fuzz.promises import Endpoint
from tests.fuzz.reader import Reader

__all__ = ["Program", "react"]

_MAX_INSTRUCTIONS: Final = 96

_STATES: Final[tuple[DeliveryState | None, ...]] = (
    ACCEPTED,
    RELEASED,
    None,
    Rejected(),
    Rejected(AmqpError("amqp:internal-error", "no", {Symbol("a"): 1})),
    Modified(True, False, {Symbol("x"): "y"}),
    Modified(None, None, {Symbol("more than fits into the peer's frames"): "y" * 600}),
    Rejected(AmqpError("not-ascii:\u00e9")),
)
# The last one is as long as a name gets in a description, in characters of four bytes.
_NAMES: Final = ("in", "out", "third", "", "\U0001f6b2" * 80)
_ERRORS: Final[tuple[ProtocolError | AmqpError, ...]] = (
    NotFound("no such queue"),
    AmqpError("x:y"),
    DetachForced("more than fits into the peer's frames" * 20),
)

_PERFORMATIVES: Final = {
    0x10: "open",
    0x11: "begin",
    0x12: "attach",
    0x13: "flow",
    0x14: "transfer",
    0x15: "disposition",
    0x16: "detach",
    0x17: "end",
    0x18: "close",
    0x40: "sasl-mechanisms",
    0x41: "sasl-init",
    0x44: "sasl-outcome",
}


def react(endpoint: Endpoint, event: Event) -> None:
    """What an ordinary application does on an event; it may come too late, since the peer went on."""
    if isinstance(event, AuthenticationRequested):
        endpoint.call(endpoint.connection.accept_authentication)
    elif isinstance(event, LinkAttached):
        link = event.link
        endpoint.call(link.accept)
        if isinstance(link, ReceiverLink):
            receiver = link
            endpoint.call(lambda: receiver.grant(4))
    elif isinstance(event, IncomingDelivery):
        delivery = event
        endpoint.call(lambda: delivery.link.settle(delivery))
    elif isinstance(event, CreditReceived):
        sender = event.link
        endpoint.call(lambda: sender.send(MESSAGE))
        if sender.is_draining:
            endpoint.call(sender.drained)
    elif isinstance(event, DispositionReceived):
        for sent in event.deliveries:
            _settle_back(endpoint, event.link, sent, event.state)


def _settle_back(endpoint: Endpoint, link: SenderLink, sent: OutgoingDelivery, state: DeliveryState | None) -> None:
    endpoint.call(lambda: link.settle(sent, state))


class Program:
    """One run. What the events brought is kept, so that the application can use it at the wrong moment as well."""

    def __init__(self, data: bytes) -> None:
        self.reader = Reader(data)
        self.endpoint = self._start()
        self.sessions: list[Session] = list(self.endpoint.connection.sessions.values())
        self.links: list[Link] = []
        self.incoming: list[IncomingDelivery] = []
        self.outgoing: list[OutgoingDelivery] = []
        # Written by the peer and not handed over yet.
        self.under_way = bytearray()
        for session in self.sessions:
            self.links += session.links.values()
            self.incoming += session.incoming_unsettled.values()
            self.outgoing += session.outgoing_unsettled.values()

    def _start(self) -> Endpoint:
        start = self.reader.below(8)
        if start < 3:
            return attached_server()
        if start < 6:
            return attached_client()
        return new_server() if start == 6 else new_client()

    def run(self) -> None:
        for _ in range(_MAX_INSTRUCTIONS):
            if self.reader.is_empty:
                break
            self.reader.pick(_INSTRUCTIONS)(self)
        self._hand_over(len(self.under_way))
        self.endpoint.flush()

    # --- the peer -------------------------------------------------------------------------------------------

    def performative(self) -> None:
        """A frame with some of its fields, maybe, replaced, left out or of a kind that it does not have."""
        reader = self.reader
        code = reader.pick(_CODES)
        if self._is_rare():
            code = reader.pick(_RARE_CODES)
        channel, session = self._channel()
        fields = _FIELDS[code](reader, session)
        for _ in range(max(0, reader.byte() - 252)):
            fields[reader.below(len(fields))] = reader.value()
        surplus = max(0, reader.byte() - 252)
        fields = fields[: len(fields) - surplus] if reader.flag() else [*fields, *[None] * surplus]
        descriptor: object = ULong(code)
        if self._is_rare():
            descriptor = reader.pick([Symbol(f"amqp:{_PERFORMATIVES[code]}:list"), ULong(reader.byte()), UInt(code)])
        body = encode(Described(descriptor, fields))
        if code == 0x14:
            body += MESSAGE * reader.pick([1, 0, 2, 30, 60])
        self.under_way += frame(channel, body, SASL_FRAME if code >= 0x40 else AMQP_FRAME)

    def _channel(self) -> tuple[int, Session | None]:
        """A channel of the peer, and the session that is mapped to it if there is one."""
        mapped = self.endpoint.connection.sessions_by_remote_channel
        if mapped and not self._is_rare():
            return self.reader.pick(list(mapped.items()))
        channel = self.reader.pick([0, 1, 2, 9])
        return channel, mapped.get(channel)

    def _is_rare(self) -> bool:
        """For what nearly always ends the connection, and so keeps the rest of a program from being of use."""
        return self.reader.byte() > 240

    def next_session(self) -> None:
        """A begin that is fine: on a channel not in use, as the answer to ours if we began."""
        waiting = [session.channel for session in self.sessions if session.remote_channel < 0]
        fields = _begin(self.reader, None)
        fields[0] = UShort(waiting[0]) if waiting else None
        channel = len(self.endpoint.connection.sessions_by_remote_channel)
        self.under_way += frame(channel, encode(Described(ULong(0x11), fields)))

    def raw(self) -> None:
        if self._is_rare():
            self.under_way += self.reader.octets(40)

    def opening(self) -> None:
        """What an honest peer says first, or some of it; it ends a connection that is past that."""
        pieces = [SASL_HEADER, CLIENT_LOGIN, AMQP_HEADER, SERVER_LOGIN, PEER_OPENING]
        if not self.endpoint.connection.is_open or self._is_rare():
            self.under_way += self.reader.pick([*pieces, b"AMQP\x02\x01\x00\x00"])

    def empty_frame(self) -> None:
        self.under_way += self.reader.pick(
            [b"\x00\x00\x00\x08\x02\x00\x00\x00", b"\x00\x00\x00\x0c\x03\x00\x00\x00abcd"]
        )

    def corrupt(self) -> None:
        """Change, drop or insert one byte of what is under way."""
        if self.under_way and self._is_rare():
            at = self.reader.below(len(self.under_way))
            how = self.reader.below(3)
            if how == 0:
                self.under_way[at] = self.reader.byte()
            elif how == 1:
                del self.under_way[at]
            else:
                self.under_way.insert(at, self.reader.byte())

    def hand_over(self) -> None:
        self._hand_over(len(self.under_way))

    def hand_over_some(self) -> None:
        self._hand_over(self.reader.below(64))

    def _hand_over(self, size: int) -> None:
        piece = bytes(self.under_way[:size])
        del self.under_way[:size]
        self._take(self.endpoint.receive(piece))

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, SessionBegun):
                self.sessions.append(event.session)
            elif isinstance(event, LinkAttached):
                self.links.append(event.link)
            elif isinstance(event, IncomingDelivery):
                self.incoming.append(event)

    # --- the application ------------------------------------------------------------------------------------

    def answer_all(self) -> None:
        """React to everything that has happened since the last time."""
        events = self.endpoint.events
        self.endpoint.events = []
        for event in events:
            react(self.endpoint, event)

    def flush(self) -> None:
        self.endpoint.flush()

    def tick(self) -> None:
        self._take(self.endpoint.tick(240_000 if self._is_rare() else self.reader.pick([1, 30_000, 60_000])))

    def decide(self) -> None:
        connection = self.endpoint.connection
        self.endpoint.call(
            self.reader.pick([connection.accept_authentication, connection.reject_authentication, connection.open])
        )
        self._hand_over(0)

    def begin(self) -> None:
        session = self.endpoint.call(self.endpoint.connection.begin)
        if session is not None:
            self.sessions.append(session)

    def end(self) -> None:
        if self.sessions:
            session = self.reader.pick(self.sessions)
            error = self.reader.pick([None, *_ERRORS])
            self.endpoint.call(lambda: session.end(error))

    def close(self) -> None:
        error = self.reader.pick([None, *_ERRORS])
        if self._is_rare():
            self.endpoint.call(lambda: self.endpoint.connection.close(error))

    def attach(self) -> None:
        if not self.sessions:
            return
        reader = self.reader
        session = reader.pick(self.sessions)
        name = reader.pick(_NAMES)
        size = reader.pick([None, 0, 100, 2**40])
        functions: list[Callable[[], Link]] = [
            lambda: session.attach_sender(name, Target("queue")),
            lambda: session.attach_receiver(name, Source("queue"), max_message_size=size),
            lambda: session.attach_sender(name, Coordinator([Symbol("amqp:local-transactions")])),
        ]
        link = self.endpoint.call(reader.pick(functions))
        if link is not None:
            self.links.append(link)

    def answer_attach(self) -> None:
        """Accept or refuse, also with a reply made earlier, as an application does that had to wait for something."""
        if not self.links:
            return
        link = self.reader.pick(self.links)
        reply = self.endpoint.call(link.attach_reply)
        error = self.reader.pick(_ERRORS)
        functions: list[Callable[[], object]] = [
            link.accept,
            lambda: link.refuse(error),
            lambda: self._accept_late(link),
            lambda: None if reply is None else link.accept(reply),
        ]
        self.endpoint.call(self.reader.pick(functions))

    def _accept_late(self, link: Link) -> None:
        reply = link.attach_reply()
        self.endpoint.call(link.accept)
        link.accept(reply)

    def detach(self) -> None:
        if self.links:
            link = self.reader.pick(self.links)
            error = self.reader.pick([None, *_ERRORS])
            self.endpoint.call(lambda: link.detach(error))

    def grant(self) -> None:
        link = self._link()
        if isinstance(link, ReceiverLink):
            credit = self.reader.uint()
            drain = self.reader.flag()
            self.endpoint.call(lambda: link.grant(credit, drain=drain))

    def send(self) -> None:
        link = self._link()
        if isinstance(link, SenderLink):
            reader = self.reader
            payload = MESSAGE * reader.pick([1, 0, 60, 200])
            tag = reader.pick([None, b"", reader.octets(33)])
            is_settled = reader.flag()
            state = reader.pick([None, *_STATES])
            message_format = reader.uint()
            delivery = self.endpoint.call(
                lambda: link.send(payload, tag, is_settled=is_settled, state=state, message_format=message_format)
            )
            if delivery is not None:
                self.outgoing.append(delivery)

    def drained(self) -> None:
        link = self._link()
        if isinstance(link, SenderLink):
            self.endpoint.call(link.drained)

    def _link(self) -> Link | None:
        return self.reader.pick(self.links) if self.links else None

    def settle_incoming(self) -> None:
        if self.incoming:
            delivery = self.reader.pick(self.incoming)
            state = self.reader.pick(_STATES)
            is_settled = self.reader.flag()
            self.endpoint.call(lambda: delivery.link.settle(delivery, state, is_settled=is_settled))

    def settle_outgoing(self) -> None:
        if self.outgoing:
            delivery = self.reader.pick(self.outgoing)
            state = self.reader.pick(_STATES)
            self.endpoint.call(lambda: delivery.link.settle(delivery, state))


# A frame of the peer is the most frequent instruction, and what hands it over comes next.
_INSTRUCTIONS: Final[tuple[Callable[[Program], None], ...]] = (
    *(Program.performative,) * 8,
    *(Program.hand_over,) * 5,
    *(Program.answer_all,) * 2,
    Program.next_session,
    Program.hand_over_some,
    Program.flush,
    Program.raw,
    Program.opening,
    Program.empty_frame,
    Program.corrupt,
    Program.tick,
    Program.decide,
    Program.begin,
    Program.end,
    Program.close,
    Program.attach,
    *(Program.answer_attach,) * 2,
    Program.detach,
    Program.grant,
    Program.send,
    Program.drained,
    Program.settle_incoming,
    Program.settle_outgoing,
)


# --- the fields of each performative, plausible ones ----------------------------------------------------------------


def _optional(reader: Reader, value: object) -> object:
    return None if reader.byte() > 200 else value


def _handle(reader: Reader, session: Session | None, role: bool | None = None) -> UInt:
    """A handle of the peer: one that is attached, to a link of ours with this role if given; seldom any other."""
    links = [] if session is None else list(session.links_by_remote_handle.items())
    handles = [handle for handle, link in links if role is None or link.role is role]
    return UInt(reader.pick(handles) if handles and reader.byte() < 240 else reader.below(5))


def _open(reader: Reader, session: Session | None) -> list[object]:
    return [
        "peer",
        _optional(reader, "localhost"),
        _optional(reader, UInt(reader.pick([512, 600, 4_096, 511, reader.uint()]))),
        _optional(reader, UShort(reader.pick([7, 0, 1, 65_535]))),
        _optional(reader, UInt(reader.pick([60_000, 0, 1_000, 999, reader.uint()]))),
        None,
        None,
        _optional(reader, Array.of_symbols(["a"])),
        _optional(reader, Symbol("b")),
        _optional(reader, {Symbol("product"): "fuzz"}),
    ]


def _begin(reader: Reader, session: Session | None) -> list[object]:
    remote_channel = UShort(reader.below(4)) if reader.flag() else None
    window = UInt(reader.pick([6, 0, 1, 2**31, 2**32 - 1]))
    handle_max = UInt(reader.pick([7, 0, 1, 2**32 - 1]))
    return [remote_channel, UInt(reader.uint()), window, UInt(100), handle_max, None, None, {}]


def _terminus(reader: Reader, code: int) -> object:
    address = _optional(reader, reader.pick(["queue", "a" * reader.pick([1, 600]), reader.value()]))
    values: list[object] = [address, UInt(0), Symbol("session-end"), UInt(0), False, None]
    if code == 0x28:
        values += [None, _optional(reader, {Symbol("f"): Described(Symbol("f:list"), ["x"])}), None, None, None]
    return Described(ULong(code), values)


def _attach(reader: Reader, session: Session | None) -> list[object]:
    handle = reader.below(5)
    used = {} if session is None else session.links_by_remote_handle
    if reader.byte() < 240:
        handle = next(number for number in range(len(used) + 1) if number not in used)
    target = reader.pick([_terminus(reader, 0x29), Described(ULong(0x30), [Symbol("amqp:local-transactions")]), None])
    return [
        reader.pick(_NAMES),
        UInt(handle),
        reader.flag(),
        _optional(reader, UByte(reader.below(3))),
        _optional(reader, UByte(reader.below(2))),
        _optional(reader, _terminus(reader, 0x28)),
        target,
        _optional(reader, {b"tag": Described(ULong(0x24), [])}),
        False,
        _optional(reader, UInt(reader.uint())),
        _optional(reader, ULong(reader.uint())),
        None,
        None,
        _optional(reader, {Symbol("p"): reader.value()}),
    ]


def _flow(reader: Reader, session: Session | None) -> list[object]:
    handle = _handle(reader, session) if reader.flag() else None
    window = UInt(reader.pick([6, 0, 1, 2**32 - 1]))
    numbers: list[object] = [_optional(reader, UInt(reader.uint())), window, UInt(reader.below(5)), UInt(100)]
    credit = _optional(reader, UInt(reader.pick([4, 0, 1, 2**32 - 1])))
    return [*numbers, handle, _optional(reader, UInt(reader.uint())), credit, None, reader.flag(), reader.flag(), None]


def _transfer(reader: Reader, session: Session | None) -> list[object]:
    handle = _handle(reader, session, RECEIVER)
    return [
        handle,
        _delivery_id(reader, session, handle),
        _optional(reader, reader.pick([b"tag", b"", b"t" * reader.pick([32, 33])])),
        _optional(reader, UInt(reader.pick([0, 0x80013700]))),
        reader.pick([False, True, None]),
        reader.byte() > 160,
        None,
        reader.pick([None, None, None, _state(reader)]),
        False,
        reader.byte() > 240,
        False,
    ]


def _delivery_id(reader: Reader, session: Session | None, handle: int) -> object:
    """The one that has transfers to come or the next after those that are unsettled; seldom any other."""
    if session is None or reader.byte() > 220:
        return _optional(reader, UInt(reader.pick([*range(12), 2**31, 2**32 - 1])))
    link = session.links_by_remote_handle.get(handle)
    if isinstance(link, ReceiverLink) and link.partial is not None:
        return _optional(reader, UInt(link.partial.delivery_id))
    return UInt(max([1, *session.incoming_unsettled]) + 1 & 0xFFFF_FFFF)


def _state(reader: Reader) -> object:
    return reader.pick(
        [
            Described(ULong(0x24), []),
            Described(ULong(0x26), []),
            Described(ULong(0x25), [Described(ULong(0x1D), [Symbol("x:y"), "text", {}])]),
            Described(ULong(0x27), [True, None, {Symbol("a"): reader.value()}]),
            Described(ULong(0x23), [UInt(1), ULong(2)]),
            Described(ULong(0x34), [b"txn", Described(Symbol("amqp:accepted:list"), [])]),
            Described(ULong(0x33), [b"txn"]),
            Described(ULong(0x99), [reader.value()]),
            reader.value(),
        ]
    )


def _disposition(reader: Reader, session: Session | None) -> list[object]:
    first = UInt(reader.pick([*range(8), 2**32 - 1]))
    last = _optional(reader, UInt(reader.pick([*range(12), 2**31, 2**32 - 1])))
    return [reader.flag(), first, last, reader.flag(), _optional(reader, _state(reader)), False]


def _error(reader: Reader) -> object:
    fields: list[object] = [
        Symbol("amqp:internal-error"),
        _optional(reader, "why"),
        _optional(reader, {Symbol("a"): 1}),
    ]
    return _optional(reader, Described(ULong(0x1D), fields)) if reader.flag() else None


def _detach(reader: Reader, session: Session | None) -> list[object]:
    return [_handle(reader, session), reader.flag(), _error(reader)]


def _only_error(reader: Reader, session: Session | None) -> list[object]:
    return [_error(reader)]


def _sasl_mechanisms(reader: Reader, session: Session | None) -> list[object]:
    return [reader.pick([Array.of_symbols(["PLAIN", "ANONYMOUS"]), Symbol("ANONYMOUS"), Array.of_symbols([]), None])]


def _sasl_init(reader: Reader, session: Session | None) -> list[object]:
    mechanism = Symbol(reader.pick(["ANONYMOUS", "PLAIN", "MSSBCBS", "EXTERNAL", "SCRAM-SHA-1"]))
    return [mechanism, _optional(reader, reader.pick([b"\x00user\x00password", b"x", b"\x00\xff\x00", None])), "host"]


def _sasl_outcome(reader: Reader, session: Session | None) -> list[object]:
    return [UByte(reader.below(5)), _optional(reader, b"Welcome!")]


_FIELDS: Final[dict[int, Callable[[Reader, Session | None], list[object]]]] = {
    0x10: _open,
    0x11: _begin,
    0x12: _attach,
    0x13: _flow,
    0x14: _transfer,
    0x15: _disposition,
    0x16: _detach,
    0x17: _only_error,
    0x18: _only_error,
    0x40: _sasl_mechanisms,
    0x41: _sasl_init,
    0x44: _sasl_outcome,
}
# By how often a peer writes them, roughly; then those that make sense once in a connection, or never after its opening.
_CODES: Final = (*(0x12,) * 4, *(0x13,) * 4, *(0x14,) * 7, *(0x15,) * 3, *(0x16,) * 2, 0x17)
_RARE_CODES: Final = (0x18, 0x10, 0x11, 0x40, 0x41, 0x44)
