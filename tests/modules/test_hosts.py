"""Host names: where they lead, and what they carry."""

from __future__ import annotations

import pytest

from tandem.hosts import carried_name, dialled_host, is_loopback


@pytest.mark.parametrize(
    "host, dialled",
    [
        ("sales.localhost", "localhost"),
        ("Sales.LocalHost.", "localhost"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("notlocalhost", "notlocalhost"),
        ("localhost.example", "localhost.example"),
    ],
)
def test_names_below_localhost_are_this_machine(host: str, dialled: str) -> None:
    assert dialled_host(host) == dialled


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "sales.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"]
)
def test_this_machine_is_known_in_any_spelling(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["broker.example", "10.0.0.1", "fe80::1", "localhost.example", ""])
def test_other_machines_are_not_this_one(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "host, name",
    [
        ("contoso.servicebus.windows.net", "contoso"),
        ("Contoso.servicebus.chinacloudapi.cn", "contoso"),
        ("sales.localhost", "sales"),
        ("localhost", None),
        ("127.0.0.1", None),
        ("broker.example", None),
    ],
)
def test_some_hosts_carry_the_name_of_a_namespace(host: str, name: str | None) -> None:
    assert carried_name(host) == name
