"""The handlers of the REST data plane.

POST    /{entity}/messages                    send one, or an array of them (application/vnd.microsoft.servicebus.json)
POST    /{entity}/messages/head?timeout=60    receive and lock: 201, or 204 if none came in time
DELETE  /{entity}/messages/head?timeout=60    receive and delete: 200, or 204
DELETE  /{entity}/messages/{id}/{lock-token}  complete
PUT     /{entity}/messages/{id}/{lock-token}  unlock, which is abandon
POST    /{entity}/messages/{id}/{lock-token}  renew the lock
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote, unquote

import msgspec
from aiohttp import hdrs, web

from tandem.addresses import Address, parse_address
from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import Message
from tandem.auth import Right
from tandem.engine.lock_table import Lock
from tandem.engine.message import NEVER_MS, BrokeredMessage
from tandem.engine.namespace import Namespace
from tandem.engine.subqueue import SubQueue
from tandem.engine.topic import Topic
from tandem.errors import (
    ArgumentError,
    EntityDisabled,
    MessageLockLost,
    MessageNotFound,
    MessageSizeExceeded,
    NotAllowed,
    NotFound,
    ProtocolError,
    Scope,
)
from tandem.limits import MAX_MESSAGES_PER_BATCH
from tandem.management.atom.documents import ERROR_TYPE, error_document
from tandem.management.gate import Gate
from tandem.management.requests import read_body
from tandem.management.rest.broker_properties import (
    answer_headers,
    body_of,
    broker_properties,
    message_bytes,
    plain_value,
    user_properties,
)
from tandem.management.rest.receiver import receive_one

__all__ = ["MessageService"]

_BATCH_TYPE: Final = "application/vnd.microsoft.servicebus.json"

# Seconds. How long a receive waits, if the client does not say, and at most. Service: 60.
_MAX_TIMEOUT_S: Final = 60

# Bytes. The largest message, and as much again for what JSON and base64 make of it.
_MAX_REQUEST_BYTES: Final = 2 * 1_048_576

_MESSAGES: Final = "messages"
_HEAD: Final = "head"
_GONE: Final = 410


class MessageService:
    """Send, receive and settle over HTTP."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def answer(self, request: web.Request) -> web.StreamResponse | None:
        """The answer, if the URL is one of those above."""
        handler = self._handler(request)
        if handler is None:
            return None
        try:
            return await handler(request)
        except ProtocolError as error:
            return self._error(error, request)
        except web.HTTPRequestEntityTooLarge as error:
            return self._error(MessageSizeExceeded(error.text or error.reason), request)

    def _handler(self, request: web.Request) -> Callable[[web.Request], Awaitable[web.Response]] | None:
        segments = [unquote(segment) for segment in request.rel_url.raw_path.split("/") if segment]
        folded = [segment.lower() for segment in segments]
        method = request.method
        if len(segments) >= 2 and folded[-1] == _MESSAGES and method == hdrs.METH_POST:
            return self.send
        if len(segments) >= 3 and folded[-2:] == [_MESSAGES, _HEAD] and method in {hdrs.METH_POST, hdrs.METH_DELETE}:
            return self.receive
        settles = {hdrs.METH_POST, hdrs.METH_PUT, hdrs.METH_DELETE}
        if len(segments) >= 4 and folded[-3] == _MESSAGES and method in settles:
            return self.settle
        return None

    # --- sending --------------------------------------------------------------------------------------------

    async def send(self, request: web.Request) -> web.Response:
        address = _address(request, 1)
        self._gate.admit(request, address.path, Right.SEND)
        body = await read_body(request, _MAX_REQUEST_BYTES)
        if request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower() == _BATCH_TYPE:
            payload, message_format = make_batch(_read_batch(body)), BATCH_FORMAT
        else:
            broker = broker_properties(request.headers.get("BrokerProperties"))
            content_type = request.headers.get(hdrs.CONTENT_TYPE)
            payload = message_bytes(body, content_type, broker, user_properties(request.headers))
            message_format = 0

        def send(namespace: Namespace) -> None:
            subqueue = namespace.resolve(address)
            if subqueue.is_dead_letter or subqueue.queue.topic is not None:
                raise NotAllowed(f"Messages cannot be sent to '{address.path}'.", Scope.DELIVERY)
            self._gate.throttle_message(is_partitioned=subqueue.queue.description.enable_partitioning)
            subqueue.queue.send(payload, message_format)

        await self._gate.perform(send)
        return web.Response(status=201)

    # --- receiving ------------------------------------------------------------------------------------------

    async def receive(self, request: web.Request) -> web.Response:
        address = _address(request, 2)
        self._gate.admit(request, address.resource, Right.LISTEN)
        timeout_s = _timeout(request)
        deletes = request.method == hdrs.METH_DELETE
        subqueue = await self._gate.perform(lambda namespace: _receivable(namespace, address))
        received = await receive_one(self._gate, subqueue, deletes, timeout_s)
        if received is None:
            return web.Response(status=204)
        message = Message(received.payload)
        lock = received.lock
        kept = lock.message if lock is not None else _kept_of(message)
        locked = None if lock is None else (str(uuid.UUID(bytes=lock.token)), lock.locked_until_ms)
        headers = answer_headers(message, kept, locked)
        if locked is not None:
            path = f"{_entity_path(address)}/messages/{kept.visible_sequence_number}/{locked[0]}"
            headers[hdrs.LOCATION] = f"{request.scheme}://{request.host}/{quote(path, safe='/$')}"
        return web.Response(body=body_of(message), status=200 if deletes else 201, headers=headers)

    # --- settling -------------------------------------------------------------------------------------------

    async def settle(self, request: web.Request) -> web.Response:
        address = _address(request, 3)
        self._gate.admit(request, address.resource, Right.LISTEN)
        segments = [unquote(segment) for segment in request.rel_url.raw_path.split("/") if segment]
        try:
            token = uuid.UUID(segments[-1]).bytes
        except ValueError:
            raise ArgumentError(f"the lock token is {segments[-1]!r:.80}; it must be a GUID") from None

        def settle(namespace: Namespace) -> None:
            subqueue = namespace.resolve(address)
            try:
                lock = subqueue.find_lock(token)
            except MessageLockLost:
                raise MessageNotFound("The message with this id and lock token does not exist.") from None
            _settlement(request.method, subqueue)(lock)

        await self._gate.perform(settle)
        return web.Response(status=200)

    def _error(self, error: ProtocolError, request: web.Request) -> web.Response:
        """An entity that is not there is gone, to this part of the service."""
        status = _GONE if isinstance(error, NotFound) else error.http_status
        detail = self._gate.tracker.text(error.description, request.path)
        body = error_document(status, detail).encode()
        return web.Response(body=body, status=status, headers={hdrs.CONTENT_TYPE: ERROR_TYPE})


