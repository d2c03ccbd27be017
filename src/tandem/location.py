"""A file or a folder, by a path or by a URI: `out`, `file:///data/out`, `hdfs://namenode:8020/out`, `s3://bucket/out`.

`pathlib` would shorten `hdfs://namenode` to `hdfs:/namenode`, so whatever may be a URI is a Location. It is passed to
Spark as text. What the program itself reads and writes there goes through one of these:

    a path, file:     the file system of this machine
    any other URI     Hadoop's file systems, if a Spark session runs in this process and knows the scheme
                      those of Arrow otherwise: s3, gs, abfs, and hdfs where libhdfs is installed
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

from tandem.errors import ConfigurationError

__all__ = ["Location", "LocationError", "LocationLike"]

# Two letters at least: `C:\data` is a path.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


# What functions take for a location.
LocationLike: TypeAlias = "str | Path | Location"


class LocationError(ConfigurationError):
    """A file or folder that cannot be read or written. The message has its location and the reason."""


class _Files(Protocol):
    """What a Location needs of a file system."""

    def exists(self) -> bool: ...

    def names(self) -> list[str]: ...

    def read_bytes(self) -> bytes: ...

    def write_bytes(self, content: bytes) -> None: ...


class Location:
    """A file or a folder. Methods are named as those of `pathlib.Path`, and so is `/`."""

    __slots__ = ("_text",)

    def __init__(self, place: LocationLike) -> None:
        self._text = str(place)
        if not self._text.strip():
            raise LocationError("a location is empty: give a path or a URI")

    @property
    def scheme(self) -> str | None:
        """The scheme of a URI in lower case; None for a path."""
        found = _SCHEME.match(self._text)
        return None if found is None else found[1].lower()

    @property
    def is_local(self) -> bool:
        """Whether it is on the file system of this machine."""
        return self.scheme in {None, "file"}

    @property
    def local_path(self) -> Path:
        """The path on this machine. LocationError for a URI that leads elsewhere."""
        if self.scheme is None:
            return Path(self._text)
        parts = urlsplit(self._text)
        if not self.is_local or parts.netloc not in {"", "localhost"}:
            raise LocationError(f"{self} is not on this machine: give a path, or a URI such as file:///data/out")
        return Path(unquote(parts.path))

    @property
    def name(self) -> str:
        """The last part."""
        return self._text.rstrip("/").rpartition("/")[2]

    def __truediv__(self, name: str) -> Location:
        return Location(Path(self._text) / name if self.scheme is None else f"{self._text.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Location({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def exists(self) -> bool:
        with self._translated("looked up"):
            return self._files().exists()

    def names(self) -> list[str]:
        """Return the names in a folder, in order. A folder that does not exist has none."""
        with self._translated("listed"):
            return sorted(self._files().names())

    def read_bytes(self) -> bytes:
        with self._translated("read"):
            return self._files().read_bytes()

    def read_text(self) -> str:
        try:
            return self.read_bytes().decode()
        except UnicodeDecodeError:
            raise LocationError(f"{self} cannot be read: it is not UTF-8 text") from None

    def write_bytes(self, content: bytes) -> None:
        """Write a file, and make the folders that it lies in."""
        with self._translated("written"):
            self._files().write_bytes(content)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def _files(self) -> _Files:
        if self.is_local:
            return _LocalFiles(self.local_path)
        jvm = _spark_jvm()
        if jvm is not None and _hadoop_knows(jvm, self._text):
            return _HadoopFiles(jvm, self._text)
        return _ArrowFiles(self._text)

    @contextmanager
    def _translated(self, done: str) -> Iterator[None]:
        try:
            yield
        except LocationError:
            raise
        except OSError as error:
            raise LocationError(f"{self} cannot be {done}: {error.strerror or error}") from error
        except Exception as error:
            # Of Arrow or of Java, each with a hierarchy of its own.
            raise LocationError(f"{self} cannot be {done}: {_java_reason(error) or error}") from error


class _LocalFiles:
    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        return self._path.exists()

    def names(self) -> list[str]:
        return [path.name for path in self._path.iterdir()] if self._path.is_dir() else []

    def read_bytes(self) -> bytes:
        return self._path.read_bytes()

    def write_bytes(self, content: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(content)


# Any: objects in Java, by py4j.
class _HadoopFiles:
    """Through the Java of the Spark session, with its settings and whatever file systems it was given."""

    def __init__(self, jvm: Any, text: str) -> None:
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path(text)
        self._system = self._path.getFileSystem(_hadoop_settings(jvm))

    def exists(self) -> bool:
        return bool(self._system.exists(self._path))

    def names(self) -> list[str]:
        if not self.exists():
            return []
        return [str(found.getPath().getName()) for found in self._system.listStatus(self._path)]

    def read_bytes(self) -> bytes:
        stream = self._system.open(self._path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write_bytes(self, content: bytes) -> None:
        # Hadoop makes the folders.
        stream = self._system.create(self._path, True)
        try:
            stream.write(content)
        finally:
            stream.close()


class _ArrowFiles:
    """Any: pyarrow is loaded only here, and its types with it."""

    def __init__(self, text: str) -> None:
        from pyarrow import fs

        self._types = fs.FileType
        self._selector = fs.FileSelector
        self._system: Any
        self._system, self._path = fs.FileSystem.from_uri(text)

    def exists(self) -> bool:
        return bool(self._system.get_file_info(self._path).type != self._types.NotFound)

    def names(self) -> list[str]:
        found = self._system.get_file_info(self._selector(self._path, allow_not_found=True))
        return [str(one.base_name) for one in found]

    def read_bytes(self) -> bytes:
        with self._system.open_input_stream(self._path) as stream:
            return bytes(stream.readall())

    def write_bytes(self, content: bytes) -> None:
        self._system.create_dir(self._path.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(self._path) as stream:
            stream.write(content)


# --- the Java of Spark ------------------------------------------------------------------------------------------------


def _spark_jvm() -> Any:
    """Return the Java of the Spark session of this process; None without one, or if it is behind Spark Connect."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return None if context is None else context._jvm


def _hadoop_settings(jvm: Any) -> Any:
    return jvm.org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()


def _hadoop_knows(jvm: Any, text: str) -> bool:
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(text.partition(":")[0], _hadoop_settings(jvm))
    except Exception as error:
        # py4j has one class for all errors of Java.
        if "UnsupportedFileSystemException" in str(error):
            return False
        raise
    return True


def _java_reason(error: Exception) -> str | None:
    """Return what an error of Java says; None for any other error."""
    java = getattr(error, "java_exception", None)
    return None if java is None else str(java.getMessage() or java.getClass().getSimpleName())
