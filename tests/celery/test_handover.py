"""What goes from the thread of the client library to that of the program."""

from __future__ import annotations

import select

import pytest

from tandem.celery.handover import Handover
from tandem.client import MessagingEntityNotFoundError


def is_readable(handover: Handover[str]) -> bool:
    return bool(select.select([handover], [], [], 0)[0])


def test_the_descriptor_is_readable_while_there_are_items() -> None:
    handover: Handover[str] = Handover()
    assert not is_readable(handover)
    for item in ("a", "b"):
        handover.put(item)
    assert is_readable(handover)
    assert [handover.take(), handover.take(), handover.take()] == ["a", "b", None]
    assert not is_readable(handover)
    handover.close()


def test_an_error_is_raised_again_although_somebody_has_swallowed_it() -> None:
    """As Celery does when its worker starts: the event loop, which comes next, must get it too."""
    handover: Handover[str] = Handover()
    handover.put("a")
    handover.put(MessagingEntityNotFoundError("the queue was deleted"))
    assert handover.wait(0) == "a"
    for _ in range(2):
        with pytest.raises(MessagingEntityNotFoundError):
            handover.wait(0)
        assert is_readable(handover)
    assert handover.close() == []
