"""`tandem session`: sessions of an entity, and what applications keep beside them."""

from __future__ import annotations

import base64
import sys
from typing import Annotated

import typer

from tandem.cli.shared.broker import MANAGING_HELP, management
from tandem.cli.shared.commands import command_group
from tandem.cli.shared.options import AsJson, BodyFile, Connection, EntityPath, read_body
from tandem.cli.shared.output import moment_text, neutral, neutral_lines, print_done, print_json, print_table

__all__ = ["app"]

app = command_group(
    "List sessions of a queue or a subscription; show, set and clear their state.",
    "The state is what an application keeps beside a session: anything, up to the size of a message. Messages of a "
    "session are received by `tandem receive --session-id`.",
    MANAGING_HELP,
)

SessionId = Annotated[str, typer.Argument(metavar="ID", help="The id of the session.")]


@app.command("list")
def list_sessions(entity: EntityPath, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List the sessions that have messages or a state."""
    with management(connection_string, "entity") as client:
        sessions = list(client.operations(entity).sessions())
    if as_json:
        print_json({"sessions": sessions})
    elif not sessions:
        typer.echo(f"There are no sessions in {entity}.")
    else:
        rows = [
            (
                neutral(one["session_id"]),
                f"{one['active_message_count']:,}",
                f"{one['state_size_in_bytes']:,} bytes" if one["has_state"] else "-",
                f"until {moment_text(one['locked_until_ms'])}" if one["is_locked"] else "-",
            )
            for one in sessions
        ]
        print_table(("session", "active", "state", "locked"), rows, ("active",))


@app.command("show")
def show_session(
    entity: EntityPath, session_id: SessionId, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Print the state of a session. The exit code is 1 if it has none.

    To a file or a pipe it goes byte by byte; on a terminal, nothing in it can drive it.

    \b
    Examples:
      tandem session show carts customer-7
      tandem session show carts customer-7 > state.bin
    """
    with management(connection_string, "entity") as client:
        shown = client.operations(entity).session_state(session_id)
    text = shown["state"]
    if as_json:
        print_json(shown)
    elif text is not None:
        state = base64.b64decode(text) if shown["encoding"] == "base64" else text.encode()
        if sys.stdout.isatty():
            typer.echo(neutral_lines(state.decode(errors="backslashreplace")))
        else:
            typer.echo(state, nl=False)
    if text is None:
        if not as_json:
            typer.echo(f"the session {session_id} of {entity} has no state", err=True)
        raise typer.Exit(1)


@app.command("set")
def set_session_state(
    entity: EntityPath,
    session_id: SessionId,
    state: Annotated[str | None, typer.Argument(metavar="[STATE]", help="The state.", show_default=False)] = None,
    file: BodyFile = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Give a session another state. It is refused while a receiver holds the session.

    \b
    Examples:
      tandem session set carts customer-7 '{"step": 2}'
      tandem session set carts customer-7 --file state.bin
    """
    content = read_body(state, file, "a state")
    try:
        body = {"state": content.decode(), "encoding": "text"}
    except UnicodeDecodeError:
        body = {"state": base64.b64encode(content).decode(), "encoding": "base64"}
    with management(connection_string, "entity") as client:
        shown = client.operations(entity).set_session_state(session_id, body)
    print_done(f"set the state of the session {session_id} of {entity}", shown, as_json)


@app.command("clear")
def clear_session_state(
    entity: EntityPath, session_id: SessionId, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Remove the state of a session that no receiver holds. Its messages stay."""
    with management(connection_string, "entity") as client:
        client.operations(entity).clear_session_state(session_id)
    done = {"entity": entity, "session_id": session_id, "state": None}
    print_done(f"cleared the state of the session {session_id} of {entity}", done, as_json)
