"""What every test run shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tandem._form import is_pure_requested
from tests.drawing import examples
from tests.sdk_leaks import ignore_leaks_of_the_sdk
from tools.compile_core import is_current, shared_objects

ROOT = Path(__file__).resolve().parent.parent

# No deadline per example: it measures the machine, not the code. pytest-timeout bounds the whole test.
settings.register_profile("tandem", deadline=None, print_blob=True, max_examples=examples(100))
settings.load_profile("tandem")


def pytest_sessionstart() -> None:
    # Not in pytest_configure, where pytest itself has yet to watch over such reports.
    ignore_leaks_of_the_sdk()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test a compiled form that is not made of the sources beside it: its results would mislead."""
    if not is_pure_requested() and shared_objects(ROOT) and not is_current(ROOT):
        raise pytest.UsageError(
            "the compiled form of tandem.amqp is older than its sources: run `make setup` to compile again, "
            "or set TANDEM_PURE=1 to test the sources"
        )


def pytest_report_header(config: pytest.Config) -> str:
    # Judged by the files, not by importing them: a broken module should fail its tests, not every run.
    is_compiled = shared_objects(ROOT) and not is_pure_requested()
    return f"tandem.amqp: {'compiled' if is_compiled else 'interpreted'}"
