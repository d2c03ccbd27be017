"""`tandem pipeline`: jobs on Spark that read what the bus did, and a report of what they found."""

from __future__ import annotations

import contextlib
import enum
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from tandem.cli.pairing.pair import PrimaryNamespace
from tandem.cli.pipeline.run import run_pipeline
from tandem.cli.pipeline.spark_session import open_spark
from tandem.cli.pipeline.storage import Checkpoint, Storage, place_of
from tandem.cli.pipeline.tables import compact_table, vacuum_table
from tandem.cli.shared.broker import broker_of
from tandem.cli.shared.commands import command_group
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import print_json, print_table
from tandem.durations import parse_duration_ms
from tandem.lake.place import Place
from tandem.location import Location

__all__ = ["app", "show_results"]

app = command_group(
    "Jobs on Spark: events into files, cost, availability, latency, bulk syphon; pip install 'tandem-bus[spark]'."
)


class FileFormat(enum.Enum):
    """How captured events are kept."""

    PARQUET = "parquet"
    DELTA = "delta"
    AVRO = "avro"


class FileLayout(enum.Enum):
    """Where the files of a capture lie."""

    HIVE = "hive"
    CAPTURE = "capture"


class Payload(enum.Enum):
    """What the bodies of events are."""

    JSON = "json"
    AVRO = "avro"


Out = Annotated[
    Location,
    typer.Option(
        "--out",
        metavar="DIR",
        parser=Location,
        help="Where results go, and the checkpoint from which a run goes on: a path or a URI such as hdfs://host/dir.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(help="Where Spark runs, such as spark://host:7077.", show_default="this machine, on all cores"),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        "--also", metavar="CONNECTION_STRING", help="A further namespace, such as the secondary; many times if need be."
    ),
]
Follow = Annotated[
    str | None, typer.Option(metavar="TIME", help="Do it again whenever this time has passed, until Ctrl-C.")
]

Format = Annotated[
    FileFormat, typer.Option("--format", help="delta: a table; avro: files as Event Hubs Capture writes them.")
]
Layout = Annotated[
    FileLayout | None,
    typer.Option(help="Folders by hub, date and hour, or as Event Hubs Capture has them.", show_default="by format"),
]
PayloadChoice = Annotated[
    Payload | None, typer.Option(help="Parse bodies into columns.", show_default="bodies stay as they are")
]
Columns = Annotated[
    str | None, typer.Option(metavar="COLUMNS", help="Types that are not inferred: 'price double, at timestamp'.")
]
PayloadSchemas = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="With --payload avro: a schema, the newest first; many times if need be."),
]

_DEFAULT_OUT: Final = Location("tandem-pipeline")

# Of a table on a terminal.
_SHOWN_ROWS: Final = 12

# Of latency: what brokers leave that were started for a minute or so should be more than a point.
_SHORT_WINDOW: Final = "5 seconds"


