"""`tandem bench`: side-by-side benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import tandem
from tandem.bench.amqp import relay as amqp
from tandem.cli.shared.commands import command_group
from tandem.errors import ConfigurationError
from tandem.pages.origin import machine_text

app = command_group("Side-by-side benchmarks: ratios from one run on one machine.")

MODE_NAMES = {"send": "sends/s", "recv": "deliveries/s", "both": "both at once, /s"}


@app.command("amqp")
def bench_amqp(
    messages: int = typer.Option(100_000, help="Messages per run; a peer gets a tenth of it.", min=10),
    body_bytes: int = typer.Option(1024, help="Size of a message's body.", min=0),
    rounds: int = typer.Option(3, help="Rounds; the median counts.", min=1),
    load_generator: str | None = typer.Option(
        None,
        help="A program to make the load: MODE URL ADDRESS COUNT BODY_BYTES. Default: build/amqp_load, or our own.",
    ),
    output: Path = typer.Option(Path("build/bench/amqp.json"), help="Where to save the figures."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as JSON instead of tables."),
) -> None:
    """Codec rates per core, and a relay in memory next to the same on python-qpid-proton."""
    console = Console(stderr=as_json)
    generator = amqp.load_generator(load_generator)
    runners = amqp.contenders()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("relays", total=1 + rounds * len(runners) * len(amqp.MODES))

        def advance(what: str) -> None:
            progress.update(task, advance=1, description=what)

        # First what can fail: a load generator that does not run is told at once.
        relays = amqp.measure(generator, runners, messages, body_bytes, rounds, advance)
        progress.update(task, description="codec")
        codec = amqp.measure_codec(runners)
        advance("codec")
    figures = {
        "machine": machine_text(),
        "load_generator": " ".join(Path(generator[0]).name if part == generator[0] else part for part in generator),
        "messages": messages,
        "body_bytes": body_bytes,
        "rounds": rounds,
        "codec_frames_per_second": codec,
        "relay_messages_per_second": {relay.name: relay.rates for relay in relays},
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(figures, indent=2) + "\n")
    if as_json:
        typer.echo(json.dumps(figures))
        return
    console.print(_codec_table(codec))
    console.print(_relay_table(relays, body_bytes))
    if not any(runner.is_peer for runner in runners):
        console.print("python-qpid-proton is not built here, so there is no ratio: `make peers` in a clone builds it.")
    console.print(f"saved to {output}")


@app.command("queue")
def bench_queue(
    messages: int = typer.Option(30_000, help="Messages per run.", min=10),
    size: int = typer.Option(1024, help="Bytes of a message's body.", min=8),
    rounds: int = typer.Option(3, help="Rounds; the median counts.", min=1),
    load_generator: str | None = typer.Option(
        None, help="A program to make the load of the rates: MODE URL ADDRESS COUNT BODY_BYTES. Default: our own."
    ),
    against: str = typer.Option("classic,quorum", help="Types of RabbitMQ's queues to stand beside, or none."),
    only: str = typer.Option("rates,latency,backlog,connections,entities", help="What to measure; also operations."),
    full: bool = typer.Option(False, "--full", help="Backlogs up to 1,000,000 and 5,000 idle connections."),
    json_file: Path = typer.Option(
        Path("build/bench/queue.json"), "--json", help="Where to save the figures; - prints them instead of tables."
    ),
    plot: Path = typer.Option(Path("build/bench/queue.svg"), help="Where to save the plot."),
) -> None:
    """Durable queues next to RabbitMQ's: rates, latency, memory against backlog, connections, entities."""
    # Here and not above: `tandem serve` starts with this module, and has no use for the half of a second it takes.
    from tandem.bench.entities.report import picture, tables
    from tandem.bench.entities.suite import Choice, measure_queues

    console = Console(stderr=json_file == Path("-"))
    choice = Choice.of(
        messages=messages,
        body_bytes=size,
        rounds=rounds,
        load_generator=load_generator,
        only=only,
        against=against,
        is_full=full,
    )
    with _progress(console) as progress:
        figures = measure_queues(choice, progress)
    _give_out(figures, picture(figures), list(tables(figures)), json_file, plot, console)


