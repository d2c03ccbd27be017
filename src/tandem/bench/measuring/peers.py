"""Brokers and libraries of others to be measured beside. What drives them is in `bench/peers` of a clone, and is not
installed: `tandem bench` finds it when it runs from a clone."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import tandem
from tandem.errors import TandemError

__all__ = ["FROM_A_CLONE", "BenchmarkFailed", "checkout", "has_peers", "peer_module", "peer_program"]

# Ends a sentence that says what cannot be compared.
FROM_A_CLONE: Final = "run it from a clone of the repository, after `make setup`"


class BenchmarkFailed(TandemError):
    """A program that takes part in a benchmark failed. The message says which, and what it said."""


def checkout() -> Path:
    """Return the clone that this package lies in, if it lies in one."""
    return Path(tandem.__file__).resolve().parents[2]


def has_peers() -> bool:
    return (checkout() / "bench" / "peers").is_dir()


def peer_program(name: str) -> Path:
    """Return the program that drives one of the others."""
    if not has_peers():
        raise BenchmarkFailed(f"bench/peers/{name}.py is not installed with Tandem: {FROM_A_CLONE}")
    return checkout() / "bench" / "peers" / f"{name}.py"


def peer_module(name: str) -> ModuleType:
    """Import what drives one of the others."""
    root = str(peer_program(name).parents[2])
    if root not in sys.path:
        sys.path.append(root)
    return importlib.import_module(f"bench.peers.{name}")
