"""The reference says what the code does: every option, column, command and result."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from tandem.cli.pipeline import jobs as pipeline
from tandem.spark import capture_source, deltalake_source, options, servicebus
from tandem.spark.given_options import Option
from tandem.spark.report.results import Results
from tandem.spark.schemas import EVENTS, MESSAGES
from tandem.spark.service.configuration import SERVICE_SETTINGS

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "spark.md").read_text(encoding="utf-8")


KNOWN_OPTIONS = [
    option for module in (options, servicebus, capture_source, deltalake_source) for option in module.KNOWN_OPTIONS
]


@pytest.mark.parametrize("option", KNOWN_OPTIONS, ids=lambda option: option.name)
def test_every_option_is_described(option: Option) -> None:
    for name in (option.name, *option.aliases):
        assert f"`{name}`" in REFERENCE
    assert option.is_ignored or option.meaning in REFERENCE


def test_every_column_command_and_result_is_named() -> None:
    for column in EVENTS:
        assert f"{column.name} {column.dataType.simpleString().replace('bigint', 'long')}" in " ".join(
            REFERENCE.split()
        )
    for column in MESSAGES:
        assert column.name in REFERENCE
    for command in pipeline.app.registered_commands:
        assert f"`tandem pipeline {command.name}" in REFERENCE
    for result in dataclasses.fields(Results):
        assert f"`{result.name}`" in REFERENCE


def test_every_setting_of_the_service_is_named() -> None:
    for setting in SERVICE_SETTINGS:
        assert f"`{setting}`" in REFERENCE, f"{setting} is missing"
    [example] = re.findall(r"```toml\n# pipeline.toml\n(.*?)```", REFERENCE, re.DOTALL)
    assert set(tomllib.loads(example)) <= set(SERVICE_SETTINGS)
