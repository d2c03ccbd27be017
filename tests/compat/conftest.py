"""One broker for all compat tests, as users run it: a `tandem serve` of its own. Tests keep apart by their queues.

The official SDK takes a second to open and close a sender or a receiver, most of it asleep. So the tests of a module
with `pytestmark = AT_ONCE` run several at a time, each in a thread of its own; pytest then asks for the outcome of one
after the other. Such a test takes a `Bus` or a `ClockedBus` and parameters, and no other fixture.

A test about time takes `clocked_bus`: a broker of its own inside this process (20 ms), whose clock the test moves.

The clients of both use the fixture `transport`: plain TCP, unless the test is parametrized by it. In the long form each
test that shows a feature of the Python SDK runs over every transport: see `pytest_generate_tests`.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tandem.auth.keys import KeyRing
from tandem.testing import Broker
from tests.compat.programs import IS_LONG
from tests.compat.sdk import RULES, Bus, ClockedBus
from tools.sdk_features import TRANSPORTS, python_tests

# More than there are cores: they wait for the SDK, which waits.
TESTS_AT_ONCE: Final = 24
# The reserve of each broker in this process takes 64 MiB of memory.
CLOCKED_AT_ONCE: Final = 8

PLAIN: Final = TRANSPORTS[0]


def arguments_of(test: Callable[..., object]) -> Collection[str]:
    return inspect.signature(test).parameters


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that shows a feature over every transport in the long form, unless it names its transports."""
    test = f"{metafunc.definition.path.name}::{metafunc.function.__name__}"
    if IS_LONG and test in python_tests() and "transport" not in arguments_of(metafunc.function):
        # A test that makes clients without a bus is refused here: it would show its feature over plain TCP only.
        metafunc.parametrize("transport", TRANSPORTS, indirect=True)


class AtOnce:
    """Tests under way, and what became of them."""

    def __init__(self, items: list[pytest.Function], broker: Broker) -> None:
        self._pool = ThreadPoolExecutor(TESTS_AT_ONCE)
        self._clocked = threading.BoundedSemaphore(CLOCKED_AT_ONCE)
        self._outcomes = {item.nodeid: self._pool.submit(self._run, item, broker) for item in items}

    def _run(self, item: pytest.Function, broker: Broker) -> None:
        given: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
        transport = given.get("transport", PLAIN)
        # The transport may be for the bus only.
        parameters = {name: given[name] for name in given if name in arguments_of(item.obj)}
        if "clocked_bus" in item.fixturenames:
            with self._clocked, ClockedBus(transport) as clocked_bus:
                item.obj(clocked_bus=clocked_bus, **parameters)
        elif "bus" in item.fixturenames:
            with Bus(broker, transport) as bus:
                item.obj(bus=bus, **parameters)
        else:
            item.obj(**parameters)

    def finish(self, item: pytest.Function) -> None:
        """Wait for the test, and raise what it raised."""
        self._outcomes[item.nodeid].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("broker")
    (folder / "keys.json").write_text(json.dumps(KeyRing(list(RULES)).to_dict()), encoding="utf-8")
    with Broker(folder, arguments=()) as broker:
        yield broker


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    return getattr(request, "param", PLAIN)


@pytest.fixture
def bus(broker: Broker, transport: str) -> Iterator[Bus]:
    with Bus(broker, transport) as bus:
        yield bus


@pytest.fixture
def clocked_bus(request: pytest.FixtureRequest, transport: str) -> Iterator[ClockedBus | None]:
    if "at_once" in request.fixturenames:
        # The test runs in a thread of its own, which has made one.
        yield None
        return
    with ClockedBus(transport) as clocked_bus:
        yield clocked_bus


@pytest.fixture(scope="module")
def at_once(request: pytest.FixtureRequest, broker: Broker) -> Iterator[AtOnce]:
    items = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and "at_once" in item.fixturenames
    ]
    at_once = AtOnce(items, broker)
    yield at_once
    at_once.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    at_once = pyfuncitem.funcargs.get("at_once")
    if not isinstance(at_once, AtOnce):
        return None
    at_once.finish(pyfuncitem)
    return True
