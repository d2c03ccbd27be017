"""Which errors lead to a failover, by each rule and over every error that there is."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import socket
import ssl
import struct
import types
from collections.abc import Callable
from pathlib import Path

import aiohttp
import azure.servicebus.exceptions as sdk
import pytest
from azure.core.exceptions import AzureError, ClientAuthenticationError

from tandem.client import errors
from tandem.client.errors import (
    CertificateNotTrustedError,
    MessagingCommunicationError,
    MessagingEntityNotFoundError,
    MessagingError,
    OperationTimeoutError,
    QuotaExceededError,
    ServerBusyError,
    UnauthorizedAccessError,
    error_of_condition,
)
from tandem.errors import ConfigurationError, InternalError, StateError, UsageError
from tandem.pairing import FailoverRule, FailoverState, SendAvailabilityPairedNamespaceOptions
from tandem.pairing.azure import PairedServiceBusOptions
from tandem.pairing.azure import judging as azure_judging
from tandem.pairing.detour import Judgement, Outcome, Sleep
from tandem.pairing.judging import judge_primary
from tests.markers import mission
from tests.pairing.course import Pair, lost
from tests.pairing.hurry import PairUnderTest
from tools.generate_docs import failover_table

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, MessagingError)]
STARTS_FAILOVER = {Judgement.LOST, Judgement.TIMED_OUT, Judgement.UNAVAILABLE}
REFERENCE = Path(__file__).parents[2] / "docs/reference/pairing.md"


def starts_failover(error: Exception, rule: FailoverRule) -> bool:
    return judge_primary(error, rule) in STARTS_FAILOVER


@mission("M22")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_sentence_of_the_documents_holds_for_every_error(kind: type[MessagingError]) -> None:
    """ "Any MessagingException in which IsTransient is false, or a TimeoutException"; not UnauthorizedAccessException,
    nor other exceptions that say that the client is configured incorrectly; not ServerBusyException."""
    error = kind("why")
    is_of_the_client = kind in {UnauthorizedAccessError, CertificateNotTrustedError}
    expected = isinstance(error, OperationTimeoutError) or (not error.is_transient and not is_of_the_client)
    assert starts_failover(error, FailoverRule.DOCUMENTED) is expected


@mission("M22")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_by_default_every_error_that_says_the_entity_takes_nothing_now_leads_to_a_failover(
    kind: type[MessagingError],
) -> None:
    expected = issubclass(kind, MessagingCommunicationError | OperationTimeoutError | QuotaExceededError)
    assert starts_failover(kind("why"), FailoverRule.AVAILABILITY) is (expected or kind is MessagingError)


@pytest.mark.parametrize("rule", FailoverRule)
@pytest.mark.parametrize("error", [UsageError("why"), StateError("why"), ValueError("why")])
def test_a_mistake_of_the_caller_never_leads_to_a_failover(error: Exception, rule: FailoverRule) -> None:
    assert judge_primary(error, rule) is Judgement.REFUSED


@mission("M22")
@pytest.mark.parametrize("rule", FailoverRule)
def test_server_busy_never_leads_to_a_failover(rule: FailoverRule) -> None:
    assert judge_primary(ServerBusyError("why"), rule) is Judgement.BUSY


def test_an_error_inside_the_service_is_where_the_rules_differ() -> None:
    inside = error_of_condition(InternalError.condition, "why")
    assert starts_failover(inside, FailoverRule.AVAILABILITY)
    assert not starts_failover(inside, FailoverRule.DOCUMENTED)


@mission("M22")
def test_by_the_documents_rule_an_entity_that_does_not_exist_fails_over() -> None:
    pair = Pair(failover_interval_s=10.0, rule=FailoverRule.DOCUMENTED)
    pair.primary = lambda: MessagingEntityNotFoundError("no such queue")
    pair.send(pair.sender(), "diverted")
    assert [message for _, message in pair.diverted] == ["diverted"]


@mission("M22")
@pytest.mark.parametrize("error", [lost, lambda: error_of_condition(InternalError.condition, "inside")])
def test_by_the_documents_rule_a_transient_error_counts_when_the_send_has_timed_out(
    error: Callable[[], MessagingError],
) -> None:
    pair = Pair(failover_interval_s=10.0, rule=FailoverRule.DOCUMENTED)
    pair.primary = error
    sender = pair.sender()
    with pytest.raises(OperationTimeoutError, match="did not take the message in the time of the send"):
        pair.send(sender, "first")
    assert pair.diverted == []
    assert pair.entity().state is FailoverState.FAILING, "the timeout is what counts"
    watch = pair.watches[0].watch()
    assert next(watch) == Sleep(10.0)
    pair.now_s += 10.0
    watch.send(Outcome())
    pair.send(sender, "second")
    assert [message for _, message in pair.diverted] == ["second"]


def test_by_the_documents_rule_a_transient_error_is_tried_again() -> None:
    pair = Pair(failover_interval_s=0.0, rule=FailoverRule.DOCUMENTED)
    failures = [lost(), lost(), None]
    pair.primary = lambda: failures.pop(0)
    pair.send(pair.sender(), "patient")
    assert pair.taken == [("orders", "patient")]
    assert pair.events() == []


# --- the official SDK -----------------------------------------------------------------------------------------------


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


SDK_ERRORS: list[tuple[Exception, type[Exception]]] = [
    (sdk.ServiceBusServerBusyError(), ServerBusyError),
    (sdk.OperationTimeoutError(), OperationTimeoutError),
    (sdk.ServiceBusConnectionError(message="gone"), MessagingCommunicationError),
    (sdk.ServiceBusCommunicationError(), MessagingCommunicationError),
    (sdk.ServiceBusQuotaExceededError(), QuotaExceededError),
    (sdk.ServiceBusAuthenticationError(), UnauthorizedAccessError),
    (sdk.ServiceBusAuthorizationError(), UnauthorizedAccessError),
    (ClientAuthenticationError("no token"), UnauthorizedAccessError),
    (sdk.MessagingEntityNotFoundError(), MessagingEntityNotFoundError),
    (sdk.MessagingEntityDisabledError(), errors.MessagingEntityDisabledError),
    (sdk.MessageSizeExceededError(), errors.MessageSizeExceededError),
    (sdk.ServiceBusError("x amqp:not-allowed"), errors.InvalidOperationError),
    (sdk.ServiceBusError("x amqp:internal-error"), MessagingError),
    (sdk.ServiceBusError("x"), MessagingError),
    (ConnectionResetError(), MessagingCommunicationError),
    (ValueError("x"), UsageError),
    (
        caused(sdk.ServiceBusConnectionError(message="gone"), socket.gaierror(socket.EAI_NONAME, "no")),
        errors.HostNotFoundError,
    ),
    (
        caused(sdk.ServiceBusConnectionError(message="gone"), socket.gaierror(socket.EAI_AGAIN, "later")),
        MessagingCommunicationError,
    ),
]


@mission("M17", "M22")
@pytest.mark.parametrize("error, kind", SDK_ERRORS, ids=lambda given: getattr(given, "__name__", repr(given)))
@pytest.mark.parametrize("rule", FailoverRule)
def test_an_error_of_the_sdk_is_judged_as_the_same_error_of_the_client(
    error: Exception, kind: type[Exception], rule: FailoverRule
) -> None:
    same = azure_judging.translated(error)
    assert type(same) is kind
    assert azure_judging.judge_primary(error, rule) is judge_primary(same, rule)


@mission("M22")
@pytest.mark.parametrize("rule", FailoverRule)
def test_a_certificate_that_the_sdk_does_not_trust_never_leads_to_a_failover(rule: FailoverRule) -> None:
    # What the SDK raises, with the system's error as the cause of a cause.
    untrusted = ssl.SSLCertVerificationError(1, "certificate verify failed")
    untrusted.verify_message = "unable to get local issuer certificate"
    error = caused(sdk.ServiceBusConnectionError(message="gone"), caused(RuntimeError("in between"), untrusted))
    assert isinstance(azure_judging.translated(error), CertificateNotTrustedError)
    assert azure_judging.judge_primary(error, rule) is Judgement.REFUSED


def wrapped(inner: Exception) -> Exception:
    """As the SDK wraps what it did not expect during a send."""
    return sdk.ServiceBusError(message=f"Handler failed: {inner}.", error=inner)


def raised_in(module: str, inner: Exception) -> Exception:
    """Return the error after the code of a module has raised it."""

    def fail() -> None:
        raise inner

    function = types.FunctionType(fail.__code__, {"__name__": module}, closure=fail.__closure__)
    with contextlib.suppress(type(inner)):
        function()
    return inner


# Every kind of error that the SDK, or what it calls, raises by itself: about a message, an argument or a setting.
LOCAL_ERRORS: list[Callable[[], Exception]] = [
    lambda: ValueError("Value supplied for int invalid: 1125899906842624"),
    lambda: TypeError("Unable to encode unknown value"),
    lambda: OverflowError("int too large to convert"),
    lambda: ZeroDivisionError("division by zero"),
    lambda: struct.error("'i' format requires -2147483648 <= number <= 2147483647"),
    lambda: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    lambda: AttributeError("'int' object has no attribute 'items'"),
    lambda: KeyError("body"),
    lambda: IndexError("list index out of range"),
    lambda: RecursionError("maximum recursion depth exceeded"),
    lambda: RuntimeError("Event loop is closed"),
    lambda: NotImplementedError("Pending"),
    lambda: AssertionError("never"),
    MemoryError,
    lambda: BufferError("memoryview"),
    lambda: ImportError("Please install websocket-client library to use sync websocket transport."),
    lambda: sdk.MessageAlreadySettled(action="send"),
    lambda: ClientAuthenticationError("the credential got no token"),
    lambda: StateError("closed"),
]
ENCODING_MODULES = ["azure.servicebus._pyamqp._encode", "azure.servicebus._pyamqp.message", "somebody.credentials"]
# Modules that read what the service sent, or keep track of a connection, in both forms.
CONNECTION_MODULES = [
    f"azure.servicebus._pyamqp.{name}"
    for name in (
        "_connection",
        "_decode",
        "_transport",
        "cbs",
        "link",
        "management_link",
        "management_operation",
        "receiver",
        "sender",
        "session",
        "aio._connection_async",
        "aio._transport_async",
        "aio._cbs_async",
        "aio._link_async",
        "aio._sender_async",
        "aio._session_async",
    )
]


@mission("M22")
@pytest.mark.parametrize("rule", FailoverRule)
@pytest.mark.parametrize("make", LOCAL_ERRORS, ids=lambda make: type(make()).__name__)
def test_what_the_sdk_raises_by_itself_is_never_evidence_against_the_primary(
    make: Callable[[], Exception], rule: FailoverRule
) -> None:
    given = [make(), wrapped(make())] + [wrapped(raised_in(module, make())) for module in ENCODING_MODULES]
    for error in given:
        assert azure_judging.judge_primary(error, rule) is Judgement.REFUSED, repr(error)
        assert azure_judging.judge_backlog(error) is Judgement.REFUSED or isinstance(error, AzureError), repr(error)


@mission("M22")
@pytest.mark.parametrize("module", CONNECTION_MODULES)
def test_what_the_sdk_stumbles_over_in_a_connection_is_evidence_against_the_primary(module: str) -> None:
    importlib.import_module(module)
    for inner in (AttributeError("'NoneType' object has no attribute 'x'"), ValueError("bad frame"), struct.error("x")):
        error = wrapped(raised_in(module, inner))
        assert azure_judging.judge_primary(error) is Judgement.UNAVAILABLE


@mission("M22")
@pytest.mark.parametrize(
    "inner",
    [
        ConnectionResetError("reset"),
        TimeoutError("late"),
        EOFError("closed"),
        asyncio.IncompleteReadError(b"", 8),
        ssl.SSLError(1, "record"),
        aiohttp.ClientConnectionError("closed"),
    ],
    ids=lambda inner: type(inner).__name__,
)
def test_an_error_of_the_network_is_evidence_however_it_is_wrapped(inner: Exception) -> None:
    assert azure_judging.judge_primary(wrapped(inner)) in STARTS_FAILOVER


# --- the options, and the page --------------------------------------------------------------------------------------


async def test_the_rule_is_an_option_of_both_clients(pair: PairUnderTest) -> None:
    assert pair.options().failover_rule is FailoverRule.AVAILABILITY
    assert PairedServiceBusOptions().failover_rule is FailoverRule.AVAILABILITY
    chosen = SendAvailabilityPairedNamespaceOptions(pair.manager, pair.secondary, failover_rule=FailoverRule.DOCUMENTED)
    assert chosen.failover_rule is FailoverRule.DOCUMENTED
    assert PairedServiceBusOptions(failover_rule=FailoverRule.DOCUMENTED).failover_rule is FailoverRule.DOCUMENTED


@pytest.mark.parametrize("make", [PairedServiceBusOptions, None], ids=["sdk", "client"])
async def test_a_rule_that_does_not_exist_is_refused(pair: PairUnderTest, make: Callable[..., object] | None) -> None:
    with pytest.raises(ConfigurationError, match=r"failover_rule is 'always'.*'availability', 'documented'"):
        (make or pair.options)(failover_rule="always")


def test_the_page_has_the_table_that_the_code_makes() -> None:
    table = failover_table()
    assert table in REFERENCE.read_text()
    for kind in KINDS:
        assert f"| `{kind.__name__}`" in table
