"""A server answers an open with the properties of the host that the client asks for."""

from __future__ import annotations

import pytest

from tandem.amqp import Settings
from tandem.amqp.connection import Connection, Role
from tandem.amqp.events import AuthenticationRequested, ConnectionOpened
from tests.markers import spec


def answer(hostname: str | None, *, sasl: bool) -> object:
    """The properties that a client of this host receives."""
    client = Connection(Role.CLIENT, Settings("client", hostname=hostname))
    server = Connection(Role.SERVER, Settings("server", properties_for_host=lambda host: {"host": host or "nobody"}))
    client.open(sasl=sasl)
    for _ in range(4):
        for event in server.receive(client.data_to_send()):
            if isinstance(event, AuthenticationRequested):
                server.accept_authentication()
                server.receive(b"")
        for event in client.receive(server.data_to_send()):
            if isinstance(event, ConnectionOpened):
                return event.open.properties
    raise AssertionError("the connection was not opened")


@spec("amqp:2.7.1")
@pytest.mark.parametrize("sasl", [True, False])
@pytest.mark.parametrize("hostname", ["sales.localhost", None])
def test_the_properties_are_those_of_the_host_in_the_open(hostname: str | None, sasl: bool) -> None:
    assert answer(hostname, sasl=sasl) == {"host": hostname or "nobody"}


@spec("amqp:2.7.1")
def test_a_host_that_only_the_sasl_init_names_counts_too() -> None:
    client_settings = Settings("client", hostname="sales.localhost")
    client = Connection(Role.CLIENT, client_settings)
    server = Connection(Role.SERVER, Settings("server", properties_for_host=lambda host: {"host": host}))
    client.open()
    server.receive(client.data_to_send())
    client.receive(server.data_to_send())
    # Its open comes without the host.
    server.receive(client.data_to_send())
    client_settings.hostname = None
    server.accept_authentication()
    client.receive(server.data_to_send())
    server.receive(client.data_to_send())
    (opened,) = [event for event in client.receive(server.data_to_send()) if isinstance(event, ConnectionOpened)]
    assert opened.open.properties == {"host": "sales.localhost"}