@app.command("topic")
def bench_topic(
    messages: int = typer.Option(20_000, help="Messages per run.", min=10),
    size: int = typer.Option(1024, help="Bytes of a message's body.", min=8),
    rounds: int = typer.Option(3, help="Rounds; the median counts.", min=1),
    subscriptions: str = typer.Option("1,10,100,1000", help="Numbers of subscriptions, with commas between."),
    json_file: Path = typer.Option(
        Path("build/bench/topic.json"), "--json", help="Where to save the figures; - prints them instead of tables."
    ),
    plot: Path = typer.Option(Path("build/bench/topic.svg"), help="Where to save the plot."),
) -> None:
    """Publishing against the number of subscriptions: correlation filters, SQL filters, all of them matching."""
    from tandem.bench.entities.topic import SERIES, measure_topics, topic_picture, topic_tables

    try:
        counts = [int(count) for count in subscriptions.split(",")]
    except ValueError:
        raise ConfigurationError(f"--subscriptions {subscriptions!r} must be numbers with commas between") from None
    console = Console(stderr=json_file == Path("-"))
    with _progress(console) as progress:
        task = progress.add_task("starting", total=rounds * len(counts) * len(SERIES))
        figures = measure_topics(
            messages, size, rounds, counts, lambda what: progress.update(task, advance=1, description=what)
        )
    _give_out(figures, topic_picture(figures), list(topic_tables(figures)), json_file, plot, console)


@app.command("hub")
def bench_hub(
    megabytes: int = typer.Option(256, help="Megabytes of events per run.", min=1),
    rounds: int = typer.Option(3, help="Rounds; the median counts.", min=1),
    only: str = typer.Option("ingest,read,bulk,memory", help="What to measure."),
    kafka: Path | None = typer.Option(None, help="bin/kafka-server-start.sh of an Apache Kafka to stand beside."),
    redpanda: Path | None = typer.Option(None, help="The program of a Redpanda to stand beside."),
    full: bool = typer.Option(False, "--full", help="Memory with up to 10 GB stored."),
    json_file: Path = typer.Option(
        Path("build/bench/hub.json"), "--json", help="Where to save the figures; - prints them instead of tables."
    ),
    plot: Path = typer.Option(Path("build/bench/hub.svg"), help="Where to save the plot."),
) -> None:
    """Event hubs next to the disk: events taken and read, reads in bulk, memory against what is stored."""
    from tandem.bench.hub.report import hub_picture, hub_tables
    from tandem.bench.hub.suite import HubChoice, measure_hubs
    from tandem.bench.measuring.peers import peer_module

    console = Console(stderr=json_file == Path("-"))
    peers = peer_module("kafka").hub_peers(kafka, redpanda) if kafka or redpanda else ()
    choice = HubChoice.of(megabytes=megabytes, rounds=rounds, only=only, peers=peers, is_full=full)
    if "ingest" in choice.parts and not choice.peers:
        console.print("Neither --kafka nor --redpanda is given, so there are no ratios to them.")
    with _progress(console) as progress:
        figures = measure_hubs(choice, progress)
    _give_out(figures, hub_picture(figures), list(hub_tables(figures)), json_file, plot, console)


@app.command("client")
def bench_client(
    messages: int = typer.Option(5_000, help="Messages per run.", min=20),
    size: int = typer.Option(1024, help="Bytes of a message's body.", min=1),
    in_flight: int = typer.Option(100, help="Sends that wait for their acknowledgement together.", min=1),
    rounds: int = typer.Option(3, help="Rounds; the median counts.", min=1),
    json_file: Path = typer.Option(
        Path("build/bench/client.json"), "--json", help="Where to save the figures; - prints them instead of tables."
    ),
    plot: Path = typer.Option(Path("build/bench/client.svg"), help="Where to save the plot."),
) -> None:
    """tandem.client next to azure-servicebus, against the same broker."""
    from tandem.bench.client.comparison import (
        client_picture,
        client_steps,
        client_tables,
        has_official_sdk,
        measure_clients,
    )
    from tandem.bench.measuring.peers import FROM_A_CLONE

    console = Console(stderr=json_file == Path("-"))
    if not has_official_sdk():
        console.print(f"There are no ratios to azure-servicebus: pip install azure-servicebus, and {FROM_A_CLONE}.")
    with _progress(console) as progress:
        task = progress.add_task("starting", total=client_steps(rounds))
        figures = measure_clients(
            messages, size, in_flight, rounds, lambda what: progress.update(task, advance=1, description=what)
        )
    _give_out(figures, client_picture(figures), client_tables(figures), json_file, plot, console)


