"""The page that maps .NET names to Python names: every Python name on it exists, and takes the parameters listed."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import tandem
import tandem.client
import tandem.client.sync
from tests.documentation import DOCS
from tests.markers import mission

PAGE: Final = DOCS / "reference/dotnet-names.md"
WALK: Final = (DOCS / "start/service-bus-examples.md", DOCS / "start/availability-examples.md")
OF_PYTHON: Final = {"asyncio", "datetime", "tandem", "time"}
CODE: Final = re.compile(r"`([^`]+)`")
CALL: Final = re.compile(r"([\w.]+)(?:\(([\w, ]*)\))?")
# Names of types, methods and properties. Other words, such as those of the documents' own variables, are in lower case.
NET_NAME: Final = re.compile(r"\b(?:[A-Z][a-z]+){2,}\b|(?<=\.)[A-Z][a-z]+\b")


# Every .NET name in the source documents: types, members and parameters, as they are spelled there.
OF_THE_DOCUMENTS: Final = """
    Abandon AutoDeleteOnIdle BacklogQueueCount BrokeredMessage Complete Console ContentType Create CreateQueue
    CreateQueueClient CreateServiceUri CreateSharedAccessSignatureTokenProvider CreateSubscription
    CreateSubscriptionClient CreateTopic CreateTopicClient DefaultMessageTimeToLive Empty EnableBatchedOperations
    EnableDeadLetteringOnMessageExpiration EnableSyphon FailoverInterval Format FromSeconds GetBody IsTransient Label
    LockDuration Manage MaxDeliveryCount MaxSizeInMegabytes MaxValue MessageId MessageReceiver MessageSender Messaging
    MessagingException MessagingFactory Microsoft NamespaceManager PairNamespaceAsync PairedNamespaceOptions Path
    PeekLock PingPrimaryInterval Properties QueueClient QueueDescription Receive ReceiveAndDelete ReceiveMode
    ScheduledEnqueueTimeUtc Send SendAvailabilityPairedNamespaceOptions SequenceNumber ServerBusyException ServiceBus
    ServiceBusEnvironment SessionId Sleep SqlFilter SqlRuleAction SubscriptionClient SubscriptionDescription Task Thread
    TimeSpan TimeToLive TimeoutException ToString TokenProvider TopicClient TopicDescription
    UnauthorizedAccessException Wait WriteLine Zero backlogQueueCount enableSyphon failoverInterval messagingFactory
    secondaryNamespaceManager
"""


def rows(path: Path) -> Iterator[tuple[str, str]]:
    """The first two columns of every table."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| .NET"):
            cells = line.strip("| ").split(" | ")
            yield cells[0], cells[1]


PYTHON_NAMES: Final = sorted({code for _, python in rows(PAGE) for code in CODE.findall(python)})


def has_member(owner: object, name: str) -> bool:
    """Whether objects of a class have an attribute, from the class itself or from its constructor."""
    if hasattr(owner, name):
        return True
    if dataclasses.is_dataclass(owner) and name in {field.name for field in dataclasses.fields(owner)}:
        return True
    return inspect.isclass(owner) and name in inspect.signature(owner).parameters


def parameters_of(called: object) -> set[str]:
    """The names of the parameters of a function or class. A compiled class has no signature; its source has one."""
    if not (inspect.isclass(called) and called.__module__.startswith("tandem.rules")):
        assert callable(called)
        return set(inspect.signature(called).parameters)
    source = Path(tandem.__file__).parent.joinpath(*called.__module__.split(".")[1:]).with_suffix(".py")
    (defined,) = [
        node
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name == called.__name__
    ]
    (make,) = [node for node in defined.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return {argument.arg for argument in make.args.args}


def check(root: ModuleType, dotted: str, parameters: list[str]) -> None:
    found: object = root
    *owners, last = dotted.split(".")
    for owner in owners:
        found = getattr(found, owner)
    assert has_member(found, last), f"there is no {dotted}"
    if parameters:
        taken = parameters_of(getattr(found, last))
        assert set(parameters) <= taken, f"{dotted} takes {sorted(taken)}"


@mission("M4", "M5", "M20")
@pytest.mark.parametrize("code", PYTHON_NAMES)
def test_a_python_name_of_the_page_exists_in_both_forms_of_the_client(code: str) -> None:
    call = CALL.fullmatch(code)
    assert call is not None, f"{code!r} is neither a name nor a call"
    dotted, parameters = call[1], [one for one in (call[2] or "").split(", ") if one]
    first, _, rest = dotted.partition(".")
    if first in OF_PYTHON:
        check(importlib.import_module(first), rest, parameters)
    elif hasattr(builtins, first):
        check(builtins, dotted, parameters)
    else:
        for module in (tandem.client, tandem.client.sync):
            check(module, dotted, parameters)


def test_the_page_names_everything_that_the_documents_use() -> None:
    named = {word for net, _ in rows(PAGE) for word in re.findall(r"\w+", net)}
    assert set(OF_THE_DOCUMENTS.split()) - named == set()


def test_the_page_names_everything_that_the_walk_through_the_documents_uses() -> None:
    named = {word for net, _ in rows(PAGE) for word in re.findall(r"\w+", net)}
    for path in WALK:
        used = {name for net, _ in rows(path) for name in NET_NAME.findall(net)}
        assert used
        assert used - named == set(), path.name
