"""Features of connections, sessions and the naming of links."""

from __future__ import annotations

from typing import Final

from proton import Condition, ConnectionException, Message

from tests.interop.peers.proton_client.peer import Link, Peer, idle, left_in, receive, require_left, send, wait_for

# Proton announces half of it: the server has to send something every second. Servers refuse less than that.
HEARTBEAT_S: Final = 2.0


def sasl_anonymous(peer: Peer) -> None:
    with peer.connection(allowed_mechs="ANONYMOUS") as connection:
        assert connection.conn.transport.sasl().mech == "ANONYMOUS"


def sasl_plain(peer: Peer) -> None:
    with peer.connection(allowed_mechs="PLAIN", user=peer.user, password=peer.password) as connection:
        assert connection.conn.transport.sasl().mech == "PLAIN"
        send(connection, peer.address, Message(body="authenticated"))
        receive(connection, peer.address, 1)


def sasl_plain_refused(peer: Peer) -> None:
    refusal = ""
    try:
        with peer.connection(allowed_mechs="PLAIN", user=peer.user, password=f"not {peer.password}"):
            pass
    except ConnectionException as error:
        refusal = str(error)
    assert refusal, "the server let a client with a wrong password in"
    assert "unauthorized-access" in refusal, f"refused, but not by a SASL outcome: {refusal}"


def close_with_error(peer: Peer) -> None:
    with peer.connection() as connection:
        connection.conn.condition = Condition("amqp:internal-error", "the client has had enough", {"attempt": 1})
        # Leaving the block closes the connection, and waits for the close of the server.


def idle_timeout(peer: Peer) -> None:
    with peer.connection(heartbeat=HEARTBEAT_S) as connection:
        idle(connection, HEARTBEAT_S * 1.5)
        send(connection, peer.address, Message(body="still here"))
        receive(connection, peer.address, 1)


def two_sessions(peer: Peer) -> None:
    with peer.connection() as connection:
        session = connection.conn.session()
        session.open()
        link = Link(connection, peer.address, session=session)
        link.give_credit(2)
        send(connection, peer.address, Message(body="from one session to the other"))
        assert link.take_one().message.body == "from one session to the other"
        session.close()
        wait_for(connection, lambda: bool(session.state & session.REMOTE_CLOSED), "waiting for the end")
        # The delivery was not settled when its session ended, so that the other session may get it again.
        left_in(connection, peer.address)
        send(connection, peer.address, Message(body="the other session lives on"))
        require_left(connection, peer.address, "the other session lives on")


def many_links(peer: Peer) -> None:
    with peer.connection() as connection:
        senders = [connection.create_sender(f"{peer.address}.{number}") for number in range(50)]
        links = [Link(connection, f"{peer.address}.{number}") for number in range(50)]
        for number, sender in enumerate(senders):
            sender.send(Message(body=number))
        for number, link in enumerate(links):
            link.give_credit(1)
            received = link.take_one()
            assert received.message.body == number, f"link {number} got {received.message.body}"
            received.delivery.update(received.delivery.ACCEPTED)
            received.delivery.settle()


def link_reattach(peer: Peer) -> None:
    with peer.connection() as connection:
        for attempt in range(3):
            send(connection, peer.address, Message(body=attempt))
            link = Link(connection, peer.address, name="the same name")
            link.give_credit(1)
            received = link.take_one()
            assert received.message.body == attempt
            received.settle(received.delivery.ACCEPTED)
            link.close()
