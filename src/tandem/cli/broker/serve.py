"""`tandem serve`: the broker."""

from __future__ import annotations

import asyncio
import enum
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar

import typer

from tandem.cli.shared.commands import made_by
from tandem.errors import BrokerStalled, ConfigurationError, StoreFailed
from tandem.hosts import DEFAULT_NAMESPACE, MAX_PORT
from tandem.server.keys import DEFAULT_DATA_DIR
from tandem.server.listen_address import LISTEN_SYNTAX, ListenAddress, parse_listen_address

if TYPE_CHECKING:
    from tandem.config import Configuration
    from tandem.engine.tiers import Tier
    from tandem.server.broker import Broker, BrokerSettings

__all__ = ["serve"]

Value = TypeVar("Value")

DEFAULT_HOST: Final = "127.0.0.1"
# Those of the official emulator.
DEFAULT_PORT: Final = 5672
DEFAULT_HTTP_PORT: Final = 5300

# Objects made before the garbage collector looks at the youngest, and how many looks make it look at older ones. A
# message is some objects that live until its commit and then go by themselves: looking for cycles among them every 700
# objects, as Python does, took more time than taking the messages in.
COLLECTOR_THRESHOLDS: Final = (50_000, 20, 50)

# Seconds. How long a thread may keep the interpreter while another wants it (CPython's own choice is 0.005). The thread
# that commits needs it for a moment before and after each fsync, and everybody who sent waits for that: at 0.005 the
# busy event loop would add up to 10 ms to an fsync of one.
SWITCH_INTERVAL_S: Final = 0.0005

# The exit code of a program that was interrupted (128 + SIGINT), and of one that failed.
_INTERRUPTED: Final = 130
_FAILED: Final = 1
# That of a broker that cannot go on and is to be started again: EX_TEMPFAIL of sysexits.h.
_STALLED: Final = 75


