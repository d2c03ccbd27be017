"""What one would write by hand: a loop on the official SDK that reads partitions to a number, and uses what it reads.

    python bench/peers/azure_eventhub_loop.py CONNECTION_STRING HUB EVENTS_OF_EACH PARTITION...

It says when it is ready, begins when its standard input ends, and ends when all is read.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

__all__ = ["main"]

# Events. What comes at once, and ahead: more than the SDK's own 300, to its advantage.
BATCH: Final = 1_000
PREFETCH: Final = 3_000


def main(connection_string: str, hub: str, each: int, partitions: list[str]) -> int:
    from azure.eventhub import EventHubConsumerClient

    print("ready", flush=True)
    sys.stdin.read()
    used = 0
    for partition in partitions:
        client = EventHubConsumerClient.from_connection_string(connection_string, "$Default", eventhub_name=hub)
        seen = 0
        is_done = threading.Event()

        # Bound here: the SDK calls it on a thread, while this loop waits for its end.
        def take(_: Any, events: list[Any], is_done: threading.Event = is_done) -> None:
            nonlocal seen, used
            for event in events:
                used += len(b"".join(event.body)) + event.sequence_number + len(event.offset)
            seen += len(events)
            if seen >= each and not is_done.is_set():
                is_done.set()

        reading = threading.Thread(
            target=client.receive_batch,
            args=(take,),
            kwargs={
                "partition_id": partition,
                "starting_position": "-1",
                "max_batch_size": BATCH,
                "prefetch": PREFETCH,
            },
            daemon=True,
        )
        reading.start()
        is_done.wait()
        client.close()
    return 0 if used else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
