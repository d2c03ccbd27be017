"""The demonstration: a broker killed under the official SDK, an outage of a primary namespace while Spark captures a
hub, and a report by Spark.

    make demo        or        .venv/bin/python examples/demo.py

Everything is written below build. The exit status is 1 if a message was lost or a step failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("build", "demo")
REPORT = FOLDER / "report.html"
TABLE = FOLDER / "capture" / "table"

# About 17 seconds: most messages are sent while the primary is down, for five failover intervals.
DRILL = ("--messages", "600", "--rate", "40", "--outage", "10s", "--failover-interval", "2s")

console = Console(highlight=False)


class StepFailed(Exception):
    """A program of the demonstration failed. It has printed why."""


# --- steps ----------------------------------------------------------------------------------------------------------


# Any: figures, as they are saved as JSON.
def kill_broker() -> dict[str, Any]:
    return run_for_figures("python", "examples/kill_and_recover.py", "--save", saved=FOLDER / "killed.json")


def drill_outage() -> dict[str, Any]:
    options = (*DRILL, "--keep", str(FOLDER), "--report")
    return run_for_figures("tandem", "drill", *options, saved=FOLDER / "drill.json", named=FOLDER)


@contextlib.contextmanager
def capturing_hub() -> Iterator[Callable[[], dict[str, Any]]]:
    """Start the capture in the background. Yields a function that waits for its end, and returns its figures."""
    saved = FOLDER / "captured.json"
    printed, errors = FOLDER / "capture.log", FOLDER / "capture-errors.log"
    command = ("examples/live_capture.py", "--keep", str(TABLE.parent), "--save", str(saved))
    console.print(f"[bold]$ python {' '.join(command)} &[/]", soft_wrap=True)
    with printed.open("wb") as output, errors.open("wb") as error_output:
        capture = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=error_output,
            env=environment(),
        )

    def wait() -> dict[str, Any]:
        status = capture.wait()
        console.print("\nWhat the capture printed meanwhile:")
        console.print(printed.read_text(encoding="utf-8").rstrip(), markup=False, soft_wrap=True)
        if not saved.exists():
            console.print(errors.read_text(encoding="utf-8").rstrip(), markup=False, soft_wrap=True)
            raise StepFailed(f"`python {command[0]}` ended with exit status {status}")
        figures: dict[str, Any] = json.loads(saved.read_text(encoding="utf-8"))
        return figures

    try:
        yield wait
    finally:
        # Only after a failure or Ctrl-C is it still running.
        if capture.poll() is None:
            capture.terminate()
            capture.wait()


def report_outage() -> None:
    """Run the jobs on Spark, and print two of their tables. The page has all of them."""
    done = run("tandem", "pipeline", "report", "--from", str(FOLDER), "--json", is_captured=True)
    if done.returncode != 0 or not REPORT.exists():
        raise StepFailed("the report was not written")
    for title, rows in json.loads(done.stdout).items():
        if title.startswith(("Outages", "Cost by stage")):
            print_table(title, list(rows[0]), [list(row.values()) for row in rows])


def run_for_figures(*command: str, saved: Path, named: Path | None = None) -> dict[str, Any]:
    """Run a program whose last argument is where it saves its figures, and read them."""
    done = run(*command, str(named or saved))
    # A program that lost a message fails too, and its figures say so.
    if done.returncode != 0 and not saved.exists():
        raise StepFailed(f"`{' '.join(command[:2])}` ended with exit status {done.returncode}")
    figures: dict[str, Any] = json.loads(saved.read_text(encoding="utf-8"))
    return figures


def run(program: str, *arguments: str, is_captured: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `python` or `tandem` of this environment. Its output is shown unless it is captured."""
    console.print(f"[bold]$ {program} {' '.join(arguments)}[/]", soft_wrap=True)
    sys.stdout.flush()
    module = ("-m", "tandem") if program == "tandem" else ()
    return subprocess.run(  # noqa: S603 - our own programs
        [sys.executable, *module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if is_captured else None,
        text=True,
        env=environment(),
        check=False,
    )


def environment() -> dict[str, str]:
    """Keep caches below build, and out of the home of the user."""
    cache = ROOT / "build" / "cache"
    variables = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    # Some thirty processes of Python follow, and without compiled files each of them starts twice as slowly. Where the
    # user wants none beside the sources, they go to the cache.
    if variables.pop("PYTHONDONTWRITEBYTECODE", None):
        variables["PYTHONPYCACHEPREFIX"] = str(cache / "python")
    return variables


def broken_promises(killed: dict[str, Any], drilled: dict[str, Any], captured: dict[str, Any]) -> list[str]:
    sentences = {"lost": "were lost", "duplicates": "were delivered again after completion"}
    broken = [f"{killed[name]:,} messages {sentence}" for name, sentence in sentences.items() if killed[name]]
    missing = captured["sent"] - captured["readings"]
    return [*broken, *drilled["violations"], *([f"events that are not in the table: {missing:,}"] if missing else [])]


# --- output ---------------------------------------------------------------------------------------------------------

MEANINGS = {
    "sent": "sent and acknowledged",
    "received": "received",
    "lost": "lost",
    "duplicates": "duplicates",
    "redelivered": "delivered again, not completed before",
    "diverted": "diverted to the secondary namespace",
    "syphoned": "syphoned back to the primary namespace",
    "refused": "failed sends",
    "out_of_order": "received behind a later message",
}


def print_table(title: str, headings: list[str], rows: list[list[str]]) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def print_account(killed: dict[str, Any], drilled: dict[str, Any]) -> None:
    rows = [
        [meaning, *(f"{figures[name]:,}" if name in figures else "-" for figures in (killed, drilled))]
        for name, meaning in MEANINGS.items()
    ]
    print_table("Account of every message", ["messages", "1. killed broker", "2. outage"], rows)


def explain(drilled: dict[str, Any]) -> None:
    console.print(
        f"""
What you have seen:
1. A broker was killed twice with SIGKILL while the official Azure SDK was sending and receiving. It was restarted on \
its data directory, and every acknowledged message was still there.
2. A primary namespace was killed while a paired client was sending. It was down for \
{drilled["outage_seconds"]:.0f} s. After the failover interval the client sent to the secondary namespace instead. \
When the primary was back, the syphon moved {drilled["syphoned"]:,} messages to it. At the same time a streaming query \
of Spark captured an event hub. The broker of that hub was killed too; the query waited for it, and missed nothing.
3. Spark read the operations that both namespaces had recorded, and computed outages, cost and latency from them.
"""
    )


def print_capture(captured: dict[str, Any]) -> None:
    console.print(f"Rows sent to the hub:    {captured['sent']:,}")
    # A batch that the broker had written and not answered yet is sent again: a hub takes events at least once.
    again = captured["rows"] - captured["readings"]
    repeated = f" ({again:,} of them sent twice, since the killed broker had not answered)" if again else ""
    console.print(f"Rows in the table:       {captured['rows']:,}{repeated}", soft_wrap=True)
    console.print(f"The table:               {TABLE}", soft_wrap=True)
    console.print(f"Spark:                   {captured['spark']}")


def main() -> int:
    started_s = time.monotonic()
    console.print(
        "This demonstration takes about a minute and has three parts:\n"
        "1. kill a broker under the official Azure SDK\n"
        "2. kill a primary namespace under a paired client, while Spark captures an event hub\n"
        "3. report on that outage with Spark"
    )
    os.chdir(ROOT)
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
    FOLDER.mkdir(parents=True)
    try:
        console.rule("1. Kill a broker under the official Azure SDK", align="left")
        killed = kill_broker()
        console.rule("2. Kill a primary namespace under a paired client, while Spark captures a hub", align="left")
        with capturing_hub() as wait_for_capture:
            drilled = drill_outage()
            captured = wait_for_capture()
        console.rule("3. Report on that outage with Spark", align="left")
        report_outage()
    except StepFailed as error:
        console.print(f"[red]The demonstration failed:[/] {error}. The reason is printed above.")
        return 1
    console.rule("Summary", align="left")
    print_account(killed, drilled)
    explain(drilled)
    broken = broken_promises(killed, drilled, captured)
    for sentence in broken:
        console.print(f"[red]Broken promise:[/] {sentence}")
    if not broken:
        console.print("[green]No message and no event was lost.[/]")
    print_capture(captured)
    console.print(f"Report of the pipeline:  {REPORT}", soft_wrap=True)
    console.print(f"Report of the drill:     {FOLDER / 'drill.html'}", soft_wrap=True)
    console.print(f"The demonstration took {time.monotonic() - started_s:.0f} s.")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
