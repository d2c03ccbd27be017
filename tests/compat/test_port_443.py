"""The administration client of the official Java SDK, unchanged, against a broker on the port that it insists on.

The client takes no port from its connection string: it always asks for 443. In the other tests a policy of its HTTP
pipeline leads the requests to a free port. Here the program leaves that policy out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tandem.auth.keys import KeyRing
from tandem.testing import Broker
from tests.compat.fixed_ports import broker_with_tls_on
from tests.compat.programs import LIMIT_S, Program, run, steps
from tests.compat.sdk import RULES
from tests.interop.peers.available import require_java_sdk
from tests.markers import mission
from tools.sdk_features import ADMINISTRATION

HTTPS_PORT: Final = 443


@pytest.fixture
def program() -> Program:
    return Program("java", require_java_sdk())


@pytest.fixture
def broker_on_443(program: Program, tmp_path: Path) -> Iterator[Broker]:
    """A broker with TLS on 443. `program` comes first: without it nobody has to wait for the port."""
    (tmp_path / "keys.json").write_text(json.dumps(KeyRing(list(RULES)).to_dict()), encoding="utf-8")
    with broker_with_tls_on(HTTPS_PORT, tmp_path) as broker:
        yield broker


@mission("M34")
@pytest.mark.timeout(LIMIT_S + 120)
def test_the_java_administration_client_needs_nothing_but_a_broker_on_443(
    program: Program, broker_on_443: Broker
) -> None:
    chosen = [step for step in steps(program.language) if step.group == ADMINISTRATION]
    tour = run(program, broker_on_443, chosen, http_port=HTTPS_PORT)
    for step in chosen:
        tour.judge(step)
