"""pyarrow, for the parts that need it: sealed segments of event hubs, and reads of events in columns.

It takes a tenth of a second and 40 MB, so a module that loads it is imported where it is needed and not before. A
broker loads it with the first sealed segment that it reads, and runs where pyarrow is missing or broken.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

from tandem.errors import ArrowUnavailable

__all__ = ["load_arrow", "require_arrow"]


def load_arrow() -> Any:
    """Return pyarrow. Raises ArrowUnavailable, whatever its import fails with; the next call tries again."""
    try:
        import pyarrow
    except Exception as error:
        raise _unavailable(f"{type(error).__name__}: {error}") from error
    return pyarrow


def require_arrow() -> None:
    """Raise ArrowUnavailable where pyarrow cannot be loaded.

    A child process tries it: this process may never need pyarrow, and a broken one may end the process that loads it.
    """
    if "pyarrow" not in sys.modules:
        _try_in_child()


# Raises are not remembered: somebody may install pyarrow meanwhile.
@cache
def _try_in_child() -> None:
    command = [sys.executable, "-c", "import pyarrow"]
    child = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603
    if child.returncode != 0:
        lines = child.stderr.splitlines()
        raise _unavailable(lines[-1] if lines else f"it ended Python with exit status {child.returncode}")


def _unavailable(reason: str) -> ArrowUnavailable:
    return ArrowUnavailable(
        f"Event hubs need pyarrow, which cannot be imported ({reason:.200}): run "
        "`pip install pyarrow` for the Python that runs Tandem."
    )
