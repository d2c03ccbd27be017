"""The address of a primary: the same text for every spelling of it, and a name for backlog queues."""

from __future__ import annotations

import re
import socket

from tandem.connection_string import ServiceAddress
from tandem.hosts import DEFAULT_NAMESPACE, carried_name, is_cloud_host, is_loopback

__all__ = ["address_key", "local_key", "name_from_address"]

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def address_key(address: ServiceAddress) -> str:
    """Return one text for all spellings of an address. An address of this machine has the machine's name in it, so that
    it differs from the same address on another machine."""
    host = address.host.lower().rstrip(".")
    if is_loopback(host):
        return local_key(carried_name(host), address.amqp_port)
    return host if is_cloud_host(host) else f"{host}:{address.amqp_port}"


def local_key(name: str | None, port: int) -> str:
    """Return the key of a broker on this machine, or of the namespace that a host below `localhost` selects there."""
    machine = f"{socket.gethostname().lower()}:{port}"
    return machine if name is None else f"{name}.{machine}"


def name_from_address(address: ServiceAddress, *, is_qualified: bool = False) -> str:
    """Return the name that a host carries, or else one made from host and port. `is_qualified` adds the name of the
    machine to a name below `localhost`, which other machines can have as well."""
    carried = carried_name(address.host)
    if carried is not None and carried != DEFAULT_NAMESPACE and not is_qualified:
        return carried
    key = address_key(address) if address.port is not None or is_loopback(address.host) else address.host.lower()
    return _NOT_IN_NAMES.sub("-", key).strip("-")
