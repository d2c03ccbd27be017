"""Where the shared access keys of a broker are kept.

    DIR/keys.json    the rules and their keys, 0600

They are made at the first start. A broker for development has the well-known key of the official emulator instead, and
keeps nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tandem.auth.keys import ALL_RIGHTS, KEY_BYTES, AuthorizationRule, KeyRing, make_key
from tandem.connection_string import DEVELOPMENT_KEY, ROOT_RULE_NAME
from tandem.errors import ConfigurationError

__all__ = ["DEFAULT_DATA_DIR", "KEYS_NAME", "load_or_make_keys", "save_keys"]

KEYS_NAME: Final = "keys.json"

# Where a broker keeps its data, if it is not told, and where the command line looks for its keys.
DEFAULT_DATA_DIR: Final = Path("tandem-data")

# Bytes. The rules of a namespace and of a thousand entities; a larger file is none of ours.
MAX_KEYS_FILE_BYTES: Final = 16_777_216


def load_or_make_keys(data_dir: Path, is_dev: bool) -> KeyRing:
    """The keys of a data directory, which are made if there are none yet; or those for development."""
    if is_dev:
        return KeyRing([AuthorizationRule(ROOT_RULE_NAME, ALL_RIGHTS, DEVELOPMENT_KEY)])
    path = data_dir / KEYS_NAME
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_size > MAX_KEYS_FILE_BYTES:
            raise ConfigurationError(f"it has more than {MAX_KEYS_FILE_BYTES:,} bytes, and is no file of keys")
        return KeyRing.from_dict(json.loads(path.read_bytes()))
    except OSError as error:
        raise ConfigurationError(f"the keys in {path} cannot be used: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not the JSON it was written as: {error}; restore it") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def save_keys(data_dir: Path, rules: Iterable[AuthorizationRule]) -> None:
    """These are the rules of the whole namespace from now on. Others find the old file, or the new one.

    Rules with a scope that somebody has written into the file stay in it: those of entities are kept with them.
    """
    path = data_dir / KEYS_NAME
    kept = [rule for rule in load_or_make_keys(data_dir, is_dev=False) if rule.scope]
    try:
        with _draft(path, KeyRing([*rules, *kept])) as draft:
            draft.rename(path)
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
    content = json.dumps(keys.to_dict(), indent=2, ensure_ascii=False).encode() + b"\n"
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
