"""The demonstration: a broker killed under the official SDK, an outage of a primary namespace, and a report by Spark.

    make demo        or        .venv/bin/python examples/demo.py

Everything is written below build/demo. The exit status is 1 if a message was lost or a step failed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("build") / "demo"

# A drill of some twenty seconds: the primary is down for five failover intervals, and most messages are sent meanwhile.
KILL_MESSAGES = 2_000
DRILL_MESSAGES = 600
DRILL = ("--messages", str(DRILL_MESSAGES), "--rate", "40", "--outage", "10s", "--failover-interval", "2s")

console = Console(highlight=False)


class StepFailed(Exception):
    """A command of the demonstration failed. It has printed why."""


# --- steps ----------------------------------------------------------------------------------------------------------


# Any: figures, as they are printed as JSON.
def kill_a_broker() -> dict[str, Any]:
    # Imported late: the SDK takes a second, and the first lines are to be seen at once.
    from kill_and_recover import report, run

    account = run(KILL_MESSAGES)
    report(account)
    return {
        "sent": len(account.sent),
        "received": len(account.received),
        "lost": len(account.lost),
        "duplicates": len(account.seen_again),
        "redelivered": account.redelivered,
    }


def violations(killed: dict[str, Any]) -> list[str]:
    """Return the broken promises of the first part. The drill reports its own."""
    sentences = {"lost": "were lost", "duplicates": "were delivered again after completion"}
    return [f"{killed[name]:,} messages {sentence}" for name, sentence in sentences.items() if killed[name]]


def drill() -> dict[str, Any]:
    done = tandem("drill", *DRILL, "--keep", str(FOLDER), "--report", str(FOLDER))
    saved = FOLDER / "drill.json"
    # A drill that broke a promise fails too, and has an account to show.
    if done.returncode != 0 and not saved.exists():
        raise StepFailed("the drill failed")
    figures: dict[str, Any] = json.loads(saved.read_text(encoding="utf-8"))
    return figures


def pipeline() -> None:
    done = tandem("pipeline", "report", "--from", str(FOLDER), "--json", is_captured=True)
    if done.returncode != 0:
        raise StepFailed("the report failed")
    for title, rows in json.loads(done.stdout).items():
        if title.startswith(("Outages", "Cost by stage")):
            print_table(title, list(rows[0]), [list(row.values()) for row in rows])


def tandem(*arguments: str, is_captured: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, from the root of the repository. Its output is printed unless it is captured."""
    console.print(f"[bold]$ tandem {' '.join(arguments)}[/]", soft_wrap=True)
    sys.stdout.flush()
    # Caches go below build too, and not to the home of whoever runs the demonstration.
    environment = {**os.environ, "XDG_CACHE_HOME": str(ROOT / "build" / "cache")}
    return subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-m", "tandem", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if is_captured else None,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )


# --- output ---------------------------------------------------------------------------------------------------------


def print_table(title: str, headings: list[str], rows: list[list[str]]) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def print_account(killed: dict[str, Any], drilled: dict[str, Any]) -> None:
    meanings = {
        "sent": "sent and acknowledged",
        "received": "received",
        "lost": "lost",
        "duplicates": "duplicates",
        "redelivered": "delivered again after a crash, not yet completed",
        "diverted": "diverted to the secondary namespace",
        "syphoned": "syphoned back to the primary namespace",
        "refused": "failed sends",
        "out_of_order": "received behind a later message of their sender",
    }
    rows = [
        [meaning, *(f"{account[name]:,}" if name in account else "-" for account in (killed, drilled))]
        for name, meaning in meanings.items()
    ]
    print_table("Account of every message", ["messages", "1 killed broker", "2 outage drill"], rows)


def explain(drilled: dict[str, Any]) -> None:
    console.print(
        f"""
You have just seen:
1. A broker was killed twice with SIGKILL while the official Azure SDK sent and received. It restarted on its data \
directory, and every acknowledged message was still there.
2. A primary namespace was killed for {drilled["outage_seconds"]:.0f} s while a paired client kept sending. After the \
failover interval the client sent to the secondary namespace. When the primary came back, the syphon moved \
{drilled["syphoned"]:,} messages back to it.
3. Spark read the operations that both namespaces had recorded, and reported outages, cost and latency from them.
"""
    )


def main() -> int:
    started_s = time.monotonic()
    console.print(
        "This demonstration takes about a minute and has three parts:\n"
        "1. kill a broker under the official Azure SDK\n"
        "2. kill a primary namespace under a paired client\n"
        "3. report on that outage with Spark"
    )
    os.chdir(ROOT)
    shutil.rmtree(FOLDER, ignore_errors=True)
    try:
        console.rule("1. Kill a broker under the official Azure SDK", align="left")
        killed = kill_a_broker()
        console.rule("2. Kill a primary namespace under a paired client", align="left")
        drilled = drill()
        console.rule("3. Report on that outage with Spark", align="left")
        pipeline()
    except StepFailed as error:
        console.print(f"[red]The demonstration failed:[/] {error}")
        return 1
    console.rule("Summary", align="left")
    print_account(killed, drilled)
    explain(drilled)
    broken = [*violations(killed), *drilled["violations"]]
    for sentence in broken:
        console.print(f"[red]broken:[/] {sentence}")
    if not broken:
        console.print("[green]Nothing was lost, and every duplicate is explained.[/]")
    console.print(f"report of the pipeline  {FOLDER / 'report.html'}", soft_wrap=True)
    console.print(f"report of the drill     {FOLDER / 'drill.html'}", soft_wrap=True)
    console.print(f"The demonstration took {time.monotonic() - started_s:.0f} s.")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
