"""One client connection: who it is, what it may do, and what stands behind its links.

Before it has proved anything, a connection reaches only nodes that check a token with each request (`$cbs` and the
namespace's `$management`), and may declare transactions. It has little room and little time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from tandem.addresses import Address, parse_address, split_hub_path
from tandem.amqp import (
    AuthenticationRequested,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    Coordinator,
    CreditReceived,
    DispositionReceived,
    Event,
    IncomingDelivery,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    SenderLink,
    Session,
    SessionBegun,
    SessionEnded,
    SessionFailed,
)
from tandem.amqp.link import Link
from tandem.amqp.performatives import Begin, Open
from tandem.amqp.settings import PLAIN
from tandem.amqp.terminus import Source, Target
from tandem.auth import Claims, ClaimSet, Right, expired_text, is_sas_token, login, verify
from tandem.driver.endpoint import Endpoint
from tandem.driver.turns import Allowance
from tandem.engine.consumer import Gate
from tandem.engine.topic import Topic
from tandem.errors import (
    ArgumentError,
    InvalidToken,
    NotFound,
    ProtocolError,
    ResourceLimitExceeded,
    Scope,
    UnauthorizedAccess,
)
from tandem.limits import AUTHENTICATION_TIMEOUT_S, STRANGER_BURST_WORK, STRANGER_WORK_PER_SECOND
from tandem.server.cross_entity import CrossEntitySessions
from tandem.server.faults.active_faults import Encounter, Faults
from tandem.server.faults.links import FaultyEgress, FaultyLink, connect
from tandem.server.nodes.acknowledging import SEND, Acknowledging
from tandem.server.nodes.cbs import CbsLink
from tandem.server.nodes.client_entities import ClientEntities
from tandem.server.nodes.coordinator import CoordinatorLink
from tandem.server.nodes.egress import Egress
from tandem.server.nodes.event_hub import EventEgress, EventIngress
from tandem.server.nodes.hub_management import HubManagementLink
from tandem.server.nodes.ingress import Ingress
from tandem.server.nodes.link_meter import LinkMeter
from tandem.server.nodes.management import ManagementLink
from tandem.server.nodes.request_gate import RequestGate
from tandem.server.nodes.responses import ResponseLink
from tandem.server.nodes.unsubscribing import Unsubscribing
from tandem.server.services import Services
from tandem.server.tracking import Tracker

if TYPE_CHECKING:
    from tandem.server.directory import Directory
from tandem.limits import (
    MAX_CLIENT_NAME_CHARACTERS,
    MAX_LINKS_BEFORE_AUTHENTICATION,
    MAX_LINKS_PER_CONNECTION,
    MAX_SESSIONS_BEFORE_AUTHENTICATION,
)
from tandem.wire_names import CBS_NODE, SYPHON_USER_AGENT

__all__ = ["Peer"]

logger = logging.getLogger(__name__)

Node = (
    Ingress
    | Egress
    | EventIngress
    | EventEgress
    | CbsLink
    | ManagementLink
    | HubManagementLink
    | CoordinatorLink
    | ResponseLink
    | Unsubscribing
)


class Peer:
    """The application behind one connection."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        # Until the client says which namespace it means.
        self.services: Services = directory.default.services
        self.tracker: Tracker = self.services.tracker
        self.endpoint: Endpoint = cast("Endpoint", None)
        self.claims = ClaimSet()
        # What the operations of this connection are counted under: what the client calls itself, and whether it says
        # that it brings messages back from backlog queues.
        self.client_name = ""
        self.is_syphon = False
        self.response_links: list[ResponseLink] = []
        # Open transactions, and the controller of each.
        self.identifiers: dict[bytes, CoordinatorLink] = {}
        self.cross_entity = CrossEntitySessions()
        self.entities = ClientEntities(self)
        # Links that took messages in this turn.
        self.dirty: list[Acknowledging] = []
        # What all receivers of this connection may be given, and the one that is woken first when that is more again.
        self.gate: Gate = Gate()
        self._first_to_wake = 0
        self.requests = RequestGate(self)
        # Answers that wait for credit, on all response links.
        self.waiting_response_bytes = 0
        self._nodes: dict[Link, Node] = {}
        self._session_count = 0
        self._attach_count = 0
        self._is_authenticated = False
        # The connection broke, rather than being closed: nobody knows what the client has made of its messages.
        self.is_lost = False
        # Of the loop over nodes that is under way.
        self._failures: list[tuple[Node, Exception]] = []

    def start(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        endpoint.limit(Allowance(STRANGER_BURST_WORK, STRANGER_WORK_PER_SECOND, asyncio.get_running_loop().time()))
        self.services.watch(self)

    def now_s(self) -> int:
        return self.services.clock.now_ms() // 1000

    # --- Application ----------------------------------------------------------------------------------------

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        self.services.runner.begin()
        self._handle(events)
        self._finish_turn()

    def _finish_turn(self) -> None:
        for ingress in self.dirty:
            ingress.end_turn()
        self.dirty.clear()
        self.services.runner.finish()

    def _handle(self, events: list[Event]) -> None:
        node: object = None
        try:
            for event in events:
                if isinstance(event, IncomingDelivery):
                    node = event.link.context
                    if node is not None:
                        cast("Ingress", node).on_delivery(event)
                elif isinstance(event, DispositionReceived):
                    node = event.link.context
                    if isinstance(node, (Egress, FaultyEgress)):
                        node.on_disposition(event)
                elif isinstance(event, CreditReceived):
                    node = event.link.context
                    if node is not None:
                        # What was decided for an earlier flow of this turn uses up credit only when it is sent.
                        self.services.runner.deliver_decided()
                        cast("Egress", node).on_credit()
                else:
                    node = None
                    self._on_rare_event(event)
        except Exception as error:
            self.fail(node, error)

    def _attempt(self, node: Node, step: Callable[[], None]) -> None:
        """Take a step for one node. If it fails, the connection is dropped and the caller goes on to other nodes.

        Dropping closes every link of the client, whatever this node failed at: rights that have ended stay ended.
        """
        try:
            step()
        except Exception as error:
            self._failures.append((node, error))
            self.drop()

    def _end_attempts(self) -> None:
        """Report the failures of a loop over nodes, once every node has had its turn."""
        failures, self._failures = self._failures, []
        for node, error in failures:
            self._report(node, error)

    def _detach(self, link: Link, node: Node, error: ProtocolError) -> None:
        """Detach a link in whatever state it is, and close the node behind it."""
        path = "" if isinstance(node, CbsLink | CoordinatorLink | ResponseLink) else node.address.path
        self._attempt(node, lambda: link.detach(self.tracker.sign(error, path)))
        self._close(link)

    def fail(self, node: object, error: Exception) -> None:
        """Drop the connection after an internal error while one of its nodes was served."""
        self.drop()
        self._report(node, error)

    def _report(self, node: object, error: Exception) -> None:
        """An internal error came up while this node was served. Without a supervisor it is raised."""
        supervisor = self.services.supervisor
        if supervisor is None:
            raise error
        logger.error("a connection from %s failed", self.endpoint.peer_name, exc_info=error)
        if isinstance(node, FaultyLink):
            node = node.node
        if isinstance(node, Ingress | Egress | EventIngress | EventEgress | ManagementLink):
            supervisor.entity_failed(node.address.entity, error)

    def on_writable(self, endpoint: Endpoint) -> None:
        runner = self.services.runner
        runner.begin()
        self.gate.is_shut = False
        self.gate.has_missed = False
        nodes = list(self._nodes.values())
        first = self._first_to_wake % max(1, len(nodes))
        for at in range(first, first + len(nodes)):
            node = nodes[at % len(nodes)]
            if isinstance(node, Egress | EventEgress):
                self._attempt(node, node.resume)
                runner.deliver_decided()
                if self.gate.is_shut:
                    # The next time begins with those that got nothing now.
                    self._first_to_wake = at + 1
                    break
        self._attempt_requests()
        self._end_attempts()
        runner.finish()

    def _attempt_requests(self) -> None:
        try:
            self.requests.go_on()
        except Exception as error:
            self._report(None, error)

    def regulate(self) -> None:
        """Something was sent to this client, or settled by it: judge whether its receivers get more at present."""
        gate = self.gate
        gate.is_shut = self.endpoint.is_backlogged
        if gate.is_shut or gate.has_missed:
            self.endpoint.await_writable()

    def on_lost(self, endpoint: Endpoint) -> None:
        runner = self.services.runner
        runner.begin()
        self.is_lost = True
        self._close_all()
        runner.finish()
        self.services.unwatch(self)

    def _on_rare_event(self, event: Event) -> None:
        if isinstance(event, LinkAttached):
            self._on_attached(event)
        elif isinstance(event, LinkDetached | LinkFailed):
            self.forget(event.link)
        elif isinstance(event, SessionBegun):
            if event.session.begin is not None:
                _forget_words(event.session.begin)
            self._on_begun()
        elif isinstance(event, SessionEnded | SessionFailed):
            self._close_session(event.session)
        elif isinstance(event, AuthenticationRequested):
            self._authenticate(event)
        elif isinstance(event, ConnectionClosed | ConnectionFailed):
            self.is_lost = isinstance(event, ConnectionFailed)
            self._close_all()
        elif isinstance(event, ConnectionOpened):
            self._choose_namespace(event.open.hostname)
            self.client_name = event.open.container_id[:MAX_CLIENT_NAME_CHARACTERS]
            self.is_syphon = SYPHON_USER_AGENT in str((event.open.properties or {}).get("user-agent", ""))
            _forget_words(event.open)

    # --- who it is ------------------------------------------------------------------------------------------

    def _authenticate(self, event: AuthenticationRequested) -> None:
        connection = self.endpoint.connection
        self._choose_namespace(event.hostname)
        if event.mechanism == PLAIN:
            try:
                for claims in login(event.user or "", event.password or "", self.services.key_ring):
                    self.put_claims(claims)
            except InvalidToken:
                self.after_failure(connection.reject_authentication)
                return
        # The endpoint goes on with what came behind the request, which was kept back until now.
        connection.accept_authentication()

    def after_failure(self, answer: Callable[[], None]) -> None:
        """Answer a failed authentication: at once, or later if the address of the client has failed too often."""
        delay_s = self._directory.failed_authentications.note(self.endpoint.peer_host)
        if not delay_s:
            answer()
            return
        self.endpoint.suspend(delay_s)
        asyncio.get_running_loop().call_later(delay_s, self._answer_failure, answer)

    def _answer_failure(self, answer: Callable[[], None]) -> None:
        if not self.endpoint.lost.done():
            self.turn(answer)

    def _choose_namespace(self, host: str | None) -> None:
        """The client says which host it means, in its SASL init and again in its open. Who has proven something to one
        namespace stays there."""
        services = self._directory.find(host).services
        if host and not self._is_authenticated and services is not self.services:
            self.services.unwatch(self)
            self.services = services
            self.tracker = services.tracker
            services.watch(self)
        if services.is_restarting or (services.faults is not None and services.faults.refuses_connection()):
            self.drop()

    def verify_token(self, token: str, audience: str) -> Claims:
        """Return the claims on the audience that a token proves. Raise `InvalidToken` if it proves none."""
        services = self.services
        if is_sas_token(token):
            resource = services.namespace.resource_of(parse_address(audience))
            return verify(token, audience, resource, services.key_ring, self.now_s())
        return services.jwt.validate(token, audience, self.now_s())

    def put_claims(self, claims: Claims) -> None:
        self.claims.put(claims)
        self.mark_authenticated()
        self.services.expect_expiry(self, claims.expires_at_s)

    def mark_authenticated(self) -> None:
        """Lift the limits of a stranger: the client has shown a valid token, for the connection or for one request."""
        if not self._is_authenticated:
            self._is_authenticated = True
            self.endpoint.lift_limit()

    @property
    def is_authenticated(self) -> bool:
        return self._is_authenticated

    def refuse_stranger(self) -> None:
        """Close a connection that has not proved anything in time."""
        self._close_connection(
            UnauthorizedAccess(
                f"No token was put to $cbs, and no request to $management carried one, within "
                f"{AUTHENTICATION_TIMEOUT_S:.0f} seconds of the connection."
            )
        )

    def expire_claims(self) -> None:
        """Detach the links whose token has ended without being renewed, in whatever state they are."""
        now_s = self.now_s()
        expired = self.claims.expired(now_s)
        if not expired:
            return
        error = UnauthorizedAccess(
            f"Unauthorized access. {expired_text(expired[0].expires_at_s or now_s, now_s)}", Scope.LINK
        )
        for link, node in list(self._nodes.items()):
            if not self._is_allowed(node):
                self._detach(link, node, error)
        self._end_attempts()
        self.endpoint.flush_soon()

    def _is_allowed(self, node: Node) -> bool:
        """Return whether the claims still cover everything that a link was attached for."""
        if isinstance(node, CbsLink | CoordinatorLink | HubManagementLink | ResponseLink):
            # Their requests carry tokens of their own, or need none. An answer belongs to a request that was allowed.
            return True
        rights = self.rights_for(node.address)
        if isinstance(node, ManagementLink):
            # Each request is judged by the right that it needs.
            return bool(rights)
        if (
            isinstance(node, Ingress)
            and node.destination is not None
            and Right.SEND not in self.rights_for(parse_address(node.destination))
        ):
            return False
        return (Right.SEND if isinstance(node, Acknowledging) else Right.LISTEN) in rights

    def rights_for(self, address: Address) -> Right:
        """Return what the connection may do at an address."""
        return self.claims.rights_for(self.services.namespace.resource_of(address), self.now_s())

    def require(self, right: Right, address: Address) -> None:
        uri = f"sb://{self.services.host_name}/{address.path}"
        self.claims.require(right, self.services.namespace.resource_of(address), uri, self.now_s())

    # --- what fails on purpose ------------------------------------------------------------------------------

    def meet(self, right: Right, path: str, again: Callable[[], None]) -> Encounter | None:
        """The fault that keeps an operation from being answered, if one does. `again` does it later, in a turn of its
        own. Raises the error of a fault that refuses it."""
        faults = self.services.faults
        return None if faults is None else faults.meet(right, path, partial(self.turn, again))

    def connect_links(self, faults: Faults | None) -> None:
        """Lead every link by way of faults, or directly to its node if there are none."""
        for link, node in self._nodes.items():
            connect(link, node, faults)

    def turn(self, step: Callable[[], None]) -> None:
        """Go on with something that was held up. A failure ends this connection, and no other that was held up."""
        self.services.runner.begin()
        try:
            step()
        except Exception as error:
            self.fail(None, error)
        self._finish_turn()
        self.endpoint.flush_soon()

    def drop(self) -> None:
        """End the connection without a word, as a network does."""
        self.endpoint.abort()

    def leave(self, entity: str, error: ProtocolError) -> None:
        """Detach all links to an entity whose memory was given up, without a word to that memory."""
        folded = entity.lower()
        for link, node in list(self._nodes.items()):
            if isinstance(node, Ingress | Egress | ManagementLink) and _belongs(node.address.entity.lower(), folded):
                self._attempt(node, partial(link.detach, self.tracker.sign(error, node.address.path)))
                self._nodes.pop(link, None)
                link.context = None
        self._end_attempts()
        self.endpoint.flush_soon()

    def leave_namespace(self, error: ProtocolError) -> None:
        """End the connection: the memory of its namespace was given up, and is not told."""
        for link in self._nodes:
            link.context = None
        self._nodes.clear()
        self.response_links.clear()
        self._close_connection(error)

    def regulate_receivers(self) -> None:
        """What they may be given has changed."""
        self.services.runner.deliver_decided()
        for link, node in list(self._nodes.items()):
            if isinstance(node, Egress | EventEgress):
                self._attempt(node, cast("Egress", link.context).on_credit)
        self._end_attempts()
        self.endpoint.flush_soon()

    def detach_senders(self, covers: Callable[[str], bool], error: ProtocolError) -> None:
        """Those who send to an entity, or ask about it, have to attach again. Receivers are told by the engine."""
        for link, node in list(self._nodes.items()):
            if isinstance(node, Ingress | ManagementLink) and covers(node.address.entity):
                self._detach(link, node, error)
        self._end_attempts()
        self.endpoint.flush_soon()

    # --- links ----------------------------------------------------------------------------------------------

    def _on_begun(self) -> None:
        self._session_count += 1
        if not self._is_authenticated and self._session_count > MAX_SESSIONS_BEFORE_AUTHENTICATION:
            self._close_connection(
                ResourceLimitExceeded(
                    f"{self._session_count} sessions before a token was put; at most "
                    f"{MAX_SESSIONS_BEFORE_AUTHENTICATION} are allowed"
                )
            )

    def _on_attached(self, event: LinkAttached) -> None:
        self._attach_count += 1
        limit = MAX_LINKS_PER_CONNECTION if self._is_authenticated else MAX_LINKS_BEFORE_AUTHENTICATION
        count = self.endpoint.connection.link_count if self._is_authenticated else self._attach_count
        if count > limit:
            self._close_connection(
                ResourceLimitExceeded(f"{count} links on one connection; at most {limit} are allowed")
            )
            return
        link = event.link
        path = ""
        try:
            if isinstance(event.attach.target, Coordinator) and not isinstance(link, SenderLink):
                self._add(link, CoordinatorLink(self, event))
                self.cross_entity.announce(link.session)
                return
            if isinstance(link, SenderLink) and event.attach.source is None:
                self._require_authenticated(link.name)
                self._add(link, Unsubscribing(self, event, self.entities.durable_subscriptions(event)))
                return
            self.entities.make_dynamic(event)
            address = _address(event)
            path = address.path
            node = self._make_node(event, address)
        except ProtocolError as error:
            link.refuse(self.tracker.sign(error, path))
            link.forget_attach()
            self.entities.forget(link)
            self._count_refusal(link, path, error)
            return
        self._add(link, node)
        link.forget_attach()

    def _count_refusal(self, link: Link, path: str, error: ProtocolError) -> None:
        """Of entities that there are: anybody can think of others."""
        namespace = self.services.namespace
        entity = namespace.find_any(path) or namespace.find_hub(path)
        if entity is not None and self._is_authenticated:
            operation = "receive" if isinstance(link, SenderLink) else SEND
            LinkMeter(self, entity.name, entity.description.kind).refused(operation, error)

    def _make_node(self, event: LinkAttached, address: Address) -> Node:
        is_sending = isinstance(event.link, SenderLink)
        if address.is_cbs:
            return ResponseLink(self, event, CBS_NODE) if is_sending else CbsLink(self, event)
        if address.is_management and not address.entity:
            # Each request names its hub and may carry a token: two SDKs attach before they have put any to `$cbs`.
            if is_sending:
                return ResponseLink(self, event, address.resource)
            return HubManagementLink(self, event, address)
        self._require_authenticated(address.path)
        namespace = self.services.namespace
        if address.is_management:
            if not self.rights_for(address):
                self.require(Right.LISTEN, address)
            subqueue = namespace.resolve(address)
            if is_sending:
                return ResponseLink(self, event, address.resource)
            return ManagementLink(self, event, subqueue, address)
        right = Right.LISTEN if is_sending else Right.SEND
        self.require(right, address)
        path = split_hub_path(address.path)
        hub = namespace.find_hub(address.path)
        faults = self.services.faults
        if hub is not None:
            if faults is not None:
                faults.check_path(right, hub.name)
            if is_sending:
                return EventEgress(self, event, hub, path, address)
            return EventIngress(self, event, hub, path, address)
        subqueue = namespace.resolve(address)
        if faults is not None:
            faults.check_path(right, subqueue.queue.name)
        if is_sending:
            self.cross_entity.check_receiver(event.link.session, subqueue.queue)
            queue = subqueue.queue
            subscribed = self.entities.subscribe(event, queue) if isinstance(queue, Topic) else None
            if subscribed is not None:
                subqueue = subscribed.subscription.main
                address = parse_address(subqueue.path)
            node: Node = Egress(self, event, subqueue, address, subscribed)
        else:
            node = Ingress(self, event, subqueue.queue, address)
        self.cross_entity.join(event.link.session, subqueue.queue)
        return node

    def _require_authenticated(self, path: str) -> None:
        if not self._is_authenticated:
            raise UnauthorizedAccess(
                f"Unauthorized access. '{path}' needs a token: put one to $cbs first, or log in by SASL PLAIN.",
                Scope.LINK,
            )

    def _add(self, link: Link, node: Node) -> None:
        if link.is_gone:
            node.close()
            self.entities.forget(link)
            return
        self._nodes[link] = node
        connect(link, node, self.services.faults)
        if isinstance(node, ResponseLink):
            self.response_links.append(node)

    def forget(self, link: Link) -> None:
        """Close the node behind a link that is over."""
        self._close(link)
        self._end_attempts()

    def _close(self, link: Link) -> None:
        node = self._nodes.pop(link, None)
        link.context = None
        if node is None:
            return
        self._attempt(node, node.close)
        self.entities.forget(link)
        if isinstance(node, ResponseLink):
            self.response_links.remove(node)

    def _close_session(self, session: Session) -> None:
        self._session_count -= 1
        self.cross_entity.forget(session)
        for link in [link for link in self._nodes if link.session is session]:
            self._close(link)
        self._end_attempts()

    def _close_all(self) -> None:
        self.requests.clear()
        for link in list(self._nodes):
            self._close(link)
        self.services.namespace.transactions.roll_back_of(self)
        self._end_attempts()

    def _close_connection(self, error: ProtocolError) -> None:
        connection = self.endpoint.connection
        if connection.is_open:
            connection.close(self.tracker.sign(error, ""))
            self.endpoint.flush_soon()
        else:
            self.endpoint.abort()
        self._close_all()


def _forget_words(greeting: Open | Begin) -> None:
    """Keep the numbers and names of an open or a begin. What they say beside them is read, and may be large."""
    greeting.properties = None
    greeting.offered_capabilities = None
    greeting.desired_capabilities = None
    if isinstance(greeting, Open):
        greeting.incoming_locales = None
        greeting.outgoing_locales = None


def _belongs(path: str, entity: str) -> bool:
    """Whether a path is that of an entity, or of a subscription of it."""
    return path == entity or path.startswith(f"{entity}/subscriptions/")


def _address(event: LinkAttached) -> Address:
    """What the client wants to send to or receive from."""
    terminus: Source | Target | Coordinator | None = (
        event.attach.source if isinstance(event.link, SenderLink) else event.attach.target
    )
    text = terminus.address if isinstance(terminus, Source | Target) else None
    if not isinstance(text, str) or not text:
        raise NotFound(f"The messaging entity '{text!r:.80}' could not be found: an attach needs an address.")
    try:
        return parse_address(str(text))
    except ArgumentError as error:
        raise NotFound(f"The messaging entity '{text[:80]}' could not be found: {error}") from None
