"""How groups and commands are put together: one look for every group, and parameters that several commands share."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import typer

from tandem.errors import TandemError

__all__ = ["command_group", "failing_with", "made_by"]


def command_group(*paragraphs: str) -> typer.Typer:
    """Return a group of commands with this help."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="\n\n".join(paragraphs))


def made_by(
    make: Callable[..., object], parameter: str, parameters: Iterable[inspect.Parameter] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a parameter of a command by those of `make`, or by `parameters`; the command gets what `make` returns."""
    taken = list(inspect.signature(make, eval_str=True).parameters.values() if parameters is None else parameters)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            made = make(**{one.name: arguments.pop(one.name) for one in taken})
            command(**arguments, **{parameter: made})

        expanded: list[inspect.Parameter] = []
        for one in inspect.signature(command, eval_str=True).parameters.values():
            expanded += taken if one.name == parameter else [one]
        # Both are read by typer.
        run.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined] # functions may have one
        run.__annotations__ = {one.name: one.annotation for one in expanded}
        return run

    return decorate


@contextlib.contextmanager
def failing_with(exit_code: int) -> Iterator[None]:
    """Let a command, as its outermost decorator, end with this exit code if it fails: 1 has another meaning for it."""
    try:
        yield
    except TandemError as error:
        typer.echo(f"tandem: {error}", err=True)
        raise typer.Exit(exit_code) from error
