"""Writes the hand-made part of the corpus: `python -m tests.fuzz.seeds`.

The other part are inputs that coverage-guided runs found worth keeping, and those that once found a bug. Programs for
the target `frames` are all of these two kinds: nobody writes them by hand.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any, Final

from azure.servicebus._pyamqp import _encode as pyamqp_encode
from azure.servicebus._pyamqp import performatives as pyamqp
from azure.servicebus._pyamqp.message import Message as PyamqpMessage
from azure.servicebus._pyamqp.outcomes import Accepted as PyamqpAccepted

from tandem.amqp.batch import make_batch
from tandem.amqp.connection import AMQP_HEADER, Connection, Role
from tandem.amqp.deliveries import IncomingDelivery
from tandem.amqp.delivery_states import ACCEPTED, RELEASED, Modified, Rejected, TransactionalState
from tandem.amqp.encode import encode, encode_described_list
from tandem.amqp.events import AuthenticationRequested, CreditReceived, Event, LinkAttached, SessionBegun
from tandem.amqp.hot_paths import SASL_FRAME, frame
from tandem.amqp.link import ReceiverLink
from tandem.amqp.message import Header, Properties, encode_message
from tandem.amqp.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from tandem.amqp.sasl import SASL_HEADER
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Coordinator, Source, Target
from tandem.amqp.transactions import Declare, Discharge
from tandem.amqp.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tests.fuzz.conversations import CLIENT_LOGIN, MESSAGE, PEER_LINKS, PEER_OPENING, PEER_TRAFFIC, SERVER_LOGIN
from tests.fuzz.rules import BARE, input_of
from tests.fuzz.worker import CORPUS

Seeds = dict[str, bytes]

_SIZE_AND_COUNT: Final = struct.Struct(">BII")


def decoder_seeds() -> Seeds:
    return {**_values(), **_nasty_values(), **{f"performative-{name}": body for name, body in _performatives().items()}}


def _values() -> Seeds:
    """Every type, in the form that our encoder gives it and in those that it does not."""
    scalars: list[object] = [
        *(None, True, False, UByte(1), UShort(2), UInt(0), UInt(3), UInt(300), ULong(0), ULong(4), ULong(2**40)),
        *(Byte(-1), Short(-2), Int(-3), Int(-300), -4, -(2**40), Float(1.5), 2.5, float("nan"), Char("x")),
        *(Timestamp(0), uuid.UUID(int=1), b"binary", "string", Symbol("symbol"), "long " * 60, b"long " * 60),
        *(Decimal32(bytes(4)), Decimal64(bytes(8)), Decimal128(b"\xff" * 16)),
    ]
    return {
        "scalars": encode(scalars),
        "map": encode({Symbol("a"): 1, "b": [2, 3], UInt(4): {}, 1.5: None, uuid.UUID(int=9): b"u"}),
        "described": encode(Described(ULong(0x24), Described(Symbol("a:b"), [Described("odd", None)]))),
        "arrays": encode(
            [
                Array.of_symbols(["ANONYMOUS", "PLAIN"]),
                Array("uint", [UInt(1), UInt(70_000)]),
                Array("boolean", [True, False]),
                Array("list", [[1], ["two"]], (ULong(0x24),)),
                Array("array", [Array("byte", [Byte(1)])]),
                Array("map", [{"a": 1}]),
                Array.repeated("null", None, 65_536),
                Array.repeated("list", [], 9),
            ]
        ),
        "list0": b"\x45",
        "wide-forms": b"\xd0\x00\x00\x00\x16\x00\x00\x00\x05\x56\x01\x70\x00\x00\x00\x01\xb3\x00\x00\x00\x01a"
        b"\xd1\x00\x00\x00\x04\x00\x00\x00\x00\x45",
        "empty-array-without-constructor": b"\xe0\x01\x00",
    }


def _nasty_values() -> Seeds:
    uuids = [uuid.UUID(int=number * (2**61 - 1)).bytes for number in range(3)]
    colliding = b"".join([b"\x98" + octets + b"\x40" for octets in uuids])
    return {
        "nothing": b"",
        "zero-width-array-of-2^32": _SIZE_AND_COUNT.pack(0xF0, 5, 2**32 - 1) + b"\x40",
        "zero-width-array-one-too-many": _SIZE_AND_COUNT.pack(0xF0, 5, 65_537) + b"\x41",
        "zero-width-array-with-bytes-behind": _SIZE_AND_COUNT.pack(0xF0, 6, 2) + b"\x43\x00",
        "zero-width-arrays-in-array": b"\xf0\x00\x00\x00\x0f\x00\x00\x00\x02\xe0\x02\xff\x40\x02\xff\x41\x00\x00\x00",
        "described-zero-width-array": _SIZE_AND_COUNT.pack(0xF0, 9, 60_000) + b"\x00\x53\x24\x45"[:5],
        "list-32-deep": _nested(b"\x45", 31),
        "list-33-deep": _nested(b"\x45", 32),
        "described-40-deep": b"\x00\x40" * 40 + b"\x40",
        "descriptors-40-deep": b"\x00" * 40 + b"\x40" * 41,
        "array-of-described-40-deep": _SIZE_AND_COUNT.pack(0xF0, 4 + 81, 0) + b"\x00\x40" * 40 + b"\x40",
        "list-of-2^32": _SIZE_AND_COUNT.pack(0xD0, 5, 2**32 - 1) + b"\x40",
        "list-larger-than-all": _SIZE_AND_COUNT.pack(0xD0, 2**32 - 1, 1) + b"\x40",
        "list-too-small-for-its-count": b"\xc0\x00\x00",
        "list-with-bytes-left-over": b"\xc0\x03\x01\x40\x40",
        "binary-larger-than-all": b"\xb0\xff\xff\xff\xff",
        "string-of-2^31": b"\xb1\x7f\xff\xff\xff" + b"a" * 16,
        "string-not-utf-8": b"\xa1\x03\xed\xa0\x80",
        "symbol-not-ascii": b"\xa3\x01\x80",
        "char-surrogate": b"\x73\x00\x00\xd8\x00",
        "char-beyond-unicode": b"\x73\x00\x11\x00\x00",
        "boolean-of-two": b"\x56\x02",
        "unknown-constructor": b"\x57\x00",
        "map-of-three": b"\xc1\x04\x03\x40\x40\x41",
        "map-with-a-key-twice": b"\xc1\x05\x04\x41\x40\x41\x40",
        "map-with-equal-keys-of-two-types": b"\xc1\x07\x04\x52\x01\x40\x55\x01\x40",
        "map-with-nan-keys": b"\xc1\x15\x04" + 2 * (b"\x82\x7f\xf8\x00\x00\x00\x00\x00\x00\x40"),
        "map-with-a-list-as-key": b"\xc1\x03\x02\x45\x40",
        "map-with-uuids-that-hash-alike": bytes((0xC1, len(colliding) + 1, 6)) + colliding,
        "signalling-nan": b"\x72\x7f\xa0\x00\x01",
        "truncated": encode([1, "two", {Symbol("three"): 4}])[:-3],
    }


def _nested(innermost: bytes, levels: int) -> bytes:
    value = innermost
    for _ in range(levels):
        value = bytes((0xC0, len(value) + 1, 1)) + value
    return value


def _performatives() -> Seeds:
    """Each performative as we write it; those of the hot paths also in the form of the official SDK."""
    states = {"accepted": ACCEPTED, "rejected": Rejected(), "modified": Modified(True, True, {Symbol("a"): 1})}
    bodies = {
        "open": Open("container", "host", 65_536, 255, 30_000, properties={Symbol("product"): "seed"}).encode(),
        "begin": Begin(None, 1, 5_000, 65_536, 255).encode(),
        "attach-sender": Attach("link", 0, False, 2, 0, Source("here"), Target("queue")).encode(),
        "attach-coordinator": Attach("txn", 1, False, target=Coordinator([Symbol("amqp:local-transactions")])).encode(),
        "flow": Flow(1, 5_000, 1, 65_536, 0, 0, 100, 0, True, True).encode(),
        "flow-of-session": Flow(None, 5_000, 1, 65_536).encode(),
        "transfer": Transfer(0, 0, b"tag", 0, False).encode() + MESSAGE,
        "transfer-in-transaction": Transfer(0, 2**31, b"t", 0, True, state=TransactionalState(b"id")).encode(),
        "transfer-aborted": Transfer(0, 7, b"", 0x80013700, None, True, aborted=True).encode(),
        "detach": Detach(0, True).encode(),
        "end": End().encode(),
        "close": Close().encode(),
        "transfer-of-three-fields": b"\x00\x53\x14\xc0\x07\x03\x43\x52\x01\xa0\x01t" + MESSAGE,
        "flow-of-four-fields-and-more": b"\x00\x53\x13\xc0\x05\x04\x40\x43\x43\x43\x40",
    }
    for name, state in states.items():
        bodies[f"disposition-{name}"] = Disposition(True, 0, 9, True, state).encode()
    bodies["disposition-released"] = Disposition(False, 3, None, False, RELEASED).encode()
    for name, performative in _pyamqp_performatives().items():
        bodies[f"pyamqp-{name}"] = _pyamqp_frame(performative)[8:]
    return bodies


def _pyamqp_performatives() -> dict[str, Any]:
    """Any: the SDK's own classes, which its type hints do not describe."""
    return {
        "open": pyamqp.OpenFrame("pyamqp", "localhost", 65_536, 65_535, 30_000, None, None, None, None, None),
        "begin": pyamqp.BeginFrame(None, 0, 65_536, 65_536, 2**32 - 1, None, None, None),
        "attach": pyamqp.AttachFrame("link", 0, False, 2, 0, None, None, {}, False, 0, 1_048_576, None, None, None),
        "flow": pyamqp.FlowFrame(0, 65_536, 0, 65_536, 0, 0, 100, None, False, False, None),
        "transfer": pyamqp.TransferFrame(
            0, 0, b"\x00\x00\x00\x00", 0, False, False, None, None, None, None, False, MESSAGE
        ),
        "disposition": pyamqp.DispositionFrame(True, 0, 0, True, PyamqpAccepted(), False),
        "detach": pyamqp.DetachFrame(0, True, None),
        "end": pyamqp.EndFrame(None),
        "close": pyamqp.CloseFrame(None),
    }


