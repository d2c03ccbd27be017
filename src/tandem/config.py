"""What `tandem serve --config FILE` reads: Tandem's own TOML, or the `Config.json` of the official emulator.

    namespace = "sbemulatorns"
    port = 5672
    http_port = 5300

    [[queues]]
    name = "orders"
    lock_duration_ms = 30_000

A queue of the file that does not exist is created when the broker starts; one that exists is left alone.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.errors import ArgumentError, ConfigurationError
from tandem.management.durations import parse_duration_ms

__all__ = ["Configuration", "create_missing_queues", "read_configuration", "require_namespace_name"]

# Bytes. Every entity that a namespace may have, with every property written out, is some megabytes.
MAX_CONFIG_FILE_BYTES: Final = 16_777_216

MAX_PORT: Final = 65_535

# Credits. Beyond what any machine can do, a limit limits nothing. Service: 1,000 for each namespace (Standard).
MAX_CREDITS_PER_SECOND: Final = 1_000_000_000

# As in the cloud service, where it is the first label of a host name; the service wants at least 6 characters.
_NAMESPACE_NAME: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,48}[A-Za-z0-9])?")

# The properties of a queue in Config.json, with the field that each becomes. Those that end in _ms are durations.
_EMULATOR_FIELDS: Final = {
    "AutoDeleteOnIdle": "auto_delete_on_idle_ms",
    "DeadLetteringOnMessageExpiration": "dead_lettering_on_message_expiration",
    "DefaultMessageTimeToLive": "default_message_time_to_live_ms",
    "DuplicateDetectionHistoryTimeWindow": "duplicate_detection_history_time_window_ms",
    "EnableBatchedOperations": "enable_batched_operations",
    "EnablePartitioning": "enable_partitioning",
    "ForwardDeadLetteredMessagesTo": "forward_dead_lettered_messages_to",
    "ForwardTo": "forward_to",
    "LockDuration": "lock_duration_ms",
    "MaxDeliveryCount": "max_delivery_count",
    "MaxMessageSizeInKilobytes": "max_message_size_in_kilobytes",
    "MaxSizeInMegabytes": "max_size_in_megabytes",
    "RequiresDuplicateDetection": "requires_duplicate_detection",
    "RequiresSession": "requires_session",
    "Status": "status",
    "UserMetadata": "user_metadata",
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file says. None is what it leaves open."""

    namespace: str | None = None
    host: str | None = None
    port: int | None = None
    http_port: int | None = None
    tls: str | None = None
    credits_per_second: int | None = None
    queues: list[QueueDescription] = field(default_factory=list)
    # One line each, for the operator: what the file asks for and will not get.
    warnings: list[str] = field(default_factory=list)


def read_configuration(path: Path) -> Configuration:
    """Read a file. Everything wrong with it is a `ConfigurationError` that names the file and the field."""
    try:
        if path.stat().st_size > MAX_CONFIG_FILE_BYTES:
            raise ConfigurationError(f"it has more than {MAX_CONFIG_FILE_BYTES:,} bytes")
        # Editors on Windows put a byte order mark in front.
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            return _from_emulator(msgspec.json.decode(text))
        if path.suffix.lower() == ".toml":
            return _from_toml(tomllib.loads(text))
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


def require_namespace_name(name: str, setting: str) -> None:
    if _NAMESPACE_NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{setting} is {name!r:.80}; allowed are up to 50 letters, digits and '-', a letter first and no '-' last"
        )


def create_missing_queues(namespace: Namespace, queues: list[QueueDescription]) -> None:
    """Create those that do not exist, all or none. They may forward to each other, in any order and in a ring."""
    missing = [description for description in queues if namespace.find(description.name) is None]
    known = {description.name.lower() for description in missing}
    for description in missing:
        for target_field in ("forward_to", "forward_dead_lettered_messages_to"):
            target = getattr(description, target_field)
            if target is not None and target.lower() not in known and namespace.find(target) is None:
                raise ConfigurationError(
                    f"{target_field} of the queue {description.name!r} is {target!r}, which neither exists nor is in "
                    "the configuration"
                )
    for description in missing:
        fields = {**description.to_fields(), "forward_to": None, "forward_dead_lettered_messages_to": None}
        namespace.create_queue(QueueDescription.from_fields(fields))
    for description in missing:
        if description.forward_to is not None or description.forward_dead_lettered_messages_to is not None:
            namespace.update_queue(namespace.get(description.name), description)


