"""The handlers of the REST data plane.

POST    /{entity}/messages                    send one, or an array of them (application/vnd.microsoft.servicebus.json)
POST    /{hub}/partitions/{id}/messages       the same to a partition of an event hub
POST    /{hub}/publishers/{name}/messages     the same as a publisher
POST    /{entity}/messages/head?timeout=60    receive and lock: 201, or 204 if none came in time
DELETE  /{entity}/messages/head?timeout=60    receive and delete: 200, or 204
DELETE  /{entity}/messages/{id}/{lock-token}  complete
PUT     /{entity}/messages/{id}/{lock-token}  unlock, which is abandon
POST    /{entity}/messages/{id}/{lock-token}  renew the lock
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote, unquote

from aiohttp import hdrs, web

from tandem.addresses import Address, parse_address, split_hub_path
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
from tandem.limits import MAX_REST_REQUEST_BYTES, MAX_REST_TIMEOUT_S
from tandem.management.atom.documents import ERROR_TYPE, error_document
from tandem.management.gate import Gate
from tandem.management.metered import count_as, count_refusal
from tandem.management.requests import read_body
from tandem.management.rest.broker_properties import answer_headers, body_of
from tandem.management.rest.events import send_events
from tandem.management.rest.receiver import receive_one
from tandem.management.rest.sent import is_batch, read_batch, read_message
from tandem.wire_names import DEAD_LETTER_SOURCE, ENQUEUE_SEQUENCE_NUMBER, ENQUEUED_TIME, SEQUENCE_NUMBER

__all__ = ["MessageService"]

_MESSAGES: Final = "messages"
_HEAD: Final = "head"
_GONE: Final = 410

# What each verb on a locked message does, as it is counted.
_SETTLEMENTS: Final = {hdrs.METH_DELETE: "complete", hdrs.METH_PUT: "abandon", hdrs.METH_POST: "renew"}


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
        body = await read_body(request, MAX_REST_REQUEST_BYTES)
        path = split_hub_path(address.path)
        if self._gate.hosted.namespace.find_hub(address.path) is not None:
            await send_events(self._gate, path, request, body)
            return web.Response(status=201)
        if is_batch(request):
            payload, message_format = make_batch(read_batch(body)), BATCH_FORMAT
        else:
            payload, message_format = read_message(request, body), 0

        def send(namespace: Namespace) -> None:
            subqueue = namespace.resolve(address)
            if subqueue.is_dead_letter or subqueue.queue.topic is not None:
                raise NotAllowed(f"Messages cannot be sent to '{address.path}'.", Scope.DELIVERY)
            queue = subqueue.queue
            self._gate.throttle_message(queue.name, len(payload), is_partitioned=queue.description.enable_partitioning)
            messages = queue.send(payload, message_format)
            count_as(request, "send", [message.size_bytes for message in messages])

        count_as(request, "send", (len(payload),))
        await self._gate.perform(send)
        return web.Response(status=201)

    # --- receiving ------------------------------------------------------------------------------------------

    async def receive(self, request: web.Request) -> web.Response:
        address = _address(request, 2)
        self._gate.admit(request, address.resource, Right.LISTEN)
        count_as(request, "receive")
        timeout_s = _timeout(request)
        deletes = request.method == hdrs.METH_DELETE
        subqueue = await self._gate.perform(lambda namespace: _receivable(namespace, address))
        received = await receive_one(self._gate, subqueue, deletes, timeout_s)
        if received is None:
            count_as(request, "empty-receive")
            return web.Response(status=204)
        count_as(request, "receive", (len(received.payload),))
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

        count_as(request, _SETTLEMENTS[request.method])
        await self._gate.perform(settle)
        return web.Response(status=200)

    def _error(self, error: ProtocolError, request: web.Request) -> web.Response:
        """An entity that is not there is gone, to this part of the service."""
        count_refusal(request, error)
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
    text = request.query.get("timeout", str(MAX_REST_TIMEOUT_S))
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ArgumentError(f"timeout is {text!r:.40}; it must be a whole number of seconds")
    return float(min(int(text), MAX_REST_TIMEOUT_S))


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

    source = annotations.get(DEAD_LETTER_SOURCE)
    return BrokeredMessage(
        0,
        number(SEQUENCE_NUMBER),
        0,
        0 if header is None else header.delivery_count,
        number(ENQUEUED_TIME),
        NEVER_MS,
        0,
        NEVER_MS,
        None,
        0,
        number(ENQUEUE_SEQUENCE_NUMBER),
        0,
        0,
        str(source) if isinstance(source, str) else None,
        None,
    )
