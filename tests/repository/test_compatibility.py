"""The page about official SDKs is made from results; what it is made from names things that exist."""

from __future__ import annotations

import json

import pytest

from examples.queue_tour import SETTINGS
from tools.compatibility import LANGUAGES, page
from tools.sdk_features import COMPAT, FEATURES, NOT_IN_SDK, PYTHON
from tools.sdk_results import RESULTS, versions


@pytest.mark.parametrize("group", PYTHON)
def test_what_shows_a_feature_in_python_exists(group: str) -> None:
    for feature, shown in PYTHON[group].items():
        assert feature in FEATURES[group]
        assert shown.get("tour", []) or shown.get("tests", [])
        for part in shown.get("tour", ()):
            assert part.replace("_", "-") in SETTINGS, part
        for test in shown.get("tests", ()):
            module, _, function = test.partition("::")
            assert f"def {function}(" in (COMPAT / module).read_text(encoding="utf-8"), test


def test_the_results_are_of_the_versions_that_are_locked() -> None:
    assert json.loads(RESULTS.read_text(encoding="utf-8"))["versions"] == versions(), "run `make test-sdks`"


def test_every_feature_and_every_reason_is_on_the_page() -> None:
    text = page()
    for language in LANGUAGES.values():
        assert f"| {language} |" in text
    for features in FEATURES.values():
        for feature in features:
            assert f"| `{feature}` |" in text
    for groups in NOT_IN_SDK.values():
        for missing in groups.values():
            for reason in missing.values():
                assert reason in text


def test_every_deviation_has_a_reason_on_the_page() -> None:
    text = page()
    for deviation in json.loads((COMPAT / "deviations.json").read_text(encoding="utf-8")):
        assert f"| {deviation['tandem']} | {deviation['reason']} |" in text