@app.command("capture")
def capture_events(
    hub: Annotated[str, typer.Argument(metavar="HUB", help="The event hub.")],
    out: Annotated[
        str, typer.Option("--out", metavar="URI", help="A folder, s3://bucket/prefix, or what else Spark can write to.")
    ] = str(_DEFAULT_OUT / "capture"),
    file_format: Format = FileFormat.PARQUET,
    layout: Layout = None,
    payload: PayloadChoice = None,
    columns: Columns = None,
    payload_schema: PayloadSchemas = None,
    checkpoint: Checkpoint = None,
    storage: Storage = None,
    master: Master = None,
    follow: Follow = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Write the events of a hub to files, exactly once.

    The first run begins with the oldest event that is kept; each further one goes on where the last one ended. Files
    lie in folders by hub, date and hour, those of --format avro as the service's own capture has them. A file holds at
    most 300 MB of events.

    With --payload, fields of bodies become columns. A new field adds a column; an event with a value that does not fit
    its column goes to _quarantine, with the reason.

    \b
    Examples:
      tandem pipeline capture telemetry --out capture
      tandem pipeline capture telemetry --format delta --payload json --follow 1m
      tandem pipeline capture telemetry --out s3://lake/events --checkpoint checkpoints --storage endpoint=http://minio:9000
    """
    source = str(broker_of(connection_string))
    place = place_of(out, storage).child(hub)
    with open_spark("capture", master) as spark:
        from tandem.spark.jobs.capture import CaptureOutput, capture

        output = CaptureOutput(
            place,
            file_format.value,
            None if checkpoint is None else Place.parse(checkpoint).child(hub),
            _capture_options(layout, payload, columns, payload_schema),
        )
        for _ in _rounds(follow):
            query = capture(spark, {"connectionString": source}, hub, output)
            query.awaitTermination()
            count = sum(progress.numInputRows for progress in query.recentProgress)
            _say(f"captured {count:,} events of {hub} to {place}", {"hub": hub, "events": count}, as_json)


@app.command("metering")
def meter(
    out: Out = _DEFAULT_OUT,
    tariff: Annotated[
        Location | None,
        typer.Option(metavar="FILE", parser=Location, help="Prices, as TOML.", show_default="an example"),
    ] = None,
    window: Annotated[str, typer.Option(help="The time that costs are summed up over.")] = "1 day",
    also: Others = None,
    master: Master = None,
    follow: Follow = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """What the operations of a namespace cost, by time, entity, operation and stage.

    \b
    Examples:
      tandem pipeline metering --tariff tariff.toml
      tandem pipeline metering --also "$SECONDARY" --window '1 hour'
    """
    from tandem.cost.tariff import read_tariff

    prices = read_tariff(tariff)
    with open_spark("metering", master) as spark:
        from tandem.spark.jobs.metering import metering

        for _ in _rounds(follow):
            metering(spark, _namespaces(connection_string, also), out, prices, window=window)
            show_results(out, "Cost", as_json)


@app.command("availability")
def judge_availability(
    out: Out = _DEFAULT_OUT,
    also: Others = None,
    sent: Annotated[
        Location | None,
        typer.Option(metavar="FILE", parser=Location, help="A log of messages sent, as lines of JSON."),
    ] = None,
    received: Annotated[
        Location | None, typer.Option(metavar="FILE", parser=Location, help="The same of those received.")
    ] = None,
    late_after: Annotated[str, typer.Option(metavar="TIME", help="A message that takes longer is late.")] = "1m",
    master: Master = None,
    follow: Follow = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Outages and failovers: when, for how long, what took the detour, and how messages arrived.

    Give the secondary namespace, to which paired clients report, or both. With --sent and --received, each line has
    entity, messageId, number and time, it also says what was lost, came twice, out of order or late.

    \b
    Examples:
      tandem pipeline availability --connection-string "$SECONDARY" --also "$PRIMARY"
    """
    late_after_ms = parse_duration_ms(late_after, "--late-after") or 0
    with open_spark("availability", master) as spark:
        from tandem.spark.jobs.availability import availability

        for _ in _rounds(follow):
            availability(
                spark,
                _namespaces(connection_string, also),
                out,
                sent=sent,
                received=received,
                late_after_s=late_after_ms / 1_000,
            )
            show_results(out, "Outages How", as_json)


@app.command("latency")
def measure_latency(
    out: Out = _DEFAULT_OUT,
    window: Annotated[str, typer.Option(help="The time that percentiles are taken over.")] = "1 minute",
    also: Others = None,
    master: Master = None,
    follow: Follow = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Percentiles of latency over time, by entity and operation.

    \b
    Examples:
      tandem pipeline latency --window '10 seconds'
    """
    with open_spark("latency", master) as spark:
        from tandem.spark.jobs.latency import latency

        for _ in _rounds(follow):
            latency(spark, _namespaces(connection_string, also), out, window=window)
            show_results(out, "Latency", as_json)


@app.command("syphon")
def drain(
    primary: Annotated[
        str, typer.Option(metavar="CONNECTION_STRING", envvar="TANDEM_PRIMARY", help="Where messages belong.")
    ],
    queue: Annotated[
        list[str] | None,
        typer.Option(help="A backlog queue; many times if need be.", show_default="those of the primary"),
    ] = None,
    primary_namespace: PrimaryNamespace = None,
    out: Out = _DEFAULT_OUT / "syphon",
    tasks: Annotated[int, typer.Option(min=1, help="So many tasks at once.")] = 4,
    master: Master = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Drain the backlog queues of a secondary namespace into the primary, in parallel.

    For a backlog that is large: `tandem syphon run` is the syphon that always runs. Messages arrive at least once, with
    the message ids that they were sent with; one that cannot be restored stays where it is.

    \b
    Examples:
      tandem pipeline syphon --connection-string "$SECONDARY" --primary "$PRIMARY" --tasks 8
    """
    secondary = str(broker_of(connection_string))
    with open_spark("syphon", master) as spark:
        from tandem.spark.jobs.syphon import backlog_queues, syphon

        queues = queue or backlog_queues(primary, secondary, primary_namespace)
        done = syphon(
            spark,
            primary,
            secondary,
            queues,
            out,
            tasks=tasks,
            advance=lambda so_far: typer.echo(f"round {so_far.rounds}: {so_far.sent:,} sent so far", err=True),
        )
    fields = {"queues": len(queues), "sent": done.sent, "purged": done.purged, "left": len(done.left)}
    _say(
        f"sent {done.sent:,} messages of {len(queues)} backlog queues, purged {done.purged:,}, left {len(done.left)}",
        fields,
        as_json,
    )
    for row in done.left[:10]:
        typer.echo(f"left: {row['queue']} {row['sequenceNumber']}: {row['outcome']}", err=True)


app.command("run")(run_pipeline)
app.command("compact")(compact_table)
app.command("vacuum")(vacuum_table)


@app.command("report")
def report(
    out: Annotated[
        Location | None,
        typer.Option(
            "--out", metavar="DIR", parser=Location, help="Folder of the results.", show_default=str(_DEFAULT_OUT)
        ),
    ] = None,
    html: Annotated[
        Location | None, typer.Option(metavar="FILE", parser=Location, help="Write a self-contained HTML page.")
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "What the bus did",
    source: Annotated[
        Location | None,
        typer.Option(
            "--from",
            metavar="DIR",
            parser=Location,
            help="Run all jobs first, on stopped brokers with data directories in DIR.",
        ),
    ] = None,
    tariff: Annotated[
        Location | None, typer.Option(metavar="FILE", parser=Location, help="With --from: prices, as TOML.")
    ] = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Show the results of the jobs: tables here, and a page with plots. This needs neither Spark nor a broker.

    With --from, run the jobs first, on Spark: start the stopped brokers again, read their operations, and compute
    outages, cost and latency. Results are written to DIR/pipeline and the page to DIR/report.html, unless --out and
    --html name other places.

    \b
    Examples:
      tandem pipeline report --html report.html
      tandem drill --keep drill && tandem pipeline report --from drill
    """
    place = out or (_DEFAULT_OUT if source is None else source / "pipeline")
    target = html or (None if source is None else source / "report.html")
    if source is not None:
        _run_everything(source.local_path, place, tariff, master)
    show_results(place, "", as_json)
    if target is not None:
        from tandem.spark.report.page import render
        from tandem.spark.report.results import read_results

        target.write_text(render(read_results(place), title=title))
        typer.echo(f"wrote {target}", err=True)


# --- steps ----------------------------------------------------------------------------------------------------------


def _capture_options(
    layout: FileLayout | None, payload: Payload | None, columns: str | None, schemas: list[Path] | None
) -> dict[str, str]:
    """Return the options of the format `capture` that were given."""
    options = {"layout": layout and layout.value, "payload": payload and payload.value, "payloadColumns": columns}
    if schemas:
        options["payloadSchemas"] = json.dumps([path.read_text(encoding="utf-8") for path in schemas])
    return {name: value for name, value in options.items() if value is not None}


def _run_everything(source: Path, out: Location, tariff: Location | None, master: str | None) -> None:
    from tandem.cli.pipeline.stopped_brokers import serving
    from tandem.cost.tariff import read_tariff

    prices = read_tariff(tariff)
    started_s = time.monotonic()

    def say(what: str) -> None:
        typer.echo(f"{time.monotonic() - started_s:7.2f} s  {what}", err=True)

    # The brokers start while Spark does.
    with serving(source) as wait_for_brokers:
        say("starting the brokers and Spark; this takes 5 to 20 s")
        with open_spark("report", master, is_small=True) as spark:
            from tandem.spark.jobs.everything import everything

            say("Spark has started")
            namespaces = wait_for_brokers()
            say(f"{' and '.join(namespaces)} of {source} are served again")
            everything(spark, namespaces, out, prices, latency_window=_SHORT_WINDOW, advance=say)


def _rounds(follow: str | None) -> Iterator[None]:
    """Once, or again and again."""
    yield
    if follow is None:
        return
    pause_ms = parse_duration_ms(follow, "--follow") or 0
    # It is how following ends.
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(pause_ms / 1_000)
            yield


def _namespaces(connection_string: str | None, also: list[str] | None) -> list[str]:
    return [str(broker_of(connection_string)), *(also or [])]


def _say(sentence: str, fields: Mapping[str, object], as_json: bool) -> None:
    if as_json:
        print_json(fields)
    else:
        typer.echo(sentence)


def show_results(out: Location, titles: str, as_json: bool) -> None:
    """The tables whose titles begin with one of these words; all if there are none."""
    from tandem.spark.report.results import read_results
    from tandem.spark.report.tables import report_tables

    tables = [
        table
        for table in report_tables(read_results(out))
        if not titles or table.title.startswith(tuple(titles.split()))
    ]
    if as_json:
        print_json(
            {table.title: [dict(zip(table.headings, row, strict=True)) for row in table.rows] for table in tables}
        )
        return
    for table in tables:
        typer.echo(f"\n{table.title}")
        rows, hidden = table.shortened(_SHOWN_ROWS)
        print_table(table.headings, rows, table.numbers, ("since",))
        if hidden:
            typer.echo(f"and {hidden} more: with --json, or on the page that --html writes")
    if not tables:
        typer.echo("nothing to tell of: no such record was found")
