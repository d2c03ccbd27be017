"""The address of a namespace from its name, as `ServiceBusEnvironment` of the .NET library builds it."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from tandem.errors import UsageError

__all__ = ["ServiceBusEnvironment"]

# The host of a namespace of the cloud service is its name in this domain.
_CLOUD_DOMAIN: Final = "servicebus.windows.net"

_SCHEMES: Final = ("sb", "amqp", "amqps", "http", "https")


class ServiceBusEnvironment:
    """Builds addresses. It has no state and needs no instance."""

    @staticmethod
    def create_service_uri(scheme: str, service_namespace: str, service_path: str = "") -> str:
        """Return the address of a namespace, or of an entity in it if there is a path.

        A plain name such as `contoso` is a namespace of the cloud service. A host with a dot or a port, such as
        `contoso.localhost:5672` or `broker.example`, and `localhost` itself, are used as they are.

        `sb`, `amqps` and `https` mean TLS; `amqp` and `http` mean no encryption.
        """
        if scheme not in _SCHEMES:
            raise UsageError(f"scheme is {scheme!r:.40}; it must be one of {', '.join(_SCHEMES)}")
        if not service_namespace or "/" in service_namespace:
            raise UsageError(
                f"service_namespace is {service_namespace!r:.80}; it must be a name such as 'contoso', or a host "
                "such as 'localhost:5672'"
            )
        is_host = "." in service_namespace or ":" in service_namespace or service_namespace == "localhost"
        host = service_namespace if is_host else f"{service_namespace}.{_CLOUD_DOMAIN}"
        path = service_path.strip("/")
        return f"{scheme}://{host}/{f'{quote(path)}/' if path else ''}"
