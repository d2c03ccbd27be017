"""Where a namespace is, and the key to it."""

from __future__ import annotations

import dataclasses

import azure.servicebus
import pytest

from tandem.client import TokenProvider
from tandem.client.wire.token_provider import token_provider_of
from tandem.connection_string import ConnectionString, ServiceAddress
from tandem.errors import ConfigurationError, UsageError
from tests.markers import mission

SIGNATURE = "SharedAccessSignature sr=sb%3A%2F%2Fhost%2F&sig=abc&se=2000000000&skn=rule"
DEVELOPMENT = (
    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
    "UseDevelopmentEmulator=true;"
)


@mission("M4")
@pytest.mark.parametrize(
    "text, port, url",
    [
        ("sb://contoso.example", 5671, "https://contoso.example:443"),
        ("sb://contoso.example:9000/", 9000, "https://contoso.example:9000"),
        ("amqps://contoso.example", 5671, "https://contoso.example:443"),
        ("amqp://contoso.example", 5672, "http://contoso.example:5672"),
        ("http://contoso.example:5300", 5300, "http://contoso.example:5300"),
        ("amqp://[::1]:5672", 5672, "http://[::1]:5672"),
    ],
)
def test_an_address_says_where_and_how(text: str, port: int, url: str) -> None:
    address = ServiceAddress.parse(text)
    assert address.amqp_port == port
    assert address.http_url == url
    assert ServiceAddress.parse(str(address)) == address


@pytest.mark.parametrize("text", ["contoso", "ftp://contoso", "sb://", "sb://contoso:x", "sb://contoso/queue"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="address is"):
        ServiceAddress.parse(text)


def test_an_audience_has_the_path_and_no_port() -> None:
    assert ServiceAddress.parse("sb://host:1/").audience("a b/c") == "sb://host/a%20b/c"


def test_the_default_is_the_broker_for_development_on_this_machine() -> None:
    assert str(ConnectionString()) == DEVELOPMENT
    assert ConnectionString.parse(DEVELOPMENT) == ConnectionString()


def test_the_official_sdk_reads_a_connection_string_that_is_written() -> None:
    read = azure.servicebus.parse_connection_string(str(ConnectionString("127.0.0.1", 5300, "rule", "a+b/c==")))
    assert (read.fully_qualified_namespace, read.shared_access_key_name) == ("127.0.0.1:5300", "rule")
    assert read.shared_access_key == "a+b/c=="


@pytest.mark.parametrize(
    "given",
    [
        ConnectionString("bus", None, "rule", "key==", is_emulator=False),
        ConnectionString("::1", 5300, "rule", "key", entity_path="a/b"),
        ConnectionString("bus", 5671, "", "", is_emulator=False, signature=SIGNATURE),
    ],
)
def test_a_connection_string_that_is_written_is_read_again(given: ConnectionString) -> None:
    assert ConnectionString.parse(str(given)) == given


@mission("M4")
@pytest.mark.parametrize(
    "text, url",
    [
        ("Endpoint=sb://bus:5300;{};UseDevelopmentEmulator=true", "http://bus:5300"),
        ("Endpoint=sb://bus;{};UseDevelopmentEmulator=True", "http://bus:5672"),
        ("Endpoint=sb://bus.example.org/;{}", "https://bus.example.org:443"),
        ("endpoint = sb://bus:8443/ ;{};", "https://bus:8443"),
        ("{};ENDPOINT=sb://bus:8443;;", "https://bus:8443"),
        ("Endpoint=sb://bus:8443;TransportType=Amqp;{}", "https://bus:8443"),
        ("Endpoint=amqp://bus;{}", "http://bus:5672"),
        ("Endpoint=sb://[::1]:5672;{};UseDevelopmentEmulator=true", "http://[::1]:5672"),
    ],
)
def test_a_connection_string_is_read_as_the_official_sdks_read_it(text: str, url: str) -> None:
    parsed = ConnectionString.parse(text.format("SharedAccessKeyName=rule;SharedAccessKey=key="))
    assert parsed.address.http_url == url
    assert (parsed.rule_name, parsed.key, parsed.entity_path) == ("rule", "key=", None)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "Endpoint is missing"),
        ("Endpoint=sb://bus", "SharedAccessKeyName is missing"),
        ("Endpoint=sb://bus;SharedAccessKey=secret", "SharedAccessKeyName is missing"),
        ("Endpoint=sb://bus;SharedAccessKeyName=secret-rule", "SharedAccessKey is missing"),
        ("Endpoint=secret;SharedAccessKeyName=a;SharedAccessKey=secret", "sb://HOST:PORT"),
        ("Endpoint=sb://bus:secret;SharedAccessKeyName=a;SharedAccessKey=secret", "sb://HOST:PORT"),
        ("Endpoint=sb://bus;SharedAccessKeyName=a;SharedAccessKey=secret;secret", "part 4"),
        ("Endpoint=sb://bus\n;SharedAccessKeyName=a", "cannot be printed"),
        (f"Endpoint=sb://bus;SharedAccessKey=secret;SharedAccessSignature={SIGNATURE}", "and also"),
        ("Endpoint=sb://bus;SharedAccessSignature=secret", "must start with"),
        ("x" * 20_000, "20,000 characters"),
    ],
)
def test_what_is_wrong_is_said_without_repeating_the_key(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="`tandem connection-string` prints one") as refusal:
        ConnectionString.parse(text)
    assert reason in str(refusal.value)
    assert "secret" not in str(refusal.value)


async def test_a_key_makes_tokens_and_a_signature_is_one() -> None:
    given = ConnectionString.parse("Endpoint=sb://host;SharedAccessKeyName=rule;SharedAccessKey=key;EntityPath=hub")
    provider = token_provider_of(given)
    assert provider.entity_path == "hub"
    token = await provider.get_token("sb://host/hub", 1_000)
    assert token.text == given.make_token("sb://host/hub", token.expires_at_s)
    assert token.text.startswith("SharedAccessSignature sr=sb%3A%2F%2Fhost%2Fhub&sig=")
    assert (token.expires_at_s, token.type) == (4_600, "servicebus.windows.net:sastoken")
    assert token.authorization == token.text

    signed = ConnectionString.parse(f"Endpoint=sb://host;SharedAccessSignature={SIGNATURE}")
    token = await token_provider_of(signed).get_token("sb://host/", 0)
    assert (token.text, token.expires_at_s) == (SIGNATURE, 2_000_000_000)
    assert signed.make_token("sb://host/", 0) == SIGNATURE


def test_neither_keys_nor_tokens_are_shown() -> None:
    provider = TokenProvider.create_shared_access_signature("rule", "secret")
    assert "secret" not in repr(provider)
    assert "sig" not in repr(TokenProvider.create_from_token(SIGNATURE))
    assert "SAS_KEY_VALUE" not in repr(ConnectionString())
    assert "sig=" not in repr(dataclasses.replace(ConnectionString(), signature=SIGNATURE))


def test_a_provider_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        TokenProvider.create_shared_access_signature("rule", "")
    with pytest.raises(UsageError, match="lifetime_s"):
        TokenProvider.create_shared_access_signature("rule", "key", lifetime_s=0)
    with pytest.raises(UsageError, match="SharedAccessSignature"):
        TokenProvider.create_from_token("a.jwt.token")
