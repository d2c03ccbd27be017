"""The page docs/reference/compatibility.md, made from the results of the last `make test-sdks`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from tools.sdk_features import ADMINISTRATION, COMPAT, EVENT_HUBS, FEATURES, NOT_IN_SDK, SERVICE_BUS, TRANSPORTS

ROOT: Final = Path(__file__).resolve().parent.parent

LANGUAGES: Final = {"python": "Python", "javascript": "JavaScript", "java": "Java", "go": "Go"}
_HEADINGS: Final = {SERVICE_BUS: "Service Bus", EVENT_HUBS: "Event Hubs", ADMINISTRATION: "Administration"}
_NAMES: Final = {"tcp": "plain", "tls": "TLS", "websocket": "WebSocket"}

_INTRODUCTION: Final = """# Compatibility with the official SDKs

This page lists which features of the official SDKs work against Tandem, and where Tandem differs from the service. The
tables hold the results of `make test-sdks`, which runs the real SDKs against a real broker.
[Running a broker](../howto/serve.md#connect-the-official-sdks) says how to point each SDK at a broker.

The SDKs for .NET are not in the tables: NuGet is not part of the tests. They were run against Tandem by hand, with
their own test suites and with Rebus, MassTransit and NServiceBus on top of them, and `make test` replays on the wire
each exchange in which they differ from other SDKs.

| in a cell | meaning |
|---|---|
| plain, TLS, WebSocket | the feature works over these transports |
| fails over … | the feature does not work yet over these transports |
| not in the SDK | the SDK of this language does not have the feature ([reasons](#features-that-an-sdk-does-not-have)) |
| not tested | no test of this language shows the feature |

"""


def page() -> str:
    """Return the whole page."""
    results = json.loads((COMPAT / "results.json").read_text(encoding="utf-8"))
    parts = [_INTRODUCTION, "## Versions\n\n", _versions(results["versions"])]
    for group, heading in _HEADINGS.items():
        parts.append(f"\n## {heading}\n\n{_features(group, results['outcomes'])}")
    parts.append("\n## Frameworks\n\n" + _frameworks())
    parts.append("\n## Features that an SDK does not have\n\n" + _missing())
    parts.append("\n## Known deviations from the service\n\n" + _deviations())
    return "".join(parts)


def _table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _versions(versions: dict[str, dict[str, str]]) -> str:
    rows = [[LANGUAGES[one], f"`{versions[one][SERVICE_BUS]}`", f"`{versions[one][EVENT_HUBS]}`"] for one in LANGUAGES]
    return _table(["language", "Service Bus and administration", "Event Hubs"], rows)


def _features(group: str, outcomes: dict[str, Any]) -> str:
    rows = [
        [f"`{feature}`", wanted["meaning"], *[_cell(outcomes, language, group, feature) for language in LANGUAGES]]
        for feature, wanted in FEATURES[group].items()
    ]
    return _table(["feature", "meaning", *LANGUAGES.values()], rows)


def _cell(outcomes: dict[str, Any], language: str, group: str, feature: str) -> str:
    if feature in NOT_IN_SDK.get(language, {}).get(group, {}):
        return "not in the SDK"
    seen = outcomes.get(language, {}).get(group, {}).get(feature, {})
    works = [_NAMES[one] for one in TRANSPORTS if seen.get(one) == "passed"]
    fails = [_NAMES[one] for one in TRANSPORTS if seen.get(one) in ("failed", "expected to fail")]
    texts = [", ".join(works)] if works else []
    if fails:
        texts.append(f"fails over {', '.join(fails)}")
    return "; ".join(texts) or "not tested"


def _frameworks() -> str:
    frameworks = json.loads((COMPAT / "frameworks.json").read_text(encoding="utf-8"))
    locked = {name: locked_version(name) for name in ("celery", "kombu")}
    versions = {
        "{celery}": f"celery {locked['celery']}, kombu {locked['kombu']}",
        **{f"{{{artifact}}}": f"{artifact} {version}" for artifact, version in _maven_versions().items()},
    }
    rows = [
        [one["framework"], versions.get(one["version"], one["version"]), one["tested"], one["untested"]]
        for one in frameworks
    ]
    return _table(["framework", "version", "tested", "not tested"], rows)


def _maven_versions() -> dict[str, str]:
    """Return the version of every artifact that a program on a framework in Java names."""
    pattern = re.compile(r"<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)</version>")
    poms = (COMPAT / "frameworks").glob("*/pom.xml")
    return {artifact: version for pom in poms for artifact, version in pattern.findall(pom.read_text(encoding="utf-8"))}


def locked_version(package: str) -> str:
    """Return the version of a package in the lock of the tests."""
    lock = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(package)}==(\S+)", lock, re.MULTILINE)
    assert found is not None, package
    return found[1]


def _missing() -> str:
    rows = [
        [LANGUAGES[language], _HEADINGS[group], f"`{feature}`", reason]
        for language, groups in NOT_IN_SDK.items()
        for group, features in groups.items()
        for feature, reason in features.items()
    ]
    return _table(["language", "SDK", "feature", "reason"], rows)


def _deviations() -> str:
    deviations = json.loads((COMPAT / "deviations.json").read_text(encoding="utf-8"))
    rows = [[one["area"], one["service"], one["tandem"], one["reason"]] for one in deviations]
    return _table(["area", "the service", "Tandem", "reason"], rows)