def _address(request: web.Request, behind: int) -> Address:
    """The entity before the last so many segments of the URL."""
    segments = [segment for segment in request.rel_url.raw_path.split("/") if segment]
    address = parse_address("/".join(segments[:-behind]))
    if address.is_management or address.is_cbs:
        raise NotFound(f"The messaging entity '{address.resource}' could not be found: it has no messages.")
    return address


def _entity_path(address: Address) -> str:
    suffix = {"": "", "$deadletterqueue": "/$DeadLetterQueue"}.get(
        address.sub_queue.value, "/$Transfer/$DeadLetterQueue"
    )
    return address.path + suffix


def _timeout(request: web.Request) -> float:
    text = request.query.get("timeout", str(_MAX_TIMEOUT_S))
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ArgumentError(f"timeout is {text!r:.40}; it must be a whole number of seconds")
    return float(min(int(text), _MAX_TIMEOUT_S))


def _receivable(namespace: Namespace, address: Address) -> SubQueue:
    subqueue = namespace.resolve(address)
    if isinstance(subqueue.queue, Topic):
        raise NotAllowed(f"Messages cannot be received from the topic '{address.path}'.", Scope.DELIVERY)
    if not subqueue.queue.description.can_receive:
        raise EntityDisabled(f"Messaging entity '{address.path}' is currently disabled.", Scope.DELIVERY)
    if subqueue.sessions is not None:
        raise NotAllowed(
            f"'{address.path}' requires sessions, which cannot be received over HTTP: use AMQP.", Scope.DELIVERY
        )
    return subqueue


def _settlement(method: str, subqueue: SubQueue) -> Callable[[Lock], object]:
    if method == hdrs.METH_DELETE:
        return subqueue.complete
    return subqueue.abandon if method == hdrs.METH_PUT else subqueue.renew


def _kept_of(message: Message) -> BrokeredMessage:
    """What is told of a message that is gone already: it stands in what was handed out."""
    annotations = message.message_annotations or {}
    header = message.header

    def number(key: str) -> int:
        value = annotations.get(key)
        return int(value) if isinstance(value, int) else 0

    source = annotations.get("x-opt-deadletter-source")
    return BrokeredMessage(
        0,
        number("x-opt-sequence-number"),
        0,
        0 if header is None else header.delivery_count,
        number("x-opt-enqueued-time"),
        NEVER_MS,
        0,
        NEVER_MS,
        None,
        0,
        number("x-opt-enqueue-sequence-number"),
        0,
        0,
        str(source) if isinstance(source, str) else None,
        None,
    )


def _read_batch(body: bytes) -> list[bytes]:
    try:
        items = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ArgumentError(f"the body must be a JSON array of messages: {error}") from None
    if not isinstance(items, list) or not items:
        raise ArgumentError("the body must be a JSON array of messages that is not empty")
    if len(items) > MAX_MESSAGES_PER_BATCH:
        raise ArgumentError(f"the batch has {len(items):,} messages; at most {MAX_MESSAGES_PER_BATCH:,} are allowed")
    return [_read_item(number, item) for number, item in enumerate(items)]


def _read_item(number: int, item: object) -> bytes:
    if not isinstance(item, dict):
        raise ArgumentError(f"message {number} of the batch must be an object, got {item!r:.80}")
    text = item.get("Body", "")
    if not isinstance(text, str):
        raise ArgumentError(f"Body of message {number} must be a text, got {text!r:.80}")
    body = text.encode()
    is_base64 = item.get("IsBodyBase64", False)
    if not isinstance(is_base64, bool):
        raise ArgumentError(f"IsBodyBase64 of message {number} must be true or false, got {is_base64!r:.80}")
    if is_base64:
        try:
            body = base64.b64decode(text, validate=True)
        # Also for characters outside ASCII.
        except ValueError:
            raise ArgumentError(f"Body of message {number} is not base64") from None
    broker = _object(f"BrokerProperties of message {number}", item.get("BrokerProperties"))
    user = _object(f"UserProperties of message {number}", item.get("UserProperties"))
    return message_bytes(body, None, broker, {name: plain_value(value) for name, value in user.items()})


def _object(what: str, value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ArgumentError(f"{what} must be an object, got {value!r:.80}")
    return value
