"""Programs of `examples/`, loaded as modules: a test runs their parts with what it has."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["EXAMPLES", "load_example"]

EXAMPLES: Final = Path(__file__).resolve().parents[1] / "examples"


def load_example(name: str) -> ModuleType:
    """Return a new module of the program, whatever was changed in an earlier one."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where dataclasses look up the types of their fields.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
