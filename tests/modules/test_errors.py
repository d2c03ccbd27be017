"""The tree of errors: as drawn down to those with a wire form, each with its advice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tandem import errors
from tandem.errors import (
    DecodeError,
    InvalidField,
    NotFound,
    ProtocolError,
    RemoteError,
    Scope,
    TandemError,
    WindowViolation,
)
from tests.markers import spec

DRAWN_LINE = re.compile(r"^    (?P<indent>[│ ]*)(?:[├└]── )?(?P<name>\w+)(?: +(?P<text>\S.*))?$")


def descendants(kind: type[TandemError]) -> Iterator[type[TandemError]]:
    """Those of the module: applications may make subclasses of their own."""
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from descendants(child)


def drawn() -> dict[str, tuple[str | None, str]]:
    """Each class of the drawing, with the class above it and the text behind it."""
    assert errors.__doc__ is not None
    found: dict[str, tuple[str | None, str]] = {}
    above: list[str] = []
    for line in errors.__doc__.splitlines():
        match = DRAWN_LINE.match(line)
        if match is not None:
            # Each level is drawn four characters further in; the root has no branch in front of it.
            level = len(match["indent"]) // 4 + (1 if "── " in line else 0)
            del above[level:]
            found[match["name"]] = (above[-1] if above else None, match["text"] or "")
            above.append(match["name"])
    return found


PROTOCOL_ERRORS = [kind for kind in descendants(TandemError) if issubclass(kind, ProtocolError)]
every_protocol_error = pytest.mark.parametrize("kind", PROTOCOL_ERRORS, ids=lambda kind: kind.__name__)


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    above_the_wire = [kind for kind in descendants(TandemError) if ProtocolError not in kind.__mro__[1:]]
    classes = {kind.__name__: kind.__bases__[0].__name__ for kind in above_the_wire}
    assert {name: parent for name, (parent, _) in drawn().items()} == {"TandemError": None, **classes}


def test_an_error_has_the_wire_form_of_its_first_line_and_leaves_the_rest_to_its_base() -> None:
    class Gone(NotFound, condition="amqp:resource-deleted", http_status=410): ...

    assert (Gone.condition, Gone.http_status, Gone.scope, Gone.is_transient) == (
        *("amqp:resource-deleted", 410),
        *(NotFound.scope, NotFound.is_transient),
    )
    assert (NotFound.condition, NotFound.http_status) == ("amqp:not-found", 404)


def test_every_error_can_be_imported_by_name() -> None:
    names = {kind.__name__ for kind in descendants(TandemError)}
    assert {"Scope", "TandemError", *names} == set(errors.__all__)


@spec("amqp:2.8.15", "amqp:2.8.16", "amqp:2.8.17", "amqp:2.8.18", "amqp:4.5.8")
@every_protocol_error
def test_each_protocol_error_has_a_condition_of_the_specification_or_of_the_service(kind: type[ProtocolError]) -> None:
    kinds = {
        "connection": {"forced", "framing-error", "redirect"},
        "session": {"window-violation", "errant-link", "handle-in-use", "unattached-handle"},
        "link": {"detach-forced", "transfer-limit-exceeded", "message-size-exceeded", "redirect", "stolen"},
        "transaction": {"unknown-id", "rollback", "timeout"},
    }
    general = (
        "internal-error not-found unauthorized-access decode-error resource-limit-exceeded not-allowed invalid-field "
        "not-implemented resource-locked precondition-failed resource-deleted illegal-state frame-size-too-small"
    )
    conditions = {f"amqp:{name}" for name in general.split()}
    conditions |= {f"amqp:{kind}:{name}" for kind, names in kinds.items() for name in names}
    # Those of the service, which its SDKs tell apart.
    service = (
        "auth-failed server-busy timeout message-lock-lost session-lock-lost session-cannot-be-locked "
        "message-not-found session-not-found entity-disabled entity-already-exists argument-error "
        "argument-out-of-range out-of-order-sequence producer-epoch-stolen"
    )
    conditions |= {f"com.microsoft:{name}" for name in service.split()}
    # Of the API that only Tandem has.
    conditions.add("tandem:hub-recreated")
    assert kind.condition in conditions


@every_protocol_error
def test_each_protocol_error_says_what_ends_and_what_http_would_answer(kind: type[ProtocolError]) -> None:
    assert isinstance(kind.scope, Scope)
    assert 400 <= kind.http_status <= 599
    assert isinstance(kind.is_transient, bool)


@every_protocol_error
def test_the_scope_of_a_condition_is_what_its_name_says(kind: type[ProtocolError]) -> None:
    parts = kind.condition.split(":")
    if len(parts) == 3:
        named = {"connection": Scope.CONNECTION, "session": Scope.SESSION, "link": Scope.LINK}
        assert kind.scope is named.get(parts[1], Scope.DELIVERY)


@pytest.mark.parametrize("kind", [TandemError, *descendants(TandemError)], ids=lambda kind: kind.__name__)
def test_each_error_explains_itself_in_a_sentence(kind: type[TandemError]) -> None:
    assert "__doc__" in vars(kind)
    assert kind.__doc__ is not None
    assert re.match(r"[A-Z].*\.$", kind.__doc__.strip(), re.DOTALL)


def test_the_description_is_the_message() -> None:
    error = InvalidField("open.max-frame-size is 511")
    assert error.description == str(error) == "open.max-frame-size is 511"


def test_the_scope_of_one_error_may_be_smaller_than_that_of_its_class() -> None:
    error = DecodeError("a bad transfer", Scope.LINK)
    assert error.scope is Scope.LINK
    assert DecodeError.scope is Scope.CONNECTION
    assert DecodeError("a bad frame").scope is Scope.CONNECTION
    assert WindowViolation("too many").scope is Scope.SESSION


def test_a_remote_error_keeps_what_the_peer_said() -> None:
    error = RemoteError("amqp:not-found", "no such queue")
    assert (error.condition, error.description) == ("amqp:not-found", "no such queue")
    assert str(error) == "amqp:not-found: no such queue"
