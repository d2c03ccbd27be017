"""One connection on one transport: bytes to the core, events to the application, output once per loop turn.

A peer that sends without pause gets a turn at a time (`tandem.driver.turns`): while input waits for its next turn,
nothing more is read from that peer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol, cast

from tandem.amqp import Connection, Event, Settings
from tandem.amqp.connection import Role
from tandem.driver.turns import Allowance, Turns
from tandem.errors import ProtocolError
from tandem.limits import (
    MAX_FRAME_SIZE_BYTES,
    MAX_PERFORMATIVE_BYTES,
    MAX_STRANGER_FRAME_BYTES,
    MAX_STRANGER_PERFORMATIVE_BYTES,
    MAX_WORK_PER_SLICE,
)

__all__ = ["CLOSE_GRACE_S", "Application", "Endpoint", "close_endpoints"]

# Bytes. Above this the transport is congested: we stop reading from a peer that does not read from us, and the
# application should stop producing for it.
WRITE_BUFFER_HIGH_BYTES = 1_048_576

# Seconds. How long a finished connection stays half open, so that the peer can read our close before a reset could
# take it away.
LINGER_S = 2.0

# Seconds. How long a peer may take to answer our close before its transport is dropped.
CLOSE_GRACE_S = 2.0


class Application(Protocol):
    """What the user of the driver writes. All calls come from the event loop."""

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        """The peer did something. Output is written after this returns."""

    def on_writable(self, endpoint: Endpoint) -> None:
        """The transport is no longer congested."""

    def on_lost(self, endpoint: Endpoint) -> None:
        """The transport is gone, in whatever way."""


class Endpoint(asyncio.Protocol):
    """An asyncio protocol for either role."""

    def __init__(self, role: Role, settings: Settings, application: Application, turns: Turns | None = None) -> None:
        """Endpoints that share `turns` take turns with each other."""
        self.connection = Connection(role, settings)
        self.application = application
        self.is_congested = False
        self._loop = asyncio.get_running_loop()
        self._turns = turns or Turns(self._loop)
        self._is_in_rotation = False
        # The application may have more to decide on input that was kept back.
        self._is_turn_due = False
        # What was handled last took so many turns too many.
        self._skipped_passes = 0
        # What a peer may cost that has not proved anything; None for all others.
        self._allowance: Allowance | None = None
        # Until when nothing is handled for the peer, because of what it has cost or tried.
        self._suspension: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._is_flush_scheduled = False
        self._is_held_back = False
        self._is_awaited = False
        self._is_hanging_up = False
        self._peer_name = ""
        self._is_tls = False
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    @property
    def peer_name(self) -> str:
        """Who is at the other end, as address:port; known from the moment of connection, and kept for the logs."""
        return self._peer_name

    @property
    def peer_host(self) -> str:
        """The address of the peer without its port."""
        return self._peer_name.rpartition(":")[0].strip("[]")

    @property
    def is_tls(self) -> bool:
        """Whether the transport is encrypted."""
        return self._is_tls

    # --- asyncio.Protocol -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but ancestry.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_BYTES)
        self._peer_name = _address(self._transport.get_extra_info("peername"))
        self._is_tls = self._transport.get_extra_info("sslcontext") is not None
        self.connection.idle.heard_at_ms = self.now_ms()
        if self.connection.role is Role.CLIENT:
            self.connection.open()
        self.flush()

    def data_received(self, data: bytes) -> None:
        if self._allowance is not None or self._suspension is not None:
            # Kept for its turn.
            self.connection.receive(data, self.now_ms(), 0)
            self._choose_reading()
            return
        self._work(data)
        self.flush()

    def take_turn(self) -> None:
        """Handle some of the input that is left."""
        self._is_in_rotation = False
        if self._transport is None or self._transport.is_closing() or self._must_wait:
            return
        self._work(b"")
        self.flush()

    def _work(self, data: bytes) -> None:
        """Handle input until there is no more of it, or until the turn is over."""
        connection = self.connection
        self._is_turn_due = False
        ends_at = self._turns.end_of_turn()
        events = connection.receive(data, self.now_ms(), MAX_WORK_PER_SLICE)
        while True:
            if self._allowance is not None:
                self._charge(MAX_WORK_PER_SLICE - connection.work_left)
            if events:
                self.application.on_events(self, events)
            elif not connection.has_more:
                break
            if self._turns.clock() >= ends_at or self._must_wait:
                self._is_turn_due = True
                self._skipped_passes = self._turns.passes_to_skip(ends_at)
                return
            # With nothing left too: the application may have let the connection go on, by deciding an authentication.
            events = connection.receive(b"", 0, MAX_WORK_PER_SLICE)
        self._skipped_passes = self._turns.passes_to_skip(ends_at)
        # uvloop reads on at once if there is more in the kernel, 32 times, unless reading is paused.
        self._is_turn_due = self._skipped_passes > 0 or (bool(data) and self._turns.clock() >= ends_at)

    # --- peers that have not proved anything ----------------------------------------------------------------

    def limit(self, allowance: Allowance) -> None:
        """Handle no more for the peer than the allowance covers, and only small frames, until `lift_limit`."""
        self._allowance = allowance
        self.connection.limit_frames(MAX_STRANGER_FRAME_BYTES, MAX_STRANGER_PERFORMATIVE_BYTES)

    def lift_limit(self) -> None:
        """Treat the peer like any other from now on."""
        self._allowance = None
        self.connection.limit_frames(MAX_FRAME_SIZE_BYTES, MAX_PERFORMATIVE_BYTES)
        if self._suspension is not None:
            self._suspension.cancel()
            self._resume()

    @property
    def is_stranger(self) -> bool:
        """The peer has an allowance, because it has not proved anything."""
        return self._allowance is not None

    def charge(self, work: int) -> None:
        """Count work that the frames of the peer do not show, if the peer has an allowance."""
        if self._allowance is not None:
            self._charge(work)

    def _charge(self, work: int) -> None:
        assert self._allowance is not None
        self._allowance.spend(work, self._loop.time())
        wait_s = self._allowance.wait_s()
        if wait_s > 0:
            self.suspend(wait_s)

    def suspend(self, delay_s: float) -> None:
        """Handle nothing more for the peer, and read nothing, for this long."""
        if self._suspension is not None:
            if self._suspension.when() >= self._loop.time() + delay_s:
                return
            self._suspension.cancel()
        self._suspension = self._loop.call_later(delay_s, self._resume)
        self._choose_reading()

    def _resume(self) -> None:
        self._suspension = None
        self._choose_reading()

    # --- back-pressure --------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self.is_congested = True
        self._choose_reading()

    def resume_writing(self) -> None:
        self.is_congested = False
        self._is_awaited = False
        self._tell_writable()

    @property
    def is_backlogged(self) -> bool:
        """There is enough to write: in the transport, in the output, or behind windows that the peer keeps shut."""
        return self.is_congested or self.connection.unsent_bytes > WRITE_BUFFER_HIGH_BYTES

    def await_writable(self) -> None:
        """Have `on_writable` called after the next flush that leaves little to write."""
        self._is_awaited = True
        self.flush_soon()

    def _tell_writable(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self.application.on_writable(self)
            self.flush()

    @property
    def _must_wait(self) -> bool:
        """The peer does not read from us, sends more than the application can settle, or is suspended."""
        return self.is_congested or self.connection.is_saturated or self._suspension is not None

    def _choose_reading(self) -> None:
        """Read from the peer, unless it has to wait or has input left, which gets its turn then."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        must_wait = self._must_wait
        has_input = self.connection.has_more or self._is_turn_due
        is_held_back = must_wait or has_input
        if is_held_back and not self._is_held_back:
            transport.pause_reading()
        elif self._is_held_back and not is_held_back:
            transport.resume_reading()
        self._is_held_back = is_held_back
        if has_input and not must_wait and not self._is_in_rotation:
            self._is_in_rotation = True
            self._turns.add(self, is_stranger=self._allowance is not None, skipped_passes=self._skipped_passes)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for timer in (self._timer, self._suspension):
            if timer is not None:
                timer.cancel()
        self._timer = self._suspension = None
        self.application.on_lost(self)
        if not self.lost.done():
            self.lost.set_result(None)

    # --- output and time ------------------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Write at the end of this loop turn, together with whatever else comes up in it."""
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is queued, and hang up when the connection has come to its end."""
        self._is_flush_scheduled = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        data = self.connection.data_to_send(self.now_ms())
        if data:
            transport.write(data)
        if self._is_awaited and not self.is_backlogged:
            self._is_awaited = False
            self._loop.call_soon(self._tell_writable)
        if self.connection.is_finished:
            self._hang_up(transport)
        else:
            self._choose_reading()
            self._arm()

    def _hang_up(self, transport: asyncio.Transport) -> None:
        """Say that we are done, and drop the transport soon: a peer that goes on sending, or that does not read what
        is left for it, puts that off no further."""
        if self._is_hanging_up:
            return
        self._is_hanging_up = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(LINGER_S, transport.abort)
        if transport.can_write_eof():
            transport.write_eof()
        else:
            # TLS cannot be half open: its close says goodbye and waits for the peer's.
            transport.close()

    def _arm(self) -> None:
        """Keep one timer for the next deadline. Traffic puts the deadline off, and then the timer stays: it looks
        again when it is due. Only a deadline that comes sooner, as the peer's open may bring one, needs another."""
        deadline_ms = self.connection.next_deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_due_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = deadline_ms
        self._timer = self._loop.call_at(deadline_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        events = self.connection.tick(self.now_ms())
        if events:
            self.application.on_events(self, events)
        self.flush()

    def abort(self) -> None:
        """Drop the transport at once, as a crash would."""
        if self._transport is not None:
            self._transport.abort()


def _address(peer_name: object) -> str:
    """What asyncio calls the peer's name, (address, port, ...), as one text."""
    if not isinstance(peer_name, tuple):
        return ""
    host, port = peer_name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def close_endpoints(endpoints: Collection[Endpoint], error: ProtocolError) -> None:
    """Tell every peer, wait a moment for their answers, and drop those that gave none."""
    endpoints = list(endpoints)
    for endpoint in endpoints:
        if endpoint.connection.is_open:
            endpoint.connection.close(error)
            endpoint.flush()
        else:
            endpoint.abort()
    if endpoints:
        _, silent = await asyncio.wait([endpoint.lost for endpoint in endpoints], timeout=CLOSE_GRACE_S)
        if silent:
            for endpoint in endpoints:
                endpoint.abort()
            await asyncio.wait(silent)
