"""The configuration of `tandem pipeline run`: one TOML file. Every mistake in it is found before anything starts."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tandem.cost.tariff import Tariff, read_tariff
from tandem.durations import parse_duration_ms
from tandem.errors import ConfigurationError, TandemError
from tandem.lake.place import Place, StorageOptions

__all__ = ["JOBS", "SERVICE_SETTINGS", "CaptureSettings", "ServiceSettings", "read_service_settings"]

JOBS: Final = ("metering", "availability", "latency")
_FORMATS: Final = ("parquet", "delta", "avro")

SERVICE_SETTINGS: Final = (
    *("out", "checkpoints", "listen", "trigger", "title", "tariff", "jobs", "cost_window", "latency_window"),
    *("namespaces", "capture", "storage", "spark"),
)
_CAPTURE_FIELDS: Final = ("namespace", "hub", "out", "format", "options")
_SOURCES: Final = ("connection_string", "connection_string_file", "connection_string_variable")

DEFAULT_LISTEN: Final = "127.0.0.1:9464"


@dataclass(frozen=True)
class CaptureSettings:
    """One event hub, and where its events go. Options are those of the format `capture`."""

    namespace: str
    hub: str
    place: Place
    file_format: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class ServiceSettings:
    """Everything that the file says."""

    out: Place
    checkpoints: Place
    host: str
    port: int
    trigger_s: float
    title: str
    tariff: Tariff
    jobs: tuple[str, ...]
    cost_window: str
    latency_window: str
    # Connection strings by name.
    namespaces: Mapping[str, str] = field(repr=False)
    captures: tuple[CaptureSettings, ...]
    spark: Mapping[str, str]


def read_service_settings(path: Path, environment: Mapping[str, str] | None = None) -> ServiceSettings:
    """Read a file. Paths in it are relative to its folder."""
    variables = os.environ if environment is None else environment
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    try:
        return _settings(path.absolute().parent, fields, variables)
    except TandemError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _settings(folder: Path, fields: Mapping[str, Any], variables: Mapping[str, str]) -> ServiceSettings:
    _check_names("", fields, SERVICE_SETTINGS)
    storage = StorageOptions.parse(_texts(fields, "storage"), variables)
    out = _place(folder, _text(fields, "out", "pipeline"), storage)
    if not out.is_ours:
        raise ConfigurationError(f"out is {out}; results go to folders and s3://")
    if "checkpoints" not in fields and not out.is_local:
        raise ConfigurationError(f"out is {out}, where Spark keeps no checkpoints: give checkpoints a folder")
    checkpoints = _place(folder, _text(fields, "checkpoints", str(out.child("_checkpoints"))), storage)
    namespaces = {
        str(name): _connection_string(str(name), source, folder, variables)
        for name, source in _table(fields, "namespaces").items()
    }
    if not namespaces:
        raise ConfigurationError("namespaces is missing: [namespaces.primary] with connection_string_file")
    host, port = _address(_text(fields, "listen", DEFAULT_LISTEN))
    tariff = fields.get("tariff")
    jobs = fields.get("jobs", list(JOBS))
    if not isinstance(jobs, list) or not set(jobs) <= set(JOBS):
        raise ConfigurationError(f"jobs is {jobs!r:.80}; write a list of {', '.join(JOBS)}")
    captures = fields.get("capture", [])
    if not isinstance(captures, list):
        raise ConfigurationError("capture must be written as [[capture]]")
    trigger_ms = parse_duration_ms(_text(fields, "trigger", "10s"), "trigger") or 0
    return ServiceSettings(
        out=out,
        checkpoints=checkpoints,
        host=host,
        port=port,
        trigger_s=trigger_ms / 1_000,
        title=_text(fields, "title", "What the bus does"),
        tariff=read_tariff(None if tariff is None else folder / str(tariff)),
        jobs=tuple(jobs),
        cost_window=_text(fields, "cost_window", "1 day"),
        latency_window=_text(fields, "latency_window", "1 minute"),
        namespaces=namespaces,
        captures=tuple(_capture(one, folder, out, storage, namespaces) for one in captures),
        spark=_texts(fields, "spark"),
    )


def _capture(
    fields: object, folder: Path, out: Place, storage: StorageOptions, namespaces: Mapping[str, str]
) -> CaptureSettings:
    if not isinstance(fields, dict):
        raise ConfigurationError("capture must be written as [[capture]]")
    _check_names("capture.", fields, _CAPTURE_FIELDS)
    hub = _text(fields, "hub", None)
    namespace = _text(fields, "namespace", next(iter(namespaces)))
    if namespace not in namespaces:
        raise ConfigurationError(f"capture.namespace is {namespace!r:.80}; there are {', '.join(namespaces)}")
    file_format = _text(fields, "format", "parquet")
    if file_format not in _FORMATS:
        raise ConfigurationError(f"capture.format is {file_format!r:.80}; there are {', '.join(_FORMATS)}")
    place = _place(folder, _text(fields, "out", str(out.child("capture"))), storage).child(namespace, hub)
    return CaptureSettings(namespace, hub, place, file_format, _texts(fields, "options"))


def _connection_string(name: str, source: object, folder: Path, variables: Mapping[str, str]) -> str:
    if not isinstance(source, dict) or len(source) != 1 or next(iter(source)) not in _SOURCES:
        raise ConfigurationError(f"namespaces.{name} must have one of {', '.join(_SOURCES)}")
    [(kind, value)] = source.items()
    text = str(value)
    if kind == "connection_string":
        return text
    if kind == "connection_string_variable":
        if not variables.get(text):
            raise ConfigurationError(f"namespaces.{name}: the variable {text} is not set")
        return variables[text]
    try:
        return (folder / text).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"namespaces.{name}: {folder / text} cannot be read: {error.strerror}") from None


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(f"listen is {text!r:.80}; write it as HOST:PORT, such as {DEFAULT_LISTEN}")
    return host.strip("[]"), int(port)


def _place(folder: Path, text: str, storage: StorageOptions) -> Place:
    place = Place.parse(text, storage)
    # A path is relative to the file, a URI is not relative at all.
    return Place.parse(folder / text) if place.is_local and ":" not in text else place


def _check_names(where: str, fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {where}{near[0]}?" if near else f"there are {', '.join(known)}"
            raise ConfigurationError(f"{where}{name} is not a setting; {hint}")


def _text(fields: Mapping[str, Any], name: str, default: str | None) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} is {value!r:.80}; write a text" if name in fields else f"{name} is missing")
    return value


def _table(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise ConfigurationError(f"{name} must be written as [{name}]")
    return cast("dict[str, Any]", value)


def _texts(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    return {str(key): str(value) for key, value in _table(fields, name).items()}
