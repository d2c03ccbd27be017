"""What is written down when a broker is in trouble, for an operator: as JSON, and as a text to read.

The files lie in DATA_DIR/diagnoses, the newest 20 of them. They hold measurements, names of entities and the places in
the code where each thread is; neither messages nor keys.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

__all__ = ["FOLDER_NAME", "Diagnosis", "newest_diagnosis", "stacks", "write_diagnosis"]

FOLDER_NAME: Final = "diagnoses"

# Diagnoses that are kept. One has some tens of kilobytes.
_MAX_KEPT: Final = 20

# The JSON object of a diagnosis.
Diagnosis = dict[str, Any]


def write_diagnosis(data_dir: Path, diagnosis: Diagnosis) -> Path:
    """Write it in both forms and return the path of the text. The oldest go."""
    folder = data_dir / FOLDER_NAME
    folder.mkdir(parents=True, exist_ok=True)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    stem = f"{moment}-{diagnosis['reason']}"
    text_path = folder / f"{stem}.txt"
    text_path.write_text(diagnosis_text(diagnosis), encoding="utf-8")
    # Last, and in one step: whoever looks for the newest finds a whole one.
    unfinished = folder / f"{stem}.json.tmp"
    unfinished.write_text(json.dumps({**diagnosis, "text_path": str(text_path)}, indent=1), encoding="utf-8")
    unfinished.rename(folder / f"{stem}.json")
    for path in sorted(folder.glob("*.json"))[:-_MAX_KEPT]:
        path.unlink(missing_ok=True)
        path.with_suffix(".txt").unlink(missing_ok=True)
    return text_path


def newest_diagnosis(data_dir: Path) -> Diagnosis | None:
    """Return the last one that was written; None if there is none that can be read."""
    for path in sorted((data_dir / FOLDER_NAME).glob("*.json"), reverse=True):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            return found
    return None


def stacks() -> list[Diagnosis]:
    """Return where each thread of this process is in the code."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        {
            "thread": names.get(identifier, str(identifier)),
            "stack": [f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_stack(frame)],
        }
        for identifier, frame in sys._current_frames().items()
    ]


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return the same for people."""
    loop = diagnosis["event_loop"]
    lines = [
        f"Tandem diagnosis of {diagnosis['time']}",
        f"reason: {diagnosis['reason']}",
        f"{diagnosis['summary']}",
        f"restarted: {diagnosis['level']}",
        "",
        "Facets",
        *[f"  {facet['sentence']}" for facet in diagnosis["facets"]],
        "",
        f"Event loop: last ran {loop['last_beat_ms']:,} ms ago; {loop['connection_count']:,} AMQP connections",
    ]
    for namespace in diagnosis["namespaces"]:
        lines += ["", f"Namespace {namespace['name']}", *_namespace_lines(namespace)]
    lines += [
        "",
        "Restarts",
        *[f"  {one['time']} {one['level']} {one['subject']}: {one['reason']}" for one in diagnosis["restarts"]],
    ]
    lines += ["", "Threads"]
    for thread in diagnosis["threads"]:
        lines += [f"  {thread['thread']}", *[f"    {place}" for place in thread["stack"]]]
    lines += [
        "",
        "Values of the last minutes",
        "  time, event loop lag ms, commit time ms, memory MB, disk headroom MB",
    ]
    lines += [
        f"  {one['time']}, {one['event-loop-lag']:,.0f}, {one['commit-time']:,.0f}, {one['memory']:,.0f}, "
        f"{one['disk-headroom']:,.0f}"
        for one in diagnosis["history"]
    ]
    return "\n".join(lines) + "\n"


def _namespace_lines(namespace: Diagnosis) -> list[str]:
    in_progress_ms = namespace["commit_in_progress_ms"]
    commit = "none" if in_progress_ms is None else f"for {in_progress_ms:,} ms"
    loads = ", ".join(f"{one['entity']} {one['rate']:,.1f}" for one in namespace["loads"]) or "none"
    return [
        f"  commit in progress: {commit}; {namespace['commit_count']:,} commits since it was opened",
        f"  load by entity, messages a second: {loads}",
        f"  refused with ServerBusy: {namespace['refused_count']:,}; at present: {namespace['refused']}",
        *[f"  error: {error}" for error in namespace["errors"]],
        *[f"  damaged: {one['unit']}: {one['what']}" for one in namespace["damages"]],
    ]
