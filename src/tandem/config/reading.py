"""Reading a file, whatever its form."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tandem.config.configuration import Configuration
from tandem.config.emulator import from_emulator
from tandem.config.lines import json_lines, line_of, toml_lines
from tandem.config.toml import from_toml
from tandem.config.values import Misplaced
from tandem.errors import ArgumentError, ConfigurationError
from tandem.limits import MAX_CONFIG_FILE_BYTES

__all__ = ["read_configuration"]


def read_configuration(path: Path) -> Configuration:
    """Read a file. Everything wrong with it is a `ConfigurationError` that names the file, the line and the setting."""
    try:
        if path.stat().st_size > MAX_CONFIG_FILE_BYTES:
            raise ConfigurationError(f"--config {path}: it has more than {MAX_CONFIG_FILE_BYTES:,} bytes")
        # Editors on Windows put a byte order mark in front.
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"--config {path}: it cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--config {path}: {error}") from error
    form = path.suffix.lower()
    try:
        if form == ".json":
            return from_emulator(json.loads(text))
        if form == ".toml":
            return from_toml(tomllib.loads(text))
        raise ConfigurationError("its name must end in .toml (Tandem's own form) or .json (the official emulator's)")
    except Misplaced as error:
        line = line_of(error.place, json_lines(text) if form == ".json" else toml_lines(text))
        where = path if line is None else f"{path}, line {line}"
        raise ConfigurationError(f"--config {where}: {error}") from error
    except (ConfigurationError, ArgumentError, ValueError) as error:
        # What both parsers raise is a ValueError that tells the line.
        raise ConfigurationError(f"--config {path}: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"--config {path}: it is nested too deeply") from error