@app.command("spark")
def bench_spark(
    events: int = typer.Option(1_000_000, help="Events in the hub; over AMQP a tenth of them is read.", min=1_000),
    size: int = typer.Option(100, help="Bytes of an event's body.", min=1),
    rounds: int = typer.Option(5, help="Rounds; the median counts.", min=1),
    cores: int = typer.Option(2, help="Processes that read, in Spark and beside it.", min=1),
    latency: bool = typer.Option(True, help="Also measure the time from the hub to a batch."),
    json_file: Path = typer.Option(
        Path("build/bench/spark.json"), "--json", help="Where to save the figures; - prints them instead of tables."
    ),
    plot: Path = typer.Option(Path("build/bench/spark.svg"), help="Where to save the plot."),
) -> None:
    """Event hubs into Spark, next to Spark's own sources and to a loop on the official SDK."""
    from tandem.bench.spark.comparison import SparkChoice, measure_spark
    from tandem.bench.spark.report import SparkFigures, spark_picture, spark_tables
    from tandem.spark.spark_session import chosen_java

    console = Console(stderr=json_file == Path("-"))
    choice = SparkChoice(events, size, rounds, cores, latency)
    figures = SparkFigures(
        machine=machine_text(),
        form=tandem.form(),
        java=str(chosen_java()),
        events=events,
        body_bytes=size,
        cores=cores,
        rounds=rounds,
    )
    with _progress(console) as progress:
        task = progress.add_task("starting", total=choice.step_count)
        measure_spark(choice, figures, lambda what: progress.update(task, advance=1, description=what))
    _give_out(figures, spark_picture(figures), list(spark_tables(figures)), json_file, plot, console)


def _progress(console: Console) -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True)


def _give_out(
    figures: msgspec.Struct, picture: str, tables: list[Table], json_file: Path, plot: Path, console: Console
) -> None:
    """Save what was measured, and show it; `-` as the file of the figures prints them alone."""
    text = msgspec.json.format(msgspec.json.encode(figures), indent=2).decode() + "\n"
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot.write_text(picture, encoding="utf-8")
    if json_file == Path("-"):
        typer.echo(text, nl=False)
        return
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(text, encoding="utf-8")
    for table in tables:
        console.print(table)
    console.print(f"saved to {json_file} and {plot}")


def _codec_table(codec: dict[str, dict[str, float]]) -> Table:
    table = Table(title="Codec, frames per second on one core, 1 KB messages, no transport")
    table.add_column("")
    for name in codec:
        table.add_column(name, justify="right")
    for row in ("transfers_in", "transfers_out", "dispositions_in", "dispositions_out"):
        table.add_row(row.replace("_", " "), *(f"{rates[row]:,.0f}" for rates in codec.values()))
    return table


def _relay_table(relays: list[amqp.Measurement], body_bytes: int) -> Table:
    table = Table(title=f"Relay in memory over loopback, {body_bytes} byte messages: python-qpid-proton and tandem")
    table.add_column("")
    for relay in relays:
        # Two words would wrap in a terminal of 80 columns.
        table.add_column(relay.name.removeprefix("tandem "), justify="right", no_wrap=True)
    baseline = next((relay for relay in relays if relay.name == "python-qpid-proton"), None)
    for mode, name in MODE_NAMES.items():
        cells: list[str] = []
        for relay in relays:
            rate = f"{relay.rate(mode):,.0f}"
            is_compared = baseline is not None and relay is not baseline
            cells.append(
                f"{rate}  ({relay.rate(mode) / baseline.rate(mode):.1f} ×)" if is_compared and baseline else rate
            )
        table.add_row(name, *cells)
    return table
