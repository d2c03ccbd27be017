"""Where a namespace is, and who we are."""

from __future__ import annotations

import pytest

from tandem.client import TokenProvider
from tandem.client.service_address import ServiceAddress, parse_connection_string
from tandem.errors import ConfigurationError, UsageError
from tests.markers import mission

SIGNATURE = "SharedAccessSignature sr=sb%3A%2F%2Fhost%2F&sig=abc&se=2000000000&skn=rule"


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


@mission("M4")
async def test_a_connection_string_says_both() -> None:
    parts = parse_connection_string(
        "Endpoint=sb://host:5672/;SharedAccessKeyName=rule;SharedAccessKey=key==;EntityPath=hub;UseDevelopmentEmulator=true;"
    )
    assert str(parts.address) == "amqp://host:5672"
    assert parts.entity_path == "hub"
    token = await parts.token_provider.get_token("sb://host/hub", 1_000)
    assert token.text.startswith("SharedAccessSignature sr=sb%3A%2F%2Fhost%2Fhub&sig=")
    assert token.expires_at_s == 4_600
    assert token.type == "servicebus.windows.net:sastoken"
    assert token.authorization == token.text


def test_without_the_emulator_a_connection_string_means_tls() -> None:
    parts = parse_connection_string("Endpoint=sb://host;SharedAccessKeyName=rule;SharedAccessKey=key")
    assert parts.address == ServiceAddress("host", None, is_tls=True)
    assert parts.entity_path is None


async def test_a_connection_string_may_hold_a_token() -> None:
    parts = parse_connection_string(f"Endpoint=sb://host;SharedAccessSignature={SIGNATURE}")
    token = await parts.token_provider.get_token("sb://host/", 0)
    assert token.text == SIGNATURE
    assert token.expires_at_s == 2_000_000_000


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "Endpoint is missing"),
        ("nonsense", "part 1 is none of"),
        ("Endpoint=host;SharedAccessKeyName=r;SharedAccessKey=k", "address is"),
        ("Endpoint=sb://host;SharedAccessKeyName=r", "SharedAccessKey is missing"),
        (f"Endpoint=sb://host;SharedAccessKey=k;SharedAccessSignature={SIGNATURE}", "and also"),
        ("x" * 20_000, "characters"),
    ],
)
def test_a_connection_string_that_cannot_be_used_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        parse_connection_string(text)


def test_neither_keys_nor_tokens_are_shown() -> None:
    provider = TokenProvider.create_shared_access_signature("rule", "secret")
    assert "secret" not in repr(provider)
    assert "sig" not in repr(TokenProvider.create_from_token(SIGNATURE))
    with pytest.raises(ConfigurationError) as caught:
        parse_connection_string("SharedAccessKey=secret")
    assert "secret" not in str(caught.value)


def test_a_provider_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        TokenProvider.create_shared_access_signature("rule", "")
    with pytest.raises(UsageError, match="lifetime_s"):
        TokenProvider.create_shared_access_signature("rule", "key", lifetime_s=0)
    with pytest.raises(UsageError, match="SharedAccessSignature"):
        TokenProvider.create_from_token("a.jwt.token")