def _pyamqp_frame(performative: Any) -> bytes:
    header, body = pyamqp_encode.encode_frame(performative)
    return bytes(header) + bytes(body or b"")


def message_seeds() -> Seeds:
    full = encode_message(
        header=Header(True, 4, 60_000, True, 2),
        delivery_annotations={"x-opt-lock-token": uuid.UUID(int=7)},
        message_annotations={"x-opt-partition-key": "key", "x-opt-scheduled-enqueue-time": Timestamp(1)},
        properties=Properties(
            "id", b"user", "to", "subject", "reply", ULong(1), "text/plain", "gzip", 1, 2, "group", 3, "r"
        ),
        application_properties={"a": 1, "b": "two", "c": uuid.UUID(int=3), "DeadLetterReason": "was there"},
        data=b"body",
        footer={"x": 1},
    )
    pyamqp_message = bytearray()
    pyamqp_encode.encode_payload(
        pyamqp_message,
        PyamqpMessage(
            header=None,
            delivery_annotations={b"x": 1},
            message_annotations={b"x-opt-partition-key": b"p"},
            properties=None,
            application_properties={b"k": b"v"},
            data=[b"one", b"two"],
        ),
    )
    return {
        "full": full,
        "pyamqp": bytes(pyamqp_message),
        "nothing": b"",
        "value": encode_message(value={"a": [1, 2]}),
        "null-value": encode_message(value=None),
        "sequence": encode_message(sequence=[1, "two"]) * 2,
        "batch": make_batch([full, MESSAGE, b""], message_annotations={"x-opt-partition-key": "key"}),
        "declare": Declare().encode(),
        "discharge": Discharge(b"txn", True).encode(),
        "delivery-annotations-last": MESSAGE + b"\x00\x53\x71\xc1\x05\x02\xa3\x01x\x40",
        "by-symbol": b"\x00\xa3\x10amqp:data:binary\xa0\x01x\x00\xa3\x10amqp:header:list\x45",
        "by-wide-descriptor": b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xa0\x01x",
        "two-headers": b"\x00\x53\x70\x45" * 2,
        "two-kinds-of-body": MESSAGE + b"\x00\x53\x77\x40",
        "map-with-a-key-twice": b"\x00\x53\x72\xc1\x09\x04\xa3\x01x\x40\xa3\x01x\x40",
        "map-that-lies-about-its-count": b"\x00\x53\x72\xd1\x00\x00\x00\x06\xff\xff\xff\xff\x41\x40",
        "header-of-wrong-types": b"\x00\x53\x70\xc0\x06\x05\x40\x41\x42\x43\x44",
        "many-data-sections": b"\x00\x53\x75\xa0\x00" * 40,
        "cut-off": full[:-5],
    }


