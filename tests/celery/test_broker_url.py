"""Broker URLs: what can be pasted, what is refused, and what is shown of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from celery import Celery
from kombu import Connection, Queue

from tandem.client import CertificateNotTrustedError
from tandem.errors import ConfigurationError, UsageError
from tandem.testing import Broker

KEYED = "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=me;SharedAccessKey=a+b/c%20==;UseDevelopmentEmulator=true;"
SECRET = "a+b/c%20=="


@pytest.mark.parametrize(
    "url",
    [KEYED, KEYED.rstrip(";"), f"tandem://{KEYED}", f"TANDEM://{KEYED}", f"tandem://{quote(KEYED, safe='')}"],
    ids=["pasted", "without the last semicolon", "with a scheme", "in capitals", "percent-encoded"],
)
def test_a_connection_string_is_a_broker_url(url: str) -> None:
    connection = Connection(url, transport="tandem.celery:Transport")
    assert connection.transport.as_uri("") == "tandem://127.0.0.1:5672"
    # The same after kombu has copied it, as its pools do.
    for copy in (connection.clone(), connection.clone().clone()):
        assert copy.transport._connection_string == connection.transport._connection_string
        assert SECRET in copy.transport._connection_string
        assert copy.alt == []
        copy.maybe_switch_next()
        assert copy.transport._connection_string == connection.transport._connection_string


def test_the_scheme_alone_chooses_the_transport_once_the_module_is_imported(broker: Broker) -> None:
    with Connection(f"tandem://{broker.connection_string}") as connection:
        connection.connect()
        assert connection.connected
        assert connection.transport.driver_name == "tandem"


def test_no_form_of_the_url_that_is_logged_has_the_key(broker: Broker) -> None:
    app = Celery("shop", broker=KEYED, broker_transport="tandem.celery:Transport")
    with app.connection() as connection:
        shown = [connection.as_uri(), connection.as_uri(include_password=True), repr(connection)]
    assert shown[0] == "tandem://127.0.0.1:5672"
    assert not any(SECRET in one or "SharedAccessKey" in one for one in shown), shown


@pytest.mark.parametrize(
    "url, reason",
    [
        (f"{KEYED}{KEYED}", "names 2 namespaces"),
        ([KEYED, KEYED], "names"),
        ("tandem://", "is empty"),
        ("Endpoint=sb://127.0.0.1;SharedAccessKeyName=me", "SharedAccessKey is missing"),
        ("tandem://user:secret@127.0.0.1:5672", "not NAME=VALUE"),
    ],
)
def test_what_is_not_one_connection_string_is_refused_without_showing_it(url: str | list[str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        _ = Connection(url, transport="tandem.celery:Transport").transport
    assert "secret" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_tls_is_used_unless_the_connection_string_says_otherwise(broker: Broker, prefix: str) -> None:
    secure = broker.connection_string.replace("UseDevelopmentEmulator=true;", "").replace("127.0.0.1", "localhost")
    options = {"transport": "tandem.celery:Transport", "transport_options": {"queue_name_prefix": prefix}}
    with Connection(secure, ssl={"ca_certs": str(broker.ca_path)}, **options) as connection:
        queue = Queue("tasks")(connection.channel())
        queue.declare()
        connection.Producer().publish("in secret", routing_key="tasks")
        assert queue.get().payload == "in secret"
    with Connection(secure, **options) as connection, pytest.raises(CertificateNotTrustedError, match="SSL_CERT_FILE"):
        connection.connect()


def test_what_else_broker_use_ssl_could_say_is_refused(broker: Broker) -> None:
    connection = Connection(broker.connection_string, transport="tandem.celery:Transport", ssl={"keyfile": "x"})
    with pytest.raises(UsageError, match="keyfile"):
        connection.connect()


@pytest.mark.parametrize("options", [{"lock_duration": "soon"}, {"operation_timeout": 0}, {"lock_duration": True}])
def test_an_option_that_is_not_a_time_is_refused_by_name(broker: Broker, options: dict[str, Any]) -> None:
    connection = Connection(broker.connection_string, transport="tandem.celery:Transport", transport_options=options)
    with pytest.raises(UsageError, match=next(iter(options))):
        connection.connect()
