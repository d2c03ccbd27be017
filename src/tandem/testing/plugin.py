"""The pytest plugin: a service bus for every test.

    def test_an_order_is_confirmed(tandem_bus):
        tandem_bus.create_queue("orders")
        place_order(tandem_bus.connection_string, "a table")
        assert [str(message) for message in tandem_bus.messages("orders")] == ["a table"]

One broker runs inside the process of the tests, from the first that asks for it to the end. A test finds the entities
that fixtures of a wider scope have made through `tandem_session_bus`, empty, and no others.

pytest loads this module in every project that has Tandem installed: it imports next to nothing until a test wants one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tandem.testing.bus import Bus

__all__ = ["tandem_bus", "tandem_session_bus"]


@pytest.fixture(scope="session")
def tandem_session_bus() -> Iterator[Bus]:
    """A Tandem broker inside this process, for fixtures that make entities which all tests share."""
    from tandem.testing.bus import Bus

    with Bus() as bus:
        yield bus


@pytest.fixture
def tandem_bus(tandem_session_bus: Bus) -> Iterator[Bus]:
    """A Tandem broker inside this process, empty but for shared entities, with a clock to move and faults to set."""
    kept = tandem_session_bus.take_stock()
    yield tandem_session_bus
    tandem_session_bus.clean(kept)
