"""The line that clients are given."""

from __future__ import annotations

import pytest
from azure.servicebus import parse_connection_string

from tandem.errors import ConfigurationError
from tandem.management.connection_string import ConnectionString

DEVELOPMENT = (
    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
    "UseDevelopmentEmulator=true;"
)


def test_the_default_is_the_broker_for_development_on_this_machine() -> None:
    assert str(ConnectionString()) == DEVELOPMENT
    assert ConnectionString.parse(DEVELOPMENT) == ConnectionString()


def test_the_official_sdk_reads_it() -> None:
    read = parse_connection_string(str(ConnectionString("127.0.0.1", 5300, "rule", "a+b/c==")))
    assert (read.fully_qualified_namespace, read.shared_access_key_name) == ("127.0.0.1:5300", "rule")
    assert read.shared_access_key == "a+b/c=="


@pytest.mark.parametrize(
    "text, url",
    [
        ("Endpoint=sb://bus:5300;{};UseDevelopmentEmulator=true", "http://bus:5300"),
        ("Endpoint=sb://bus;{};UseDevelopmentEmulator=true", "http://bus:5672"),
        ("Endpoint=sb://bus.example.org/;{}", "https://bus.example.org:443"),
        ("endpoint = sb://bus:8443/ ;{};", "https://bus:8443"),
        ("Endpoint=sb://[::1]:5672;{};UseDevelopmentEmulator=true", "http://[::1]:5672"),
    ],
)
def test_the_endpoint_and_the_emulator_flag_say_where_http_is(text: str, url: str) -> None:
    parsed = ConnectionString.parse(text.format("SharedAccessKeyName=rule;SharedAccessKey=key="))
    assert parsed.http_url == url
    assert (parsed.rule_name, parsed.key) == ("rule", "key=")


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "Endpoint is missing"),
        ("Endpoint=sb://bus", "SharedAccessKeyName is missing"),
        ("Endpoint=sb://bus;SharedAccessKeyName=secret-rule", "SharedAccessKey is missing"),
        ("Endpoint=bus;SharedAccessKeyName=a;SharedAccessKey=secret", "sb://HOST:PORT"),
        ("Endpoint=sb://bus:high;SharedAccessKeyName=a;SharedAccessKey=secret", "Endpoint cannot be read"),
        ("Endpoint=sb://bus;SharedAccessKeyName=a;SharedAccessKey=secret;secret", "part 4"),
        ("Endpoint=sb://bus;Secret=secret", "part 2"),
        ("Endpoint=sb://bus\n;SharedAccessKeyName=a", "cannot be printed"),
        ("x" * 20_000, "20,000 characters"),
    ],
)
def test_what_is_wrong_is_said_without_repeating_the_key(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="`tandem connection-string` prints one") as refusal:
        ConnectionString.parse(text)
    assert reason in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_the_key_is_not_shown_by_repr() -> None:
    assert "SAS_KEY_VALUE" not in repr(ConnectionString())