# --- Tandem's own form ----------------------------------------------------------------------------------------------


def _from_toml(value: dict[str, Any]) -> Configuration:
    allowed = ("namespace", "host", "port", "http_port", "tls", "credits_per_second", "queues")
    for key in value:
        if key not in allowed:
            raise ConfigurationError(f"{key} is not a setting; those are {', '.join(allowed)}")
    for key in ("namespace", "host", "tls"):
        if key in value and not isinstance(value[key], str):
            raise ConfigurationError(f"{key} must be a text, got {value[key]!r:.80}")
    if "namespace" in value:
        require_namespace_name(value["namespace"], "namespace")
    return Configuration(
        namespace=value.get("namespace"),
        host=value.get("host"),
        port=_whole_number(value, "port", 0, MAX_PORT),
        http_port=_whole_number(value, "http_port", 0, MAX_PORT),
        tls=value.get("tls"),
        credits_per_second=_whole_number(value, "credits_per_second", 1, MAX_CREDITS_PER_SECOND),
        queues=_descriptions([_toml_queue(number, one) for number, one in enumerate(_list(value, "queues", ""))]),
    )


def _whole_number(value: dict[str, Any], key: str, least: int, most: int) -> int | None:
    number = value.get(key)
    if number is None:
        return None
    # A bool is an int in Python, and is none here.
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise ConfigurationError(f"{key} is {number!r:.80}; it must be a whole number from {least:,} to {most:,}")
    return number


def _toml_queue(number: int, value: object) -> QueueDescription:
    fields = _object(value, f"queues[{number}]")
    try:
        return QueueDescription.from_fields(fields)
    except ArgumentError as error:
        raise ConfigurationError(f"queues[{number}]: {error}") from error


# --- the official emulator's form -----------------------------------------------------------------------------------


def _from_emulator(value: object) -> Configuration:
    user_config = _object(_object(value, "the file").get("UserConfig"), "UserConfig")
    namespaces = _list(user_config, "Namespaces", "UserConfig.")
    if len(namespaces) != 1:
        raise ConfigurationError(f"UserConfig.Namespaces has {len(namespaces)} entries; a broker serves exactly one")
    where = "UserConfig.Namespaces[0]"
    namespace = _object(namespaces[0], where)
    name = namespace.get("Name")
    if name is not None:
        require_namespace_name(_text(name, f"{where}.Name"), f"{where}.Name")
    queues = [
        _emulator_queue(one, f"{where}.Queues[{number}]")
        for number, one in enumerate(_list(namespace, "Queues", f"{where}."))
    ]
    topics = _list(namespace, "Topics", f"{where}.")
    warnings = []
    if topics:
        noun = "topic is" if len(topics) == 1 else "topics are"
        warnings.append(f"{where}.Topics: {len(topics)} {noun} left out: Tandem has queues only, and topics not yet")
    return Configuration(namespace=name, queues=_descriptions(queues), warnings=warnings)


def _emulator_queue(value: object, where: str) -> QueueDescription:
    queue = _object(value, where)
    fields: dict[str, object] = {"name": _text(queue.get("Name"), f"{where}.Name")}
    for key, given in _object(queue.get("Properties") or {}, f"{where}.Properties").items():
        target = _EMULATOR_FIELDS.get(key)
        if target is None:
            raise ConfigurationError(f"{where}.Properties.{key} is not a property of a queue")
        if target.endswith("_ms"):
            fields[target] = parse_duration_ms(_text(given, f"{where}.Properties.{key}"), f"{where}.Properties.{key}")
        else:
            fields[target] = given
    try:
        return QueueDescription.from_fields(fields)
    except ArgumentError as error:
        raise ConfigurationError(f"{where}: {error}") from error


# --- values of the right kind ---------------------------------------------------------------------------------------


def _descriptions(queues: list[QueueDescription]) -> list[QueueDescription]:
    seen: set[str] = set()
    for description in queues:
        if description.name.lower() in seen:
            raise ConfigurationError(f"the queue {description.name!r} is there twice")
        seen.add(description.name.lower())
    return queues


def _list(value: dict[str, Any], key: str, prefix: str) -> list[Any]:
    # The emulator's own examples have null where there is nothing.
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise ConfigurationError(f"{prefix}{key} must be a list")
    return found


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where} must be an object with named values")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{where} must be a text")
    return value