def before_open_seeds() -> Seeds:
    client, server = _conversation()
    return {
        "client": client,
        "server": server,
        "login-and-links": CLIENT_LOGIN + PEER_OPENING + PEER_LINKS,
        "server-login": SERVER_LOGIN + PEER_OPENING,
        "without-sasl": PEER_OPENING + PEER_LINKS + PEER_TRAFFIC,
        "pyamqp": AMQP_HEADER + b"".join([_pyamqp_frame(frame) for frame in _pyamqp_performatives().values()]),
        "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "tls-client-hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "amqp-0-9-1": b"AMQP\x00\x00\x09\x01",
        "plain": _login("PLAIN", b"\x00user\x00password") + PEER_OPENING,
        "plain-without-password": _login("PLAIN", b"user"),
        "plain-not-utf-8": _login("PLAIN", b"\x00\xff\x00\xff"),
        "unknown-mechanism": _login("SCRAM-SHA-256", None),
        "long-response": _login("EXTERNAL", b"x" * 4_097),
        "amqp-twice": AMQP_HEADER * 2,
        "sasl-twice": SASL_HEADER * 2,
        "frame-of-2^32": SASL_HEADER + b"\xff\xff\xff\xff\x02\x01\x00\x00",
        "frame-of-8193": AMQP_HEADER + b"\x00\x00\x20\x01\x02\x00\x00\x00",
        "frame-smaller-than-its-header": AMQP_HEADER + b"\x00\x00\x00\x07\x02\x00\x00\x00",
        "data-offset-of-one": AMQP_HEADER + b"\x00\x00\x00\x08\x01\x00\x00\x00",
        "data-offset-beyond-frame": AMQP_HEADER + b"\x00\x00\x00\x0c\x04\x00\x00\x00abcd",
        "extended-header": AMQP_HEADER + b"\x00\x00\x00\x0c\x03\x00\x00\x00abcd",
        "unknown-frame-type": AMQP_HEADER + b"\x00\x00\x00\x08\x02\x02\x00\x00",
        "transfer-before-open": AMQP_HEADER + frame(0, Transfer(0, 0, b"", 0).encode()),
        "close-before-open": AMQP_HEADER + frame(0, Close().encode()),
        "max-frame-size-of-511": AMQP_HEADER + frame(0, Open("c", None, 511).encode()),
        "idle-time-out-of-1": AMQP_HEADER + frame(0, Open("c", None, 512, 0, 1).encode()),
    }


