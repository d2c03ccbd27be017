"""Filters that a client asks for in the source of its attach, and those that are in force in the answer.

AMQP (part 3.5.8) lets a client see in the answer which of its filters are applied, so that the answer never repeats one
that is not. Clients of JMS do not look: a filter of theirs that cannot be applied refuses the attach.
"""

from __future__ import annotations

from typing import Final

from tandem import wire_names
from tandem.amqp import LinkAttached
from tandem.amqp.types import Described, Symbol
from tandem.errors import ArgumentError, OperationNotImplemented, Scope
from tandem.rules import SqlFilter, jms_filter

__all__ = ["LinkFilters"]

_NO_LOCAL: Final = (
    "No-local is not supported: the broker does not keep which connection sent a message. Set a property on each "
    "message that names its sender, and exclude it with a selector."
)


class LinkFilters:
    """The filters of one attach that the broker knows, each as the client wrote it."""

    def __init__(self, event: LinkAttached) -> None:
        source = event.attach.source
        asked = {} if source is None or source.filter is None else source.filter
        self._was_asked = source is not None and source.filter is not None
        self._in_force: dict[object, object] = {}
        self._session: object = None
        self.has_session = False
        # The text of the selector, of JMS or of a reader of events.
        self.selector: str | None = None
        for key, value in asked.items():
            self._read(str(key), value)

    def _read(self, key: str, value: object) -> None:
        """Take one filter. Some clients name its type in the key, and others only in the descriptor."""
        descriptor = value.descriptor if isinstance(value, Described) else None
        names = (key, descriptor if isinstance(descriptor, int) else str(descriptor))
        if wire_names.SESSION_FILTER in names:
            self.has_session = True
            self._session = value
        elif wire_names.SELECTOR_FILTER in names or wire_names.SELECTOR_FILTER_CODE in names:
            self.selector = _text(value)
            self._in_force[Symbol(key)] = value
        elif wire_names.NO_LOCAL_FILTER in names or wire_names.NO_LOCAL_FILTER_CODE in names:
            raise OperationNotImplemented(_NO_LOCAL, Scope.LINK)

    @property
    def session_id(self) -> str | None:
        """Return the session that is asked for; None for whichever is available."""
        wanted = self._session.value if isinstance(self._session, Described) else self._session
        if wanted is not None and not isinstance(wanted, str):
            raise ArgumentError(f"{wire_names.SESSION_FILTER} must be a string or null, got {wanted!r:.80}", Scope.LINK)
        return None if wanted is None else str(wanted)

    def condition(self) -> SqlFilter | None:
        """Return the selector of JMS as a filter; None without one."""
        if self.selector is None or not self.selector.strip():
            return None
        try:
            return jms_filter(self.selector)
        except ArgumentError as error:
            raise ArgumentError(f"The selector cannot be used: {error}", Scope.LINK) from None

    def in_force(self) -> dict[object, object] | None:
        """Return the filters to answer with: the selector as it was written, and nothing that is not applied."""
        return dict(self._in_force) if self._was_asked else None

    def in_force_with(self, session_id: str) -> dict[object, object]:
        """Return the filters to answer a receiver with that got this session, written as it was asked for."""
        value: object = session_id
        if isinstance(self._session, Described):
            value = Described(self._session.descriptor, session_id)
        return {**self._in_force, Symbol(wire_names.SESSION_FILTER): value}


def _text(value: object) -> str:
    text = value.value if isinstance(value, Described) else value
    if not isinstance(text, str):
        raise ArgumentError(f"{wire_names.SELECTOR_FILTER} must be a string, got {text!r:.80}", Scope.LINK)
    return str(text)
