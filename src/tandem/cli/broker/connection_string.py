"""`tandem connection-string`: the line that clients are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tandem.connection_string import DEFAULT_HOST, DEFAULT_PORT, ROOT_RULE_NAME, ConnectionString
from tandem.errors import ConfigurationError
from tandem.hosts import LOCAL_DOMAIN, MAX_PORT, dialled_host
from tandem.server.keys import DEFAULT_DATA_DIR, KEYS_NAME, load_or_make_keys

__all__ = ["connection_string", "root_connection_string"]


def connection_string(
    namespace: Annotated[
        str | None,
        typer.Option(
            help="Print a host with this name in it: that of the default namespace, or of another one of the broker."
        ),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="The data directory of the broker; its keys are made if it has none.", file_okay=False)
    ] = DEFAULT_DATA_DIR,
    dev: Annotated[bool, typer.Option("--dev", help="For a broker that was started with --dev.")] = False,
    host: Annotated[
        str | None,
        typer.Option(help="Where clients find the broker.", show_default=f"{DEFAULT_HOST}, or NAME.{DEFAULT_HOST}"),
    ] = None,
    port: Annotated[int, typer.Option(help="The port of the broker.", min=1, max=MAX_PORT)] = DEFAULT_PORT,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Print the connection string of a broker, one line that the official Azure SDKs take as it is.

    It holds the key to everything: whoever has it can manage the namespace.

    \b
    Examples:
      tandem connection-string --dev
      tandem connection-string --namespace support
      export TANDEM_CONNECTION_STRING="$(tandem connection-string --data-dir /var/lib/tandem)"
    """
    if namespace is not None:
        from tandem.config import require_namespace_name
        from tandem.server.broker import NAMESPACES_NAME

        require_namespace_name(namespace, "--namespace")
        own_dir = data_dir / NAMESPACES_NAME / namespace.lower()
        if own_dir.is_dir():
            data_dir = own_dir
            _require_host_of(namespace, host)
        host = host or f"{namespace}{LOCAL_DOMAIN}"
    host = host or DEFAULT_HOST
    line = root_connection_string(data_dir, dev, host, port)
    typer.echo(json.dumps({"connection_string": line}) if as_json else line)
    if dialled_host(host) != host and not _is_resolved(host):
        typer.echo(
            f"note: this system does not resolve {host}. Tandem's own clients and commands reach it all the same; the "
            f"official SDKs need the line '127.0.0.1 {host}' in /etc/hosts.",
            err=True,
        )


def root_connection_string(data_dir: Path, is_dev: bool, host: str, port: int) -> str:
    """Return the connection string with the key to everything. Makes the keys of a data directory that has none."""
    rule = load_or_make_keys(data_dir, is_dev).get(ROOT_RULE_NAME)
    if rule is None:
        raise ConfigurationError(f"{data_dir / KEYS_NAME} has no rule {ROOT_RULE_NAME!r} for the whole namespace")
    return str(ConnectionString(host, port, rule.name, rule.primary_key))


def _is_resolved(host: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _require_host_of(namespace: str, host: str | None) -> None:
    """Clients find a namespace that is not the default one by the name of the host that they ask for."""
    named = {f"{namespace}{domain}".lower() for domain in ("", LOCAL_DOMAIN, ".servicebus.windows.net")}
    if host is None or host.lower() in named:
        return
    raise ConfigurationError(
        f"--host is {host!r:.80}, by which clients find the default namespace; {namespace!r} is found as "
        f"{namespace}.localhost, {namespace}.servicebus.windows.net or {namespace}, whatever address these lead to"
    )
