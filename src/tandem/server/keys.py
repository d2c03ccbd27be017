"""Where the shared access keys of a broker are kept.

    DIR/keys.json         the rules and their keys, 0600
    DIR/keys.json.copy    the same

They are made at the first start. Both files have a checksum: when one of them is damaged or missing, the other is used,
and the broker mends it and reports the damage. Keys are never made anew while one of the files is intact, since that
would lock out every client. Whoever edits keys.json by hand removes its `checksum`; the broker adds it again.

A broker for development has the well-known key of the official emulator instead, and keeps nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from tandem.auth.keys import ALL_RIGHTS, KEY_BYTES, AuthorizationRule, KeyRing, make_key
from tandem.connection_string import DEVELOPMENT_KEY, ROOT_RULE_NAME
from tandem.errors import ConfigurationError
from tandem.limits import MAX_KEYS_FILE_BYTES
from tandem.store.damage import Damage
from tandem.store.quarantine import copy_aside

__all__ = [
    "DEFAULT_DATA_DIR",
    "KEYS_NAME",
    "find_damaged_keys",
    "load_or_make_keys",
    "protect_keys",
    "save_keys",
]

KEYS_NAME: Final = "keys.json"

# Where a broker keeps its data, if it is not told, and where the command line looks for its keys.
DEFAULT_DATA_DIR: Final = Path("tandem-data")

# The field of the file that holds its checksum.
_CHECKSUM: Final = "checksum"


def load_or_make_keys(data_dir: Path, is_dev: bool) -> KeyRing:
    """The keys of a data directory, which are made if there are none yet; or those for development."""
    if is_dev:
        return KeyRing([AuthorizationRule(ROOT_RULE_NAME, ALL_RIGHTS, DEVELOPMENT_KEY)])
    path = data_dir / KEYS_NAME
    try:
        if not path.exists() and not _copy_of(path).exists():
            _make(path)
        return _read_either(path)
    except OSError as error:
        raise ConfigurationError(f"the keys in {path} cannot be used: {error.strerror or error}") from error


def protect_keys(data_dir: Path) -> list[Damage]:
    """Mend the keys of a data directory from their second copy, and return what was damaged.

    Keys that have no checksum yet, or no second copy, get them.
    """
    path = data_dir / KEYS_NAME
    keys = _read_either(path)
    damages = find_damaged_keys(data_dir)
    if damages:
        copy_aside(data_dir, [path, _copy_of(path)], damages)
    wanted = _encode(keys)
    for one in (path, _copy_of(path)):
        if not one.exists() or one.read_bytes() != wanted:
            with _draft(one, keys) as draft:
                draft.rename(one)
    return damages


def find_damaged_keys(data_dir: Path) -> list[Damage]:
    """Return what is damaged of the keys of a data directory. Nothing is changed."""
    path = data_dir / KEYS_NAME
    copy = _copy_of(path)
    if not path.exists() and not copy.exists():
        # A broker for development has none.
        return []
    found = {one: _try_to_read(one) for one in (path, copy)}
    are_lost = all(isinstance(one, ConfigurationError) for one in found.values())
    return [
        Damage(f"the file '{one.name}'", str(what), "the keys of the namespace" if are_lost else "")
        for one, what in found.items()
        # A copy that is not there may never have been: keys that were just made have none, nor older ones.
        if isinstance(what, ConfigurationError) and (one.exists() or one is path)
    ]


def _read_either(path: Path) -> KeyRing:
    """Return the keys of the file, or, if it is damaged, those of its second copy."""
    found = _try_to_read(path)
    if isinstance(found, ConfigurationError):
        second = _try_to_read(_copy_of(path))
        if isinstance(second, ConfigurationError):
            raise found
        found = second
    return found


def _try_to_read(path: Path) -> KeyRing | ConfigurationError:
    try:
        return _read(path)
    except FileNotFoundError:
        return ConfigurationError(f"{path} is missing")
    except (ValueError, RecursionError) as error:
        return ConfigurationError(f"{path} is not the JSON it was written as: {error}; restore it")
    except ConfigurationError as error:
        return ConfigurationError(f"{path}: {error}")


def _read(path: Path) -> KeyRing:
    if path.stat().st_size > MAX_KEYS_FILE_BYTES:
        raise ConfigurationError(f"it has more than {MAX_KEYS_FILE_BYTES:,} bytes, and is no file of keys")
    value = json.loads(path.read_bytes())
    keys = KeyRing.from_dict(value)
    checksum = value.get(_CHECKSUM)
    if checksum is not None and checksum != _checksum(keys):
        raise ConfigurationError(
            "it has a wrong checksum: restore it or, if you have edited it by hand, remove its checksum"
        )
    return keys


def _copy_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.copy")


def _checksum(keys: KeyRing) -> str:
    return f"{crc32(json.dumps(keys.to_dict(), sort_keys=True).encode()):08x}"


def _encode(keys: KeyRing) -> bytes:
    content = {**keys.to_dict(), _CHECKSUM: _checksum(keys)}
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"


def save_keys(data_dir: Path, rules: Iterable[AuthorizationRule]) -> None:
    """These are the rules of the whole namespace from now on. Others find the old file, or the new one.

    Rules with a scope that somebody has written into the file stay in it: those of entities are kept with them.
    """
    path = data_dir / KEYS_NAME
    kept = [rule for rule in load_or_make_keys(data_dir, is_dev=False) if rule.scope]
    try:
        keys = KeyRing([*rules, *kept])
        with _draft(path, keys) as draft:
            draft.rename(path)
        # If this fails, or a crash comes before it, the next start writes it.
        with contextlib.suppress(OSError), _draft(_copy_of(path), keys) as draft:
            draft.rename(_copy_of(path))
    except OSError as error:
        raise ConfigurationError(f"the keys in {path} cannot be changed: {error.strerror or error}") from error


def _make(path: Path) -> None:
    """Write new keys. Whoever else makes some at the same moment either finds these, or is found."""
    rule = AuthorizationRule(
        ROOT_RULE_NAME,
        ALL_RIGHTS,
        make_key(secrets.token_bytes(KEY_BYTES)),
        make_key(secrets.token_bytes(KEY_BYTES)),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # A link, unlike a rename, does not replace the keys of whoever was faster.
    with _draft(path, KeyRing([rule])) as draft, contextlib.suppress(FileExistsError):
        path.hardlink_to(draft)


@contextlib.contextmanager
def _draft(path: Path, keys: KeyRing) -> Iterator[Path]:
    """The keys in a file beside the one that they are for, on disk; what is done with it is on disk afterwards."""
    content = _encode(keys)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    # A draft that a crash left behind may have another mode.
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Clients are given these keys: they must still be there after a crash."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
