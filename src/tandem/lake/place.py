"""A place for files: a folder of a disk, or a prefix in a bucket, given as a path or a URI.

    capture                     a folder
    file:///var/capture         the same as a URI
    s3://bucket/prefix          an S3-compatible store
    hdfs://namenode:8020/…      any other scheme: for Spark's own file systems, not for `tandem.lake`

A place travels to executors. It holds options, and opens the file system where it is used.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tandem.errors import ConfigurationError

__all__ = ["Place", "StorageOptions"]

# Two letters or more: `C:` is a drive.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")

_LOCAL: Final = "file"
_S3: Final = "s3"
_S3_SPELLINGS: Final = frozenset({"s3", "s3a", "s3n"})

# Where the options of an S3 store are looked up if they are not given: the variables that every client of S3 reads.
_VARIABLES: Final = {
    "endpoint": "AWS_ENDPOINT_URL",
    "region": "AWS_REGION",
    "accessKey": "AWS_ACCESS_KEY_ID",
    "secretKey": "AWS_SECRET_ACCESS_KEY",
    "sessionToken": "AWS_SESSION_TOKEN",
}

# Stores that are not Amazon's take any region, but clients insist on one.
_DEFAULT_REGION: Final = "us-east-1"


@dataclass(frozen=True)
class StorageOptions:
    """How to reach an S3-compatible store. Empty values are left to the client: its environment, profile or role."""

    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    @staticmethod
    def names() -> tuple[str, ...]:
        return tuple(_VARIABLES)

    @staticmethod
    def parse(given: Mapping[str, str], environment: Mapping[str, str] | None = None) -> StorageOptions:
        """Read options by the names that `names` lists, in any case; missing ones from the environment."""
        variables = os.environ if environment is None else environment
        lowered = {name.lower(): value for name, value in given.items()}
        unknown = sorted(set(lowered) - {name.lower() for name in _VARIABLES})
        if unknown:
            raise ConfigurationError(
                f"there is no storage option {unknown[0]!r:.80}; there are {', '.join(_VARIABLES)}"
            )
        values = [lowered.get(name.lower()) or variables.get(variable, "") for name, variable in _VARIABLES.items()]
        return StorageOptions(*values)

    def to_options(self) -> dict[str, str]:
        """Return the options that are set, by their names."""
        values = (getattr(self, one.name) for one in fields(self))
        return {name: value for name, value in zip(_VARIABLES, values, strict=True) if value}


@dataclass(frozen=True)
class Place:
    """A folder, by its scheme and its path there."""

    scheme: str
    path: str
    options: StorageOptions = StorageOptions()

    @staticmethod
    def parse(text: str | Path, options: StorageOptions | None = None) -> Place:
        given = str(text)
        scheme = _SCHEME.match(given)
        if scheme is None:
            return Place(_LOCAL, str(Path(given).absolute()))
        name = scheme[1].lower()
        parts = urlsplit(given)
        if name == _LOCAL:
            if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
                raise ConfigurationError(f"{given!r:.200} is not the URI of a folder: write it as file:///path")
            return Place(_LOCAL, unquote(parts.path).rstrip("/") or "/")
        if name in _S3_SPELLINGS:
            if not parts.netloc:
                raise ConfigurationError(f"{given!r:.200} has no bucket: write it as s3://bucket/prefix")
            return Place(_S3, f"{parts.netloc}{parts.path}".rstrip("/"), options or StorageOptions.parse({}))
        return Place(name, given.rstrip("/"))

    def __str__(self) -> str:
        """Return the path of a local folder, and the URI of any other: what `parse` takes."""
        return f"s3://{self.path}" if self.scheme == _S3 else self.path

    @property
    def uri(self) -> str:
        """Return the URI, also of a local folder."""
        return Path(self.path).as_uri() if self.is_local else str(self)

    @property
    def is_local(self) -> bool:
        return self.scheme == _LOCAL

    @property
    def is_ours(self) -> bool:
        """True if `tandem.lake` reads and writes it; False if only Spark can."""
        return self.scheme in {_LOCAL, _S3}

    @property
    def local_path(self) -> Path:
        if not self.is_local:
            raise ConfigurationError(f"{self} is not a folder of this machine")
        return Path(self.path)

    def child(self, *names: str) -> Place:
        return Place(self.scheme, "/".join([self.path.rstrip("/"), *names]), self.options)

    # --- files ------------------------------------------------------------------------------------------------------

    def file_system(self) -> Any:
        """Return the file system of pyarrow, the same one for the life of the process."""
        return _file_system(self.scheme, self.options)

    def delta_options(self) -> dict[str, str] | None:
        """Return the options by which delta-rs reaches the same store."""
        if self.is_local:
            return None
        found = {_VARIABLES[name]: value for name, value in self.options.to_options().items()}
        found.setdefault("AWS_REGION", _DEFAULT_REGION)
        if self.options.endpoint.startswith("http:"):
            found["AWS_ALLOW_HTTP"] = "true"
        # A commit is a write on the condition that nobody else has written this version.
        found["aws_conditional_put"] = "etag"
        return found

    def open_output(self, relative: str) -> Any:
        """Open a file for writing. Make its folder where there are folders."""
        target = self.child(relative)
        if self.is_local:
            target.local_path.parent.mkdir(parents=True, exist_ok=True)
        return self.file_system().open_output_stream(target.path)

    def open_input(self, relative: str) -> Any:
        return self.file_system().open_input_file(self.child(relative).path)

    def exists(self, relative: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self.file_system().get_file_info(self.child(relative).path).type != FileType.NotFound)

    def read_text(self, relative: str) -> str | None:
        """Return the content of a small file; None if there is none."""
        try:
            with self.file_system().open_input_stream(self.child(relative).path, compression=None) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def write_text(self, relative: str, text: str) -> None:
        """Write a small file in one step: a reader finds the old content or the new one, and never half of either."""
        if not self.is_local:
            with self.open_output(relative) as stream:
                stream.write(text.encode())
            return
        target = self.child(relative).local_path
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(target)

    def rename(self, source: str, target: str) -> None:
        """Rename a file of a local folder, in one step."""
        final = self.child(target).local_path
        final.parent.mkdir(parents=True, exist_ok=True)
        self.child(source).local_path.replace(final)

    def delete(self, relative: str) -> None:
        """Delete a file, if it is there."""
        try:
            self.file_system().delete_file(self.child(relative).path)
        except FileNotFoundError:
            return

    def size_bytes(self, relative: str) -> int:
        return int(self.file_system().get_file_info(self.child(relative).path).size)

    def files(self, relative: str = "") -> list[ListedFile]:
        """Return all files below a folder, sorted by path; none if there is no such folder."""
        from pyarrow.fs import FileSelector, FileType

        root = self.child(relative) if relative else self
        selector = FileSelector(root.path, allow_not_found=True, recursive=True)
        found = self.file_system().get_file_info(selector)
        base = self.path.rstrip("/") + "/"
        listed = [
            ListedFile(info.path.removeprefix(base), int(info.size), float(info.mtime.timestamp() if info.mtime else 0))
            for info in found
            if info.type == FileType.File
        ]
        return sorted(listed, key=lambda one: one.path)


@dataclass(frozen=True)
class ListedFile:
    """A file that was found by listing a folder."""

    path: str
    size_bytes: int
    modified_s: float


@lru_cache(maxsize=8)
def _file_system(scheme: str, options: StorageOptions) -> Any:
    from pyarrow import fs

    if scheme == _LOCAL:
        return fs.LocalFileSystem()
    if scheme != _S3:
        raise ConfigurationError(f"{scheme}: is not a file system of tandem.lake; there are paths, file: and s3:")
    given: dict[str, Any] = {
        "access_key": options.access_key or None,
        "secret_key": options.secret_key or None,
        "session_token": options.session_token or None,
        "region": options.region or _DEFAULT_REGION,
    }
    if options.endpoint:
        endpoint = urlsplit(options.endpoint if "//" in options.endpoint else f"https://{options.endpoint}")
        given |= {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme}
    # Small files, manifests among them, are one request instead of three.
    return fs.S3FileSystem(**given, allow_delayed_open=True)
