"""A wire to a broker that a test can cut, a time that a test can move, and how long a test waits."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, Self

from tandem.client import MessagingFactory, MessagingFactorySettings, RetryPolicy, TokenProvider, Waiting
from tests.patience import until

HOST: Final = "127.0.0.1"
LONGEST_SLEEP_S: Final = 600
CHUNK_BYTES: Final = 65_536

RULE_NAME: Final = "RootManageSharedAccessKey"
KEY: Final = "SAS_KEY_VALUE"


class Proxy:
    """Passes bytes on in both directions, as long as it is not told otherwise."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self._may_answer = asyncio.Event()
        self._may_answer.set()
        self.port = 0
        # Connections that were made through it.
        self.connections_made = 0

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()

    async def accept(self) -> None:
        """Let connections be made, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Cut what there is, and let nothing new be made."""
        if self._server is not None:
            self._server.close()
            self.cut()
            self._may_answer.set()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._server.wait_closed()
            self._server = None

    @property
    def tasks(self) -> set[asyncio.Task[Any]]:
        """The tasks of this proxy, which are not the client's."""
        return self._tasks | self._serving

    def cut(self) -> None:
        """Reset every connection, in both directions."""
        for writer in self._writers:
            writer.transport.abort()

    def hold_answers(self) -> None:
        """What the broker says does not arrive any more."""
        self._may_answer.clear()

    def pass_answers(self) -> None:
        """What was held back arrives, and what follows."""
        self._may_answer.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_made += 1
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        there, back = await asyncio.open_connection(HOST, self._target_port)
        self._writers |= {writer, back}
        both = [
            asyncio.create_task(self._pass_on(reader, back, is_answer=False)),
            asyncio.create_task(self._pass_on(there, writer, is_answer=True)),
        ]
        for task in both:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.wait(both)
        self._writers -= {writer, back}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                if is_answer:
                    await self._may_answer.wait()
                writer.write(data)
                await writer.drain()
        except (ConnectionError, OSError):
            writer.transport.abort()
        finally:
            writer.close()

    def factory(self, settings: MessagingFactorySettings | None = None) -> MessagingFactory:
        """A factory whose connections go through this."""
        token_provider = TokenProvider.create_shared_access_signature(RULE_NAME, KEY)
        return MessagingFactory.create(f"amqp://{HOST}:{self.port}", token_provider, settings or QUICK)


class StillTime(Waiting):
    """A time that passes only where somebody sleeps, and then at once. The renewal of a token is never due."""

    def __init__(self) -> None:
        self.time_s = 1_000.0
        self.slept_s: list[float] = []

    def now_s(self) -> float:
        return self.time_s

    async def sleep(self, delay_s: float) -> None:
        if delay_s > LONGEST_SLEEP_S:
            await asyncio.Event().wait()
        self.slept_s.append(delay_s)
        self.time_s += delay_s
        await asyncio.sleep(0)


class RenewalTime(Waiting):
    """The machine's time, but the wait for the next renewal of a token ends when the test says so."""

    def __init__(self) -> None:
        self.delays_s: list[float] = []
        self._is_over = asyncio.Event()

    async def sleep(self, delay_s: float) -> None:
        self.delays_s.append(delay_s)
        await self._is_over.wait()
        self._is_over.clear()

    async def end_wait(self, number: int) -> float:
        """End the first, second, ... wait when it has begun, and return how long it would have lasted."""
        await until(lambda: len(self.delays_s) == number)
        self._is_over.set()
        return self.delays_s[-1]


# Attempts that follow each other quickly, so that a test does not wait for them, for half a minute.
QUICK: Final = MessagingFactorySettings(
    retry_policy=RetryPolicy(max_attempts=600, min_backoff_s=0.01, max_backoff_s=0.05)
)
