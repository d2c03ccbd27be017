"""What an endpoint announces and tolerates. One object may serve any number of connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tandem import limits
from tandem.errors import UsageError

__all__ = ["ANONYMOUS", "EXTERNAL", "MSSBCBS", "PLAIN", "Settings"]

ANONYMOUS: Final = "ANONYMOUS"
PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
# "Claims will follow": the service's own name for ANONYMOUS plus a token put to $cbs.
MSSBCBS: Final = "MSSBCBS"

# In the order in which the service offers them.
SERVER_MECHANISMS: Final = (MSSBCBS, PLAIN, ANONYMOUS, EXTERNAL)


class Settings:
    """Our half of every negotiation, and the bounds on what the peer may make us hold."""

    __slots__ = (
        "channel_max",
        "container_id",
        "handle_max",
        "hostname",
        "idle_timeout_ms",
        "incoming_window",
        "is_sasl_required",
        "max_credit_overrun",
        "max_frame_size",
        "max_incomplete",
        "max_message_size",
        "max_undecided_bytes",
        "max_unsettled",
        "outgoing_window",
        "password",
        "properties",
        "properties_for_host",
        "sasl_mechanisms",
        "user",
    )

    def __init__(
        self,
        container_id: str,
        *,
        hostname: str | None = None,
        max_frame_size: int = limits.MAX_FRAME_SIZE_BYTES,
        channel_max: int = limits.MAX_CHANNEL,
        handle_max: int = limits.MAX_HANDLE,
        idle_timeout_ms: int = limits.IDLE_TIMEOUT_MS,
        incoming_window: int = limits.INCOMING_WINDOW_TRANSFERS,
        outgoing_window: int = limits.OUTGOING_WINDOW_TRANSFERS,
        max_message_size: int = limits.MAX_MESSAGE_SIZE_BYTES,
        max_incomplete: int = limits.MAX_INCOMPLETE_BYTES,
        max_unsettled: int = limits.MAX_UNSETTLED_DELIVERIES,
        max_undecided_bytes: int = limits.MAX_UNDECIDED_BYTES,
        max_credit_overrun: int = limits.MAX_CREDIT_OVERRUN_DELIVERIES,
        properties: dict[object, object] | None = None,
        properties_for_host: Callable[[str | None], dict[object, object]] | None = None,
        sasl_mechanisms: tuple[str, ...] = SERVER_MECHANISMS,
        is_sasl_required: bool = False,
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        """`sasl_mechanisms`, `is_sasl_required` and `properties_for_host` are a server's; `hostname`, `user` and
        `password` are a client's.

        A client with a user sends PLAIN, one without sends ANONYMOUS. An idle time-out of 0 announces none. A server
        that hosts several namespaces answers an open with `properties_for_host` of the host that the client asks for.
        """
        if max_frame_size < limits.MIN_MAX_FRAME_SIZE_BYTES:
            raise UsageError(f"max_frame_size {max_frame_size} is below {limits.MIN_MAX_FRAME_SIZE_BYTES}")
        if (user is None) != (password is None):
            raise UsageError("user and password come together")
        _check_plain(user, "user")
        _check_plain(password, "password")
        self.container_id = container_id
        self.hostname = hostname
        self.max_frame_size = max_frame_size
        self.channel_max = channel_max
        self.handle_max = handle_max
        self.idle_timeout_ms = idle_timeout_ms
        self.incoming_window = incoming_window
        self.outgoing_window = outgoing_window
        self.max_message_size = max_message_size
        self.max_incomplete = max_incomplete
        self.max_unsettled = max_unsettled
        self.max_undecided_bytes = max_undecided_bytes
        self.max_credit_overrun = max_credit_overrun
        self.properties = properties
        self.properties_for_host = properties_for_host
        self.sasl_mechanisms = sasl_mechanisms
        self.is_sasl_required = is_sasl_required
        self.user = user
        self.password = password


def _check_plain(text: str | None, what: str) -> None:
    """PLAIN separates its parts by NUL and writes them as UTF-8 (RFC 4616). The text itself stays out of the error."""
    if text is None:
        return
    if "\x00" in text or any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise UsageError(f"{what} must be text without NUL and without lone surrogates")