class LogLevel(enum.Enum):
    """How much is told on the standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


NamespaceName = Annotated[
    str | None, typer.Option("--namespace", help="The name of the namespace.", show_default=DEFAULT_NAMESPACE)
]
TierName = Annotated[
    str | None,
    typer.Option(
        "--tier",
        metavar="tandem|standard|premium",
        help="The limits of the namespace: those of a tier of the cloud service, or Tandem's own.",
        show_default="as before, at first tandem",
    ),
]
DataDir = Annotated[Path, typer.Option(help="Where everything is kept; made if it is missing.", file_okay=False)]
Host = Annotated[str | None, typer.Option(help="The address to listen on; 0.0.0.0 for all.", show_default=DEFAULT_HOST)]
Port = Annotated[
    int | None,
    typer.Option(help="The first port; 0 picks a free one.", min=0, max=MAX_PORT, show_default=str(DEFAULT_PORT)),
]
HttpPort = Annotated[
    int | None,
    typer.Option(
        help="The second port, which speaks the same.",
        min=0,
        max=MAX_PORT,
        show_default=str(DEFAULT_HTTP_PORT),
        # As the official emulator has it, like the next one.
        envvar="EMULATOR_HTTP_PORT",
    ),
]
Listen = Annotated[
    list[str] | None,
    typer.Option(
        "--listen",
        metavar=LISTEN_SYNTAX,
        help="A further address, which speaks the same; tls:// for TLS only. Repeatable.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        help="Settings, queues and topics: Tandem's TOML, or the official emulator's Config.json.", envvar="CONFIG_PATH"
    ),
]
IsDev = Annotated[bool, typer.Option("--dev", help="Use the official emulator's well-known key. For development only.")]
Tls = Annotated[
    str | None,
    typer.Option(metavar="auto|off|CERT,KEY", help="auto makes a development CA in DATA_DIR/tls.", show_default="auto"),
]
AllowsFaults = Annotated[
    bool, typer.Option("--allow-faults", help="Let `tandem fault` make it fail on purpose. For tests and drills only.")
]
RecordsOperations = Annotated[
    bool,
    typer.Option("--operations/--no-operations", help="Write what the broker does to the event hub $operations."),
]
WatchesItself = Annotated[
    bool,
    typer.Option(
        "--health/--no-health",
        help="Refuse sends under overload and restart failed parts; limits are in [health] of the configuration.",
    ),
]
Level = Annotated[LogLevel, typer.Option(help="How much to tell on the standard error.")]


class _Start(NamedTuple):
    """A broker as the command line and the configuration want it."""

    settings: BrokerSettings
    configuration: Configuration
    # Where the configuration is read again.
    path: Path | None
    tier: Tier | None


def _start(
    namespace: NamespaceName = None,
    tier: TierName = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    host: Host = None,
    port: Port = None,
    http_port: HttpPort = None,
    listen: Listen = None,
    config: ConfigFile = None,
    dev: IsDev = False,
    tls: Tls = None,
    allow_faults: AllowsFaults = False,
    operations: RecordsOperations = True,
    health: WatchesItself = True,
) -> _Start:
    from tandem.engine.tiers import tier_of
    from tandem.server.broker import BrokerSettings
    from tandem.server.health import OFF, HealthSettings

    chosen_tier = None if tier is None else tier_of(tier, "--tier")
    configuration = _configuration(config, namespace, chosen_tier)
    tiers = {one.name: one.tier for one in configuration.namespaces if one.name is not None and one.tier is not None}
    chosen_host = _first(host, configuration.host, DEFAULT_HOST)
    settings = BrokerSettings(
        data_dir=data_dir,
        namespace=configuration.default.name or DEFAULT_NAMESPACE,
        further_namespaces=tuple(one.name for one in configuration.further if one.name is not None),
        tiers=tiers,
        host=chosen_host,
        port=_first(port, configuration.port, DEFAULT_PORT),
        http_port=_first(http_port, configuration.http_port, DEFAULT_HTTP_PORT),
        listen=_listen_addresses(listen or [], configuration, chosen_host),
        is_dev=dev,
        tls=_first(tls, configuration.tls, "auto"),
        credits_per_second=configuration.credits_per_second,
        allows_faults=allow_faults,
        records_operations=operations,
        health=HealthSettings.of(configuration.health) if health else OFF,
    )
    return _Start(settings, configuration, config, chosen_tier)


@made_by(_start, "start")
def serve(start: _Start, log_level: Level = LogLevel.WARNING) -> None:
    """Run the broker until SIGTERM or Ctrl-C.

    Each port speaks AMQP, TLS, HTTP and WebSocket. One line on the standard output says when and where it serves:
    `ready amqp://HOST:PORT http://HOST:PORT`, and behind these the addresses of --listen. An option given here wins
    over the same setting of the configuration.

    --listen adds to --port and --http-port. Without a host it means that of --host; an address that covers one of
    those two ports, such as 0.0.0.0:5672, takes its place.

    SIGHUP reads the configuration again: what is missing is created, settings that the file has changed are updated,
    nothing is deleted, and a file with a mistake changes nothing.

    The exit code is 0 after SIGTERM, 1 after a mistake or a failure of the disk, and 75 if the broker has stalled and
    is to be started again; `tandem diagnose` shows why.

    \b
    Examples:
      tandem serve --dev
      tandem serve --data-dir /var/lib/tandem --host 0.0.0.0 --config orders.toml
      tandem serve --dev --config Config.json --port 0 --http-port 0
      tandem serve --dev --listen 5671 --listen 443
      tandem serve --listen tls://0.0.0.0:5671 --listen tls://0.0.0.0:443
    """
    from tandem.driver import run

    logging.basicConfig(
        level=log_level.name, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    run(_serve(start))


def _configuration(path: Path | None, name: str | None, tier: Tier | None) -> Configuration:
    """Read the configuration, and put the default namespace as the command line has it."""
    from tandem.cli.broker.reload import with_options
    from tandem.config import Configuration, read_configuration, require_namespace_name

    read = read_configuration(path) if path is not None else Configuration()
    if name is not None:
        require_namespace_name(name, "--namespace")
    default = _first(name, read.default.name, DEFAULT_NAMESPACE)
    if default.lower() in {one.name.lower() for one in read.further if one.name is not None}:
        raise ConfigurationError(f"--namespace is {default!r}, which is another one of the configuration's namespaces")
    return with_options(read, default, tier)


def _listen_addresses(given: list[str], configuration: Configuration, host: str) -> tuple[ListenAddress, ...]:
    setting, texts = ("--listen", given) if given else ("listen", configuration.listen or [])
    return tuple(parse_listen_address(text, host, setting) for text in texts)


def _first(given: Value | None, configured: Value | None, default: Value) -> Value:
    return given if given is not None else configured if configured is not None else default


async def _serve(start: _Start) -> None:
    from tandem.cli.broker.reload import Reloader, apply_configuration
    from tandem.server.door import raise_descriptor_limit

    raise_descriptor_limit()
    stopping = _stop_on_signals()
    broker = _open(start.settings)
    broker.failed.add_done_callback(_exit_at_once)
    broker.on_stalled = _exit_stalled
    reloader = Reloader(broker, start.path, start.configuration, start.settings.namespace, start.tier)
    try:
        broker.load_http_with(partial(_import_routes, broker))
        await broker.start()
        await apply_configuration(broker, start.configuration, updates=False)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.reload)
        if not stopping.done():
            print("ready", *broker.addresses, flush=True)
        await stopping
        await reloader.stop()
    finally:
        await broker.stop()


def _import_routes(broker: Broker) -> Callable[[], object]:
    from tandem.management.api import add_routes

    return partial(add_routes, broker, broker.settings.clock)


def _open(settings: BrokerSettings) -> Broker:
    from tandem.server.broker import Broker

    try:
        return Broker(settings)
    except OSError as error:
        raise ConfigurationError(
            f"--data-dir {settings.data_dir} cannot be used: {error.strerror or error}; choose one that can be written"
        ) from error


def _stop_on_signals() -> asyncio.Future[None]:
    """Done when somebody wants the broker to end. Who presses Ctrl-C twice does not want to wait for it."""
    loop = asyncio.get_running_loop()
    stopping: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        if not stopping.done():
            stopping.set_result(None)

    def interrupt() -> None:
        if stopping.done():
            # Nothing acknowledged is lost: it was on disk before.
            print("tandem: interrupted again: stopped without saying goodbye to clients", file=sys.stderr, flush=True)
            os._exit(_INTERRUPTED)
        stop()

    # Unhandled it would end the process; what there is to reload at this time is about to be read.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.add_signal_handler(signal.SIGINT, interrupt)
    return stopping


def _exit_stalled(error: BrokerStalled) -> None:
    """Called in any thread, since the event loop may be blocked. Everything acknowledged is on disk."""
    print(f"tandem: {error}", file=sys.stderr, flush=True)
    os._exit(_STALLED)


def _exit_at_once(failed: asyncio.Future[StoreFailed | BrokerStalled]) -> None:
    """The store cannot be trusted any more. To end in order would let go of acknowledgements, so this does not."""
    if not failed.cancelled():
        print(f"tandem: {failed.result()}", file=sys.stderr, flush=True)
        os._exit(_FAILED)
