"""A Spark session for a command: prints which Java it runs on, and reports an error of Spark in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import typer

from tandem.cli.shared.failure import CommandFailed
from tandem.errors import TandemError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["open_spark"]

_INSTALL: Final = "the pipeline needs Spark: pip install 'tandem-bus[spark]'"


@contextlib.contextmanager
def open_spark(
    name: str, master: str | None, *, is_small: bool = False, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Open a session for a command, and stop it on the way out.

    With `is_small`, a session on this machine is set up for a few thousand records. `settings` go to Spark.
    """
    try:
        from tandem.spark.spark_session import SMALL_DATA_SETTINGS, chosen_java, session
    except ImportError as error:
        raise CommandFailed(f"{_INSTALL} ({error})") from error
    typer.echo(f"{name}: Spark on {chosen_java()}", err=True)
    # A cluster has settings of its own.
    small = SMALL_DATA_SETTINGS if is_small and master is None else {}
    chosen = {**small, **(settings or {})}
    # Jobs of a moment: their progress bars would only cover the lines of the command.
    shows_progress = False if is_small else None
    try:
        with session(f"tandem {name}", master=master, settings=chosen, shows_progress=shows_progress) as spark:
            yield spark
    except TandemError:
        raise
    except Exception as error:
        from tandem.spark.causes import cause_of

        raise CommandFailed(cause_of(error)) from error
