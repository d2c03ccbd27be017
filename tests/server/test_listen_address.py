"""Addresses of --listen: how they are written, and which of them are served."""

from __future__ import annotations

import pytest

from tandem.errors import ConfigurationError
from tandem.server.listen_address import ListenAddress, parse_listen_address, placed


@pytest.mark.parametrize(
    "text, host, port, is_tls_only",
    [
        ("5671", "127.0.0.1", 5671, False),
        (":5671", "", 5671, False),
        ("0.0.0.0:443", "0.0.0.0", 443, False),
        ("tls://0.0.0.0:443", "0.0.0.0", 443, True),
        ("TLS://443", "127.0.0.1", 443, True),
        ("[::1]:5672", "::1", 5672, False),
        ("tls://broker.example:0", "broker.example", 0, True),
    ],
)
def test_an_address_has_a_port_and_perhaps_a_host_and_tls(text: str, host: str, port: int, is_tls_only: bool) -> None:
    address = parse_listen_address(text, "127.0.0.1")
    assert (address.host, address.port, address.is_tls_only) == (host, port, is_tls_only)


@pytest.mark.parametrize("text", ["", "localhost", "http://0.0.0.0:443", "::1:5672", "1.2.3.4:65536", "a b:1", "1:2:3"])
def test_an_address_that_cannot_be_read_is_refused_with_the_option_and_examples(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--listen is .*; write \[tls://\]\[HOST:\]PORT .* 0\.0\.0\.0:443"):
        parse_listen_address(text, "127.0.0.1")


def listed(*texts: str) -> list[ListenAddress]:
    return [parse_listen_address(text, "127.0.0.1") for text in texts]


FIRST = [ListenAddress("127.0.0.1", 5672, option="--port"), ListenAddress("127.0.0.1", 5300, option="--http-port")]


@pytest.mark.parametrize(
    "further, served",
    [
        ((), ["127.0.0.1:5672", "127.0.0.1:5300"]),
        (("5671", "tls://443"), ["127.0.0.1:5672", "127.0.0.1:5300", "127.0.0.1:5671", "tls://127.0.0.1:443"]),
        # Both could not be bound.
        (("0.0.0.0:5300", "443"), ["127.0.0.1:5672", "0.0.0.0:5300", "127.0.0.1:443"]),
        (("tls://5672",), ["tls://127.0.0.1:5672", "127.0.0.1:5300"]),
        # Another address of the machine can have the same port.
        (("10.0.0.1:5672",), ["127.0.0.1:5672", "127.0.0.1:5300", "10.0.0.1:5672"]),
        (
            ("5672", "5671", "443", "5300"),
            ["127.0.0.1:5672", "127.0.0.1:5300", "127.0.0.1:5671", "127.0.0.1:443"],
        ),
    ],
)
def test_further_addresses_add_to_the_first_or_take_the_place_of_one(
    further: tuple[str, ...], served: list[str]
) -> None:
    assert [address.text(address.port) for address in placed(FIRST, listed(*further))] == served


def test_any_number_of_free_ports_can_be_asked_for() -> None:
    assert len(placed(FIRST, listed("0", "0", "tls://0"))) == 5


@pytest.mark.parametrize("further", [("443", "443"), ("443", "tls://443"), ("443", "0.0.0.0:443"), (":443", "443")])
def test_the_same_address_twice_is_refused(further: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match=f"--listen {further[0]} listens there already; leave out one"):
        placed(FIRST, listed(*further))
