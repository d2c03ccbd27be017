"""How a process of Spark is killed by what runs inside it: whatever else it was about to do is not done."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

__all__ = ["kill_java_above"]

# Seconds. What runs below a Java that was killed ends when it notices; it must not go on with its work until then.
_NOTICING_S: Final = 30.0


def kill_java_above() -> None:
    """Kill the Java that this Python was started by: the executor's within a task, the driver's within a commit."""
    process = os.getpid()
    while process > 1:
        # The name of a program may have spaces and brackets in it; what follows the last one has not.
        process = int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        if Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip() == "java":
            os.kill(process, signal.SIGKILL)
            time.sleep(_NOTICING_S)
            os._exit(1)
    raise RuntimeError("no Java has started this process")
