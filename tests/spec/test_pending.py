"""What waits for the peer's window is bounded by what the application sent, whatever the peer asks for."""

from __future__ import annotations

from tandem.amqp.performatives import Flow, Transfer
from tests.markers import spec
from tests.spec.raw_peer import opened_server


@spec("amqp:2.5.6", "amqp:2.6.7")
def test_flows_asked_for_while_the_window_is_shut_do_not_pile_up() -> None:
    peer = opened_server()
    session = peer.begin(window=0)
    links = [peer.attach_receiver("first", 0), peer.attach_receiver("second", 1)]
    for link in links:
        peer.flow(link.handle, 100, window=0)
        link.send(b"waits")
    peer.read()
    for _ in range(1_000):
        for link in links:
            peer.flow(link.handle, 100, echo=True, window=0)
    assert len(session.outbox.pending) == 4  # two deliveries, and a flow of each link
    peer.flow(window=10)
    answers = peer.read()
    assert [type(answer) for answer in answers] == [Transfer, Transfer, Flow, Flow]
    counts = [(answer.handle, answer.delivery_count) for answer in answers if isinstance(answer, Flow)]
    assert counts == [(0, 1), (1, 1)]
    # A flow that was held back once is written at once when nothing waits any more.
    peer.flow(0, 100, delivery_count=1, echo=True, window=10)
    assert [type(answer) for answer in peer.read()] == [Flow]
