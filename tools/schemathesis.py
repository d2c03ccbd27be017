"""Requests that nobody would write, made from the OpenAPI document: `make schemathesis N=100`.

A broker of its own is started, with some entities and messages; schemathesis then calls every operation of the JSON API
with generated parameters and bodies, authorised to do everything. Whatever it sends, the answer must not be a server
error, and the broker must be alive and its store sound at the end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tandem.auth.sas import make_token
from tandem.store.check import check
from tandem.testing import Broker

_RULE = "RootManageSharedAccessKey"
_KEY = "SAS_KEY_VALUE"


def main(arguments: list[str]) -> int:
    program, count = arguments
    with tempfile.TemporaryDirectory() as directory:
        data_dir = Path(directory) / "data"
        with Broker(data_dir) as broker:
            _fill(broker)
            url = f"http://127.0.0.1:{broker.http_port}"
            token = make_token(f"{url}/", _RULE, _KEY, int(time.time()) + 86_400)
            command = [program, "run", f"{url}/$api/v1/openapi.json", "--header", f"Authorization: {token}"]
            command += ["--checks", "not_a_server_error", "--phases", "coverage,fuzzing", "--max-examples", count]
            status = subprocess.run(command, check=False).returncode
            if not broker.is_running:
                sys.exit("the broker is gone")
        findings = check(data_dir).findings
    for finding in findings:
        print(f"the store is not sound: {finding}", file=sys.stderr)
    return status or bool(findings)


def _fill(broker: Broker) -> None:
    """Names that generated requests have a chance to meet."""
    broker.create_queue("orders")
    broker.create_queue("sessions", requires_session=True)
    broker.create_topic("events")
    broker.create_subscription("events", "all")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
