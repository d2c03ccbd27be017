"""Spark for a command: it says on which Java, and makes one line of what went wrong on the other side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import typer

from tandem.cli.failure import CommandFailed
from tandem.errors import TandemError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["open_spark"]

_INSTALL: Final = "the pipeline needs Spark: pip install 'tandem-bus[spark]'"


@contextlib.contextmanager
def open_spark(name: str, master: str | None, *, is_small: bool = False) -> Iterator[SparkSession]:
    """Open a session for a command. `is_small`: on this machine, set it up for some thousand records."""
    try:
        from tandem.spark.spark_session import SMALL_DATA_SETTINGS, chosen_java, session
    except ImportError as error:
        raise CommandFailed(f"{_INSTALL} ({error})") from error
    typer.echo(f"{name}: Spark on {chosen_java()}", err=True)
    # A cluster has settings of its own.
    spark = session(f"tandem {name}", master=master, settings=SMALL_DATA_SETTINGS if is_small and not master else None)
    try:
        yield spark
    except TandemError:
        raise
    except Exception as error:
        raise CommandFailed(_reason(error)) from error
    finally:
        spark.stop()


def _reason(error: Exception) -> str:
    """What a source or a sink raised on its side is the last line of what Spark makes of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("tandem.")]
    return (ours or lines or [type(error).__name__])[-1 if ours else 0]
