"""Run the features and print a line about each."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.interop.peers.features import FEATURES, FeatureResult, Outcome
from tests.interop.peers.proton_client import connections, links, messages, transactions
from tests.interop.peers.proton_client.peer import Peer, Unsupported

Feature = Callable[[Peer], None]


def _implementations() -> Mapping[str, Feature]:
    """The function of each feature: it has the feature's name, in Python's spelling."""
    modules = (connections, messages, links, transactions)
    functions = {name: function for module in modules for name, function in vars(module).items() if callable(function)}
    return {feature: functions[feature.replace("-", "_")] for feature in FEATURES}


IMPLEMENTATIONS: Final = _implementations()


def run(feature: str, peer: Peer) -> FeatureResult:
    started = time.monotonic()
    outcome: Outcome = "passed"
    detail = ""
    try:
        IMPLEMENTATIONS[feature](peer)
    except Unsupported as reason:
        outcome, detail = "unsupported", str(reason)
    except Exception as failure:  # whatever went wrong is the result
        outcome, detail = "failed", f"{type(failure).__name__}: {failure}"
    return FeatureResult(feature, outcome, detail, time.monotonic() - started)


def main() -> None:
    host, port, address, *features = sys.argv[1:]
    user = os.environ.get("AMQP_USER", "guest")
    password = os.environ.get("AMQP_PASSWORD", "guest")
    for feature in features or FEATURES:
        peer = Peer(host, int(port), f"{address}.{feature}", user, password)
        print(run(feature, peer).line(), flush=True)


main()
