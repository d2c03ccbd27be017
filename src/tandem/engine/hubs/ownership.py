"""Who may read a partition for a consumer group: one receiver with the highest epoch, or a few without any."""

from __future__ import annotations

from typing import Final

from tandem.engine.hubs.receiver import EventReceiver
from tandem.errors import LinkStolen, ResourceLimitExceeded, Scope
from tandem.limits import MAX_RECEIVERS_WITHOUT_EPOCH

__all__ = ["Ownership"]

_ADVICE: Final = (
    "Make sure you are creating receiver with increasing epoch value to ensure connectivity, or ensure all old epoch "
    "receivers are closed or disconnected."
)


class Ownership:
    """The receivers of one partition and one consumer group."""

    __slots__ = ("receivers",)

    def __init__(self) -> None:
        self.receivers: list[EventReceiver] = []

    def admit(self, receiver: EventReceiver) -> list[tuple[EventReceiver, LinkStolen]]:
        """Take in a receiver, or raise. Those that have to go for it are returned, each with what it is told."""
        owner = self._owner()
        displaced: list[tuple[EventReceiver, LinkStolen]] = []
        if receiver.epoch is None:
            if owner is not None:
                raise LinkStolen(
                    f"At least one receiver for the endpoint is created with epoch of '{owner.epoch}', and so "
                    "non-epoch receiver is not allowed. Either reconnect with a higher epoch, or make sure all epoch "
                    "receivers are closed or disconnected."
                )
            if len(self.receivers) >= MAX_RECEIVERS_WITHOUT_EPOCH:
                raise ResourceLimitExceeded(
                    "Exceeded the maximum number of allowed receivers per partition in a consumer group which is "
                    f"{MAX_RECEIVERS_WITHOUT_EPOCH}. List of connected receivers - "
                    f"{', '.join([_name(one) for one in self.receivers])}.",
                    Scope.LINK,
                )
        else:
            if owner is not None and owner.epoch is not None and owner.epoch > receiver.epoch:
                raise LinkStolen(
                    f"Receiver '{_name(owner)}' with a higher epoch '{owner.epoch}' already exists. Receiver "
                    f"'{_name(receiver)}' with epoch {receiver.epoch} cannot be created. {_ADVICE}"
                )
            displaced = [(one, _stolen(one, receiver)) for one in self.receivers]
            self.receivers = []
        self.receivers.append(receiver)
        return displaced

    def remove(self, receiver: EventReceiver) -> None:
        if receiver in self.receivers:
            self.receivers.remove(receiver)

    def _owner(self) -> EventReceiver | None:
        for receiver in self.receivers:
            if receiver.epoch is not None:
                return receiver
        return None


def _name(receiver: EventReceiver) -> str:
    return receiver.name or "nil"


def _stolen(old: EventReceiver, new: EventReceiver) -> LinkStolen:
    epoch = "" if old.epoch is None else str(old.epoch)
    return LinkStolen(
        f"New receiver '{_name(new)}' with higher epoch of '{new.epoch}' is created hence current receiver "
        f"'{_name(old)}' with epoch '{epoch}' is getting disconnected. If you are recreating the receiver, make sure a "
        "higher epoch is used."
    )
