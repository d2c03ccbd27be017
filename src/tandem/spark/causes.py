"""The sentence in an error of Spark that says what happened.

Spark wraps a cause several times: py4j adds `An error occurred while calling o73.start`, a stream adds its id, a Python
worker adds two tracebacks. People need the cause; it is the innermost error, in Python or in Java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["cause_of"]

# The last line of a traceback, of an error of Tandem's own or of any other: `package.module.Class: text`.
_OURS: Final = re.compile(r"^\s*(?:Caused by: )?tandem(?:\.\w+)+: (?P<text>.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^(?P<text>(?:\w+\.)*\w+(?:Error|Exception|Interrupt|Exit): .+)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last):"

# What py4j says first, and what Spark says of a query before its cause.
_CALLING: Final = re.compile(r"^An error occurred while calling \S+\s*:?\s*")

# A chain of causes in Java may be a circle.
_MAX_CAUSES: Final = 20


def cause_of(error: BaseException) -> str:
    """Return one line that says why Spark failed."""
    texts = [str(error), *(_message(java) for java in _java_causes(error))]
    ours = [found["text"] for text in texts for found in _OURS.finditer(text)]
    if ours:
        return ours[-1].strip()
    for text in reversed(texts):
        python = [found["text"] for found in _PYTHON.finditer(text)] if _TRACEBACK in text else []
        if python:
            return python[-1].strip()
    return _first_line(texts[-1]) or type(error).__name__


# Any: objects in Java, by py4j.
def _java_causes(error: BaseException) -> Iterator[Any]:
    """Yield an error of Java and its causes, the innermost last. None of Spark Connect, which sends texts only."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_MAX_CAUSES):
        if java is None:
            return
        yield java
        java = java.getCause()


def _message(java: Any) -> str:
    message = str(java.getMessage() or "")
    name = str(java.getClass().getSimpleName())
    # Spark's own begin with a condition, such as [PATH_NOT_FOUND]. Of others the class is half of what they say.
    return message if message.startswith("[") else f"{name}: {message}".removesuffix(": ")


def _first_line(text: str) -> str:
    lines = [line.strip() for line in _CALLING.sub("", text).splitlines()]
    return next((line.removeprefix(": ") for line in lines if line), "")
