"""A load generator on Tandem's own driver, for machines without the C++ one (`build/amqp_load`).

    python -m tandem.bench.load.generator send|recv|both URL ADDRESS COUNT BODY_BYTES [DURABLE] [CREDIT]

takes the same words and prints the same last line of JSON. It is the load of `tandem bench queue` for whoever asks
for no credentials; it costs about as much per message as the server it measures, so a rate from it is a lower bound.
"""

from __future__ import annotations

import json
import sys
from urllib.parse import urlsplit

from tandem.bench.load.flood import flood
from tandem.bench.load.job import DEFAULT_CREDIT, Job, Peer
from tandem.driver import run
from tandem.errors import TandemError

__all__: list[str] = []


def main(arguments: list[str]) -> None:
    mode, url, address = arguments[0], urlsplit(arguments[1]), arguments[2]
    job = Job(
        kind="rate",
        peer=Peer(url.hostname or "127.0.0.1", url.port or 5672),
        addresses=[address],
        mode=mode,
        count=int(arguments[3]),
        body_bytes=int(arguments[4]),
        # The seventh word, as in the usage line.
        credit=int(arguments[6]) if len(arguments) > 6 else DEFAULT_CREDIT,
    )
    try:
        figures = run(flood(job))
    except (TandemError, OSError) as error:
        sys.exit(str(error))
    json.dump({"mode": mode, "count": job.count, **figures}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
