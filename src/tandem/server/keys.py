"""Where the shared access keys of a broker are kept.

    DIR/keys.json    the rules and their keys, 0600

They are made at the first start. A broker for development has the well-known key of the official emulator instead, and
keeps nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from tandem.auth.keys import ALL_RIGHTS, KEY_BYTES, AuthorizationRule, KeyRing, make_key
from tandem.errors import ConfigurationError

__all__ = ["DEVELOPMENT_KEY", "KEYS_NAME", "ROOT_RULE_NAME", "load_or_make_keys"]

KEYS_NAME: Final = "keys.json"

# The rule that every namespace of the service starts with, and that the official emulator has.
ROOT_RULE_NAME: Final = "RootManageSharedAccessKey"

# The key of the official emulator, as its documentation prints it: it protects nothing.
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"

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
        return KeyRing.from_dict(msgspec.json.decode(path.read_bytes()))
    except OSError as error:
        raise ConfigurationError(f"the keys in {path} cannot be used: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{path} is not the JSON it was written as: {error}; restore it") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _make(path: Path) -> None:
    """Write new keys. Whoever else makes some at the same moment either finds these, or is found."""
    rule = AuthorizationRule(
        ROOT_RULE_NAME,
        ALL_RIGHTS,
        make_key(secrets.token_bytes(KEY_BYTES)),
        make_key(secrets.token_bytes(KEY_BYTES)),
    )
    content = msgspec.json.format(msgspec.json.encode(KeyRing([rule]).to_dict()), indent=2) + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    # A draft that a crash left behind may have another mode.
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, does not replace the keys of whoever was faster.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Clients are given these keys: they must still be there after a crash."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
