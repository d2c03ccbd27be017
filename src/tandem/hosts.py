"""Host names: which machine one leads to, and which namespace it carries the name of."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

__all__ = [
    "DEFAULT_NAMESPACE",
    "LOCAL_DOMAIN",
    "MAX_PORT",
    "bracketed",
    "carried_name",
    "dialled_host",
    "is_cloud_host",
    "is_loopback",
]

# The name of a namespace whose owner chose none, as the official emulator has it. Any number of brokers share it.
DEFAULT_NAMESPACE: Final = "sbemulatorns"

# Below it, Tandem's clients and its broker find the namespaces of this machine.
LOCAL_DOMAIN: Final = ".localhost"

# The largest port number of TCP.
MAX_PORT: Final = 65_535

# Follows the name of a namespace in each of the service's clouds: contoso.servicebus.windows.net, and
# contoso.servicebus.usgovcloudapi.net.
_CLOUD_DOMAIN: Final = ".servicebus."

_LOCALHOST: Final = "localhost"


def dialled_host(host: str) -> str:
    """Return the host to connect to. Every name below `localhost` is this machine (RFC 6761), but not every resolver
    knows that; the name still selects a namespace of its broker, so it stays in SNI, `open` and `Host`."""
    return _LOCALHOST if _plain(host).endswith(LOCAL_DOMAIN) else host


def bracketed(host: str) -> str:
    """Return a host as it stands in a URL: an IPv6 address needs brackets, or its colons would start a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself, in any spelling."""
    name = _plain(dialled_host(host)).strip("[]")
    if name == _LOCALHOST:
        return True
    try:
        return ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_cloud_host(host: str) -> bool:
    """Return whether a host is a namespace of the cloud service, whose name is always its first label."""
    return _CLOUD_DOMAIN in _plain(host)


def carried_name(host: str) -> str | None:
    """Return the name of a namespace that a host carries as its first label: `contoso.servicebus.windows.net` and
    `sales.localhost` do, other hosts do not."""
    name = _plain(host)
    return name.partition(".")[0] if _CLOUD_DOMAIN in name or name.endswith(LOCAL_DOMAIN) else None


def _plain(host: str) -> str:
    """In lower case, and without the dot that ends a name in DNS."""
    return host.lower().rstrip(".")
