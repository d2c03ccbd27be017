"""What the links have in common on which requests arrive."""

from __future__ import annotations

from tandem.amqp import LinkAttached, ReceiverLink
from tandem.limits import REQUEST_WORK

__all__ = ["accept_requests", "top_up"]


def accept_requests(event: LinkAttached, max_request_bytes: int, credit: int) -> ReceiverLink:
    """Accept a link that a client sends requests on."""
    link = event.link
    assert isinstance(link, ReceiverLink)
    reply = link.attach_reply()
    reply.max_message_size = max_request_bytes
    link.accept(reply)
    link.work_per_delivery = REQUEST_WORK
    link.grant(credit)
    return link


def top_up(link: ReceiverLink, credit: int) -> None:
    """Let more requests come when half of the credit is used."""
    if link.credit < credit // 2:
        link.grant(credit)
