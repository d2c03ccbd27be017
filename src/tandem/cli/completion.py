"""`tandem completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tandem.cli.shared.options import AsJson
from tandem.cli.shared.output import print_json

__all__ = ["completion"]


class Shell(enum.Enum):
    """Those that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that you use.")],
    as_json: AsJson = False,
) -> None:
    """Print a script that lets a shell complete commands and options of tandem.

    \b
    Examples:
      tandem completion bash > ~/.local/share/bash-completion/completions/tandem
      tandem completion zsh > ~/.zfunc/_tandem      # ~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit
      tandem completion fish > ~/.config/fish/completions/tandem.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined] # as in its documentation

    script = get_completion_script(prog_name="tandem", complete_var="_TANDEM_COMPLETE", shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        typer.echo(script)
