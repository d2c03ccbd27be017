"""Which form of the core runs: compiled by mypyc, or interpreted.

The build puts a shared object next to each module of `tandem.amqp` where it can (docs/adr/0003-mypyc-optional.md), and
Python prefers a shared object to the source beside it. With TANDEM_PURE=1 in the environment a finder in front of
Python's own sees the sources only, so both forms can be tested from one installation.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Final, Literal

PURE_VARIABLE: Final = "TANDEM_PURE"


def is_pure_requested(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for the interpreted form. Empty and "0" mean no, as if the variable were unset."""
    return environ.get(PURE_VARIABLE, "") not in {"", "0"}


class SourceOnlyFinder:
    """Finds the modules below `tandem` as Python sources, whatever else lies next to them.

    Not derived from `importlib.abc.MetaPathFinder`, whose import takes longer than most modules of Tandem.
    """

    def __init__(self) -> None:
        # A finder reads its directory once, and again when that has changed.
        self._finders: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith("tandem."):
            return None
        for directory in path:
            finder = self._finders.get(directory)
            if finder is None:
                finder = self._finders[directory] = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES))
            spec = finder.find_spec(fullname, target)
            # A directory without __init__.py gives a spec without a loader: that is not a module of ours.
            if spec is not None and spec.loader is not None:
                return spec
        return None


def install_source_only_finder() -> None:
    """Put the finder first in line, once."""
    if not any(isinstance(finder, SourceOnlyFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, SourceOnlyFinder())


def form() -> Literal["compiled", "interpreted"]:
    """The form in which this process runs the core, judged by what was really loaded."""
    # By name, because the package's own __init__ imports this module: a plain import would read like a cycle.
    origin = importlib.import_module("tandem.amqp.decode").__file__
    return "interpreted" if origin is not None and origin.endswith(".py") else "compiled"