def _login(mechanism: str, response: bytes | None) -> bytes:
    return SASL_HEADER + frame(0, encode_described_list(0x41, [Symbol(mechanism), response, "host"]), SASL_FRAME)


def after_open_seeds() -> Seeds:
    """What a peer may go on with: see `conversations.py` for what there is by then."""
    frames = {name: frame(0, body) for name, body in _performatives().items() if not name.startswith("pyamqp")}
    pyamqp_frames = {f"pyamqp-{name}": _pyamqp_frame(frame) for name, frame in _pyamqp_performatives().items()}
    rest_of_delivery = frame(0, Transfer(0, 1, b"tag1", 0, False).encode() + MESSAGE)
    third_link = frame(0, Attach("third", 2, False, target=Target("queue")).encode())
    same_name = frame(0, Attach("in", 2, False, target=Target("queue")).encode())
    whole = frame(0, Transfer(0, 2, b"t", 0).encode() + MESSAGE)
    return {
        **frames,
        **pyamqp_frames,
        "rest-of-delivery": rest_of_delivery,
        "more-than-the-credit": rest_of_delivery + whole.replace(b"\x52\x02", b"\x52\x03") + whole,
        "stolen-link": same_name + rest_of_delivery,
        "third-link": third_link + frame(0, Transfer(2, 5, b"t", 0, True).encode() + MESSAGE),
        "bug-delivery-id-on-two-links": third_link
        + frame(0, Transfer(2, 1, b"t", 0).encode() + MESSAGE)
        + rest_of_delivery
        + frame(0, Detach(0, True).encode())
        + frame(0, Detach(2, True).encode()),
        "bug-bytes-behind-flow": frame(0, Flow(1, 6, 0, 100).encode() + MESSAGE),
        "settle-all": frame(0, Disposition(True, 0, 2**31 - 1, True, ACCEPTED).encode()),
        "disposition-backwards": frame(0, Disposition(True, 5, 1, True, ACCEPTED).encode()),
        "drain": frame(0, Flow(1, 100, 1, 100, 1, 0, 9, None, True).encode()),
        "echo": frame(0, Flow(1, 0, 1, 100, 0, 0, 9, None, False, True).encode()),
        "too-large": frame(0, Transfer(0, 1, b"tag1", 0, False).encode() + MESSAGE * 70),
        "end-then-detach": frame(0, End().encode()) + frame(0, Detach(0, True).encode()),
        "close-then-more": frame(0, Close().encode()) + whole,
        "second-session": frame(1, Begin(None, 0, 1, 1).encode()) + frame(1, End().encode()),
        "heartbeats": b"\x00\x00\x00\x08\x02\x00\x00\x00" * 3,
    }


