"""A home for Spark on one machine, from which Python workers start faster.

Workers put `python/lib/pyspark.zip` of Spark's home before all else that they import, and what comes from an archive is
compiled anew in each process: more than half a second for each of the ten that a small query starts. This home has
everything of the installed Spark but that folder, so that workers import the installed package, which is compiled.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

__all__ = ["light_home"]

# What a Spark on one machine looks for in its home.
_NEEDED: Final = ("bin", "jars")


def light_home(installed: Path, cache: Path) -> Path | None:
    """A folder below `cache`, made if it is not there. None where there can be none."""
    if sys.platform == "win32" or not all((installed / name).is_dir() for name in _NEEDED):
        return None
    home = cache / re.sub(r"\W+", "-", str(installed)).strip("-")
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in _NEEDED:
            _link(home / name, installed / name)
    except OSError:
        # It would only have been faster.
        return None
    return home


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    # Whole at every moment: others may start a Spark at the same time.
    fresh = link.with_name(f"{link.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
