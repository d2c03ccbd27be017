"""Which of its namespaces a broker means by a host name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from tandem.hosts import LOCAL_DOMAIN
from tandem.server.failed_authentications import FailedAuthentications
from tandem.server.hosted_namespace import HostedNamespace

__all__ = ["Directory"]

# What may stand behind the name of a namespace in the name of a host. Of other hosts nothing is known, so that whatever
# name a machine has, its default namespace is found under it.
_DOMAINS: Final = (".servicebus.windows.net", LOCAL_DOMAIN)


class Directory:
    """The namespaces of a broker. The first is the default one."""

    def __init__(self, namespaces: Sequence[HostedNamespace]) -> None:
        self._by_name = {namespace.name.lower(): namespace for namespace in namespaces}
        self.default = namespaces[0]
        self.failed_authentications = FailedAuthentications(time.monotonic)

    def __iter__(self) -> Iterator[HostedNamespace]:
        return iter(self._by_name.values())

    def replace(self, old: HostedNamespace, new: HostedNamespace) -> None:
        """The same namespace, opened again."""
        self._by_name[new.name.lower()] = new
        if self.default is old:
            self.default = new

    def find(self, host: str | None) -> HostedNamespace:
        """`orders.localhost:5672` is the namespace `orders`, if there is one; anything else is the default one."""
        name = (host or "").lower().rstrip(".")
        # A port, unless the colons are those of an IPv6 address.
        if name.count(":") == 1:
            name = name.partition(":")[0]
        for domain in _DOMAINS:
            if name.endswith(domain):
                return self._by_name.get(name.removesuffix(domain), self.default)
        return self._by_name.get(name, self.default)