def _conversation() -> tuple[bytes, bytes]:
    """All bytes that a client and a server of ours exchange over three messages, one of them in several frames."""
    client = Connection(Role.CLIENT, Settings("client", hostname="localhost", max_frame_size=512))
    server = Connection(Role.SERVER, Settings("server", max_frame_size=512))
    client.open()
    said: tuple[bytearray, bytearray] = (bytearray(), bytearray())
    for _ in range(12):
        from_client = client.data_to_send()
        said[0].extend(from_client)
        for event in server.receive(from_client):
            _serve(server, event)
        server.receive(b"")
        from_server = server.data_to_send()
        said[1].extend(from_server)
        for event in client.receive(from_server):
            _ask(event)
        if client.is_open and not client.sessions:
            client.begin()
    client.close()
    said[0].extend(client.data_to_send())
    return bytes(said[0]), bytes(said[1])


def _serve(server: Connection, event: Event) -> None:
    if isinstance(event, AuthenticationRequested):
        server.accept_authentication()
    elif isinstance(event, LinkAttached):
        event.link.accept()
        if isinstance(event.link, ReceiverLink):
            event.link.grant(3)
    elif isinstance(event, IncomingDelivery):
        event.link.settle(event)


def _ask(event: Event) -> None:
    if isinstance(event, SessionBegun):
        event.session.attach_sender("sender", Target("queue"))
    elif isinstance(event, CreditReceived):
        for payload in (MESSAGE, MESSAGE * 60, MESSAGE)[: event.link.credit]:
            event.link.send(payload)


def rule_seeds() -> Seeds:
    """Rules over the properties of the target's own message, some with a message of theirs in front."""
    rules = {
        "comparison": "text = 'xax' AND integer < -1 OR NOT double >= 2.5",
        "in": "text NOT IN ('x', 'xax', NULL) OR integer IN (-7, 1)",
        "like": "text LIKE '%a_' AND text NOT LIKE '!%%' ESCAPE '!'",
        "like-bits": "text LIKE '%x_x%'",
        "null": "missing IS NULL AND nothing IS NULL AND EXISTS(Nothing) AND EXISTS(sys.Label)",
        "arithmetic": "-integer * 2 + 1 % 3 - (4 / 2) > +double",
        "types": "decimal + 1 > 0 AND moment - moment = span OR guid = newid() AND single <> 0.1",
        "functions": "property('te' + 'xt') = p(text) OR flag",
        "parameters": "text LIKE @s AND integer > @i AND span < @t OR @none = 1",
        "system": "sys.TimeToLive + sys.TimeToLive > @t AND sys.EnqueuedTimeUtc + sys.TimeToLive = sys.ExpiresAtUtc",
        "names": "[a b] = \"q\"\"q\" AND [x]]y] = 'it''s' AND user.text <> sys.subject",
        "nested": "NOT (NOT (((text = 'x') AND (1 = 1)) OR - - + -integer = 7))",
        "row": "1 + 1 + 1 + 1 - 1 - 1 = 2 AND flag AND flag AND flag OR flag",
        "overflow": "9223372036854775807 + integer > -9223372036854775808 - 1",
        "action": "SET text = text + '!'; SET integer = integer + 1 REMOVE flag; SET [new one] = newid()",
        "action-system": "SET sys.Label = sys.To + text; REMOVE sys.SessionId; SET sys.TimeToLive = @t",
        "action-types": "SET small = 256 SET single = 2 SET decimal = 7 SET c = list SET [a b] = 'x' SET big = +big",
        "action-chain": "SET a = text SET a = a + a SET a = a + a SET a = a + a SET b = a REMOVE a SET c = a",
    }
    seeds = {name: input_of(text) for name, text in rules.items()}
    seeds["message"] = input_of("SET b = text SET sys.Label = 'l' REMOVE text", BARE[-120:])
    seeds["small-message"] = input_of(
        "text = 'x' AND sys.Label = 'y'", encode_message(properties=Properties(subject="y"))
    )
    seeds["text-like"] = input_of("%a_a%b", b"xaxaab")
    return seeds


