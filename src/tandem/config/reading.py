"""Reading a file, whatever its form."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import msgspec

from tandem.config.configuration import Configuration
from tandem.config.emulator import from_emulator
from tandem.config.toml import from_toml
from tandem.errors import ArgumentError, ConfigurationError

__all__ = ["MAX_CONFIG_FILE_BYTES", "read_configuration"]

# Bytes. Every entity that a namespace may have, with every property written out, is some megabytes.
MAX_CONFIG_FILE_BYTES: Final = 16_777_216


def read_configuration(path: Path) -> Configuration:
    """Read a file. Everything wrong with it is a `ConfigurationError` that names the file and the field."""
    try:
        if path.stat().st_size > MAX_CONFIG_FILE_BYTES:
            raise ConfigurationError(f"it has more than {MAX_CONFIG_FILE_BYTES:,} bytes")
        # Editors on Windows put a byte order mark in front.
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            return from_emulator(msgspec.json.decode(text))
        if path.suffix.lower() == ".toml":
            return from_toml(tomllib.loads(text))
        raise ConfigurationError("its name must end in .toml (Tandem's own form) or .json (the official emulator's)")
    except OSError as error:
        raise ConfigurationError(f"--config {path}: it cannot be read: {error.strerror or error}") from error
    except (
        ConfigurationError,
        ArgumentError,
        UnicodeDecodeError,
        tomllib.TOMLDecodeError,
        msgspec.DecodeError,
    ) as error:
        raise ConfigurationError(f"--config {path}: {error}") from error
