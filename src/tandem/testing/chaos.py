"""A network that fails on purpose: a TCP proxy in front of a broker, or of anything else.

    async with ChaosProxy("127.0.0.1", 5672) as proxy:
        client = connect(proxy.host, proxy.port)
        proxy.to_server.delay_s = 0.2
        proxy.to_client.is_stalled = True
        await asyncio.to_thread(proxy.reset)
        proxy.heal()

It runs on an event loop in a thread of its own, so that tests without asyncio use it as it is, with `with`. Settings
count from the next piece of bytes on, also for connections that are open, and may be changed from any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

from tandem.testing.loop_thread import LoopThread

__all__ = ["ChaosProxy", "Direction"]

HOST: Final = "127.0.0.1"

# Bytes. What is read from a socket at once.
READ_BYTES: Final = 65_536

# Seconds. How often bytes that are stalled look whether they may go on: settings come from other threads.
STALL_POLL_S: Final = 0.005

# Linger for no time: the kernel then ends the connection by a reset, and what was not sent yet is gone.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Direction:
    """What becomes of the bytes that go one way. The counts are those of all connections together."""

    def __init__(self, seed: int) -> None:
        # Seconds that each piece is held up, and by up to how many more, at random.
        self.delay_s = 0.0
        self.jitter_s = 0.0
        # None is as fast as it goes.
        self.bytes_per_second: int | None = None
        # Bytes go on in pieces of at most so many. None leaves them as they come.
        self.piece_bytes: int | None = None
        # A connection is reset when so many of its bytes have gone this way. None is never.
        self.cut_after_bytes: int | None = None
        # Nothing goes on, and connections stay open.
        self.is_stalled = False
        self.passed_bytes = 0
        self.passed_pieces = 0
        # Pieces that are held up at present.
        self.waiting_pieces = 0
        self._dice: Final = random.Random(seed)  # noqa: S311 - repeatable is what is wanted

    def heal(self) -> None:
        """Everything goes on as it comes, also what waited. The counts stay."""
        self.delay_s = self.jitter_s = 0.0
        self.bytes_per_second = self.piece_bytes = self.cut_after_bytes = None
        self.is_stalled = False

    async def hold_up(self, size_bytes: int) -> None:
        """Until a piece may go on."""
        self.waiting_pieces += 1
        try:
            await self._hold_up(size_bytes)
        finally:
            self.waiting_pieces -= 1

    async def _hold_up(self, size_bytes: int) -> None:
        wait_s = self.delay_s
        if self.jitter_s:
            wait_s += self._dice.uniform(0.0, self.jitter_s)
        if self.bytes_per_second is not None:
            wait_s += size_bytes / self.bytes_per_second
        if wait_s:
            await asyncio.sleep(wait_s)
        while self.is_stalled:  # noqa: ASYNC110 - set from other threads, where an event of asyncio has no place
            await asyncio.sleep(STALL_POLL_S)


class ChaosProxy:
    """Passes connections on to a target, and harms them as it is told. It listens on a free loopback port."""

    def __init__(self, target_host: str, target_port: int, *, seed: int = 0) -> None:
        self.host = HOST
        self.port = 0
        self.to_server = Direction(seed)
        self.to_client = Direction(seed + 1)
        # New connections are accepted and reset at once.
        self.refuses_connections = False
        self.accepted_count = 0
        self.refused_count = 0
        self.cut_count = 0
        self._target = (target_host, target_port)
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = LoopThread("proxy", self._listening)

    # --- life -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def start(self) -> None:
        """Return when it listens."""
        self._thread.start()

    def close(self) -> None:
        """Reset what is open, and stop. Safe to call twice."""
        self._thread.close()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._on_connected, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        yield
        server.close()
        self._reset_all()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- harm -----------------------------------------------------------------------------------------------

    @property
    def connection_count(self) -> int:
        return len(self._pairs)

    def reset(self) -> int:
        """End every connection by a reset, at both ends. Returns how many there were."""

        async def work() -> int:
            return self._reset_all()

        return self._thread.call(work)

    def heal(self) -> None:
        """Pass on everything, and accept connections. Those that were cut stay cut."""
        self.to_server.heal()
        self.to_client.heal()
        self.refuses_connections = False

    def _reset_all(self) -> int:
        pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()
        self.cut_count += len(pairs)
        self._pairs.clear()
        return len(pairs)

    # --- connections ----------------------------------------------------------------------------------------

    async def _on_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._pass_on(reader, writer)
        except asyncio.CancelledError:
            # The proxy is being closed: there is nothing left to do, and asyncio would report it as a failure.
            _reset(writer)
        finally:
            self._tasks.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses_connections:
            self.refused_count += 1
            _reset(writer)
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            # As if the target itself had refused.
            self.refused_count += 1
            _reset(writer)
            return
        self.accepted_count += 1
        pair = _Pair(writer, server_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pump(reader, server_writer, self.to_server, pair),
                self._pump(server_reader, writer, self.to_client, pair),
            )
        finally:
            self._pairs.discard(pair)
            pair.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction, pair: _Pair
    ) -> None:
        passed_bytes = 0
        with contextlib.suppress(OSError):
            while data := await reader.read(READ_BYTES):
                while data:
                    piece = data[: direction.piece_bytes or len(data)]
                    await direction.hold_up(len(piece))
                    cut_after_bytes = direction.cut_after_bytes
                    if cut_after_bytes is not None:
                        piece = piece[: max(0, cut_after_bytes - passed_bytes)]
                    data = data[len(piece) :]
                    if piece:
                        # Counted first: whoever has received it finds it counted.
                        passed_bytes += len(piece)
                        direction.passed_bytes += len(piece)
                        direction.passed_pieces += 1
                        writer.write(piece)
                        await writer.drain()
                    if cut_after_bytes is not None and passed_bytes >= cut_after_bytes:
                        self.cut_count += 1
                        pair.reset()
                        return
            # One side is done; the other may still have something to say.
            writer.write_eof()


class _Pair:
    """The two ends of one connection."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    def reset(self) -> None:
        for writer in self._writers:
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None and not writer.transport.is_closing():
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