def atom_seeds() -> Seeds:
    """Descriptions as clients send them, one with each kind of element; and choices for those that are made here."""
    names = 'xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="urn:i"'
    pair = "<KeyValueOfstringanyType><Key>{}</Key><Value i:type='t:{}'>{}</Value></KeyValueOfstringanyType>"
    values = {
        "string": "x",
        "int": "5",
        "long": "9223372036854775807",
        "boolean": "true",
        "double": "INF",
        "dateTime": "2020-07-05T11:12:13.1234567Z",
        "duration": "-P1DT2H3M4.0000005S",
    }
    pairs = "".join([pair.format(f"@{kind}", kind, value) for kind, value in values.items()])
    rule = (
        f'<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><RuleDescription {names}>'
        "{}<Name>r</Name></RuleDescription></content></entry>"
    )
    sql = "<SqlExpression>a = @int</SqlExpression><CompatibilityLevel>20</CompatibilityLevel>"
    documents = {
        "sql": rule.format(f'<Filter i:type="SqlFilter">{sql}<Parameters>{pairs}</Parameters></Filter>'),
        "action": rule.format(
            '<Filter i:type="TrueFilter"/><Action i:type="SqlRuleAction"><SqlExpression>SET a = @p</SqlExpression>'
            f"<Parameters>{pair.format('@p', 'string', '&lt;')}</Parameters></Action>"
        ),
        "correlation": rule.format(
            f'<Filter i:type="CorrelationFilter"><Label>l</Label><To>t</To><Properties>{pairs}</Properties></Filter>'
        ),
        "queue": (
            f"<QueueDescription {names}><LockDuration>PT1M</LockDuration><MaxDeliveryCount>5</MaxDeliveryCount>"
            "<DefaultMessageTimeToLive>P10675199DT2H48M5.4775807S</DefaultMessageTimeToLive>"
            "<RequiresSession>true</RequiresSession><Status>Active</Status><UserMetadata> a&#13; </UserMetadata>"
            "<ForwardDeadLetteredMessagesTo>sb://host:1/q</ForwardDeadLetteredMessagesTo></QueueDescription>"
        ),
        "authorization": (
            f"<TopicDescription {names}><AuthorizationRules><AuthorizationRule i:type='SharedAccessAuthorizationRule'>"
            "<Rights><AccessRights>Send</AccessRights></Rights><KeyName>k</KeyName><PrimaryKey>abc=</PrimaryKey>"
            "<SecondaryKey/></AuthorizationRule></AuthorizationRules></TopicDescription>"
        ),
        "bomb": '<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z "&x;&x;">]><a>&z;</a>',
        "nil": f'<SubscriptionDescription {names}><ForwardTo i:nil="true"/><Status/></SubscriptionDescription>',
        "utf-16": "",
    }
    seeds = {name: document.encode() for name, document in documents.items()}
    seeds["utf-16"] = '<?xml version="1.0" encoding="utf-16"?><a>x</a>'.encode("utf-16")
    seeds["choices"] = bytes(range(64))
    seeds["pieces"] = b"<a " + bytes(range(0x80, 0x100)) + b"</a>"
    return seeds


def main() -> None:
    targets = {
        "decoder": decoder_seeds(),
        "message": message_seeds(),
        "before-open": before_open_seeds(),
        "after-open": after_open_seeds(),
        "rules": rule_seeds(),
        "atom": atom_seeds(),
    }
    for target, seeds in targets.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds.items():
            (folder / name).write_bytes(seed)
        print(f"{target}: {len(seeds)} seeds")


if __name__ == "__main__":
    main()
