"""pyarrow, for the parts that need it: sealed segments of event hubs, and reads of events in columns.

It takes a tenth of a second and 40 MB, so a module that loads it is imported where it is needed and not before. A
broker without event hubs never loads it, and runs where it is missing or broken.
"""

from __future__ import annotations

from typing import Any

from tandem.errors import ArrowUnavailable

__all__ = ["load_arrow"]


def load_arrow() -> Any:
    """Return pyarrow. Raises ArrowUnavailable, whatever its import fails with; the next call tries again."""
    try:
        import pyarrow
    except Exception as error:
        raise ArrowUnavailable(
            f"Event hubs need pyarrow, which cannot be imported ({type(error).__name__}: {error!s:.200}): run "
            "`pip install pyarrow` for the Python that runs Tandem."
        ) from error
    return pyarrow
