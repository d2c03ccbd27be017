"""The file of `tandem pipeline run`: what it says, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.errors import ConfigurationError
from tandem.lake.place import Place
from tandem.spark.service.configuration import JOBS, ServiceSettings, read_service_settings

NAMESPACE = '[namespaces.primary]\nconnection_string = "Endpoint=sb://here/"\n'


def read(folder: Path, text: str, **environment: str) -> ServiceSettings:
    file = folder / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    return read_service_settings(file, environment)


def test_a_namespace_is_enough(tmp_path: Path) -> None:
    settings = read(tmp_path, NAMESPACE)
    assert settings.namespaces == {"primary": "Endpoint=sb://here/"}
    assert settings.out == Place.parse(tmp_path / "pipeline")
    assert settings.checkpoints == Place.parse(tmp_path / "pipeline" / "_checkpoints")
    assert (settings.host, settings.port, settings.trigger_s, settings.jobs) == ("127.0.0.1", 9464, 10.0, JOBS)
    assert "here" not in repr(settings)


def test_secrets_come_from_a_file_or_a_variable(tmp_path: Path) -> None:
    (tmp_path / "bus.txt").write_text("from-a-file\n")
    text = '[namespaces.a]\nconnection_string_file = "bus.txt"\n[namespaces.b]\nconnection_string_variable = "BUS"\n'
    assert read(tmp_path, text, BUS="from-a-variable").namespaces == {"a": "from-a-file", "b": "from-a-variable"}


def test_a_capture_has_a_place_by_namespace_and_hub(tmp_path: Path) -> None:
    text = f"""
checkpoints = "checkpoints"
out = "s3://lake/results"
{NAMESPACE}
[storage]
endpoint = "http://minio:9000"
[[capture]]
hub = "telemetry"
format = "delta"
options = {{ payload = "json" }}
[[capture]]
hub = "raw"
out = "here"
"""
    first, second = read(tmp_path, text).captures
    assert str(first.place) == "s3://lake/results/capture/primary/telemetry"
    assert first.place.options.endpoint == "http://minio:9000"
    assert (first.file_format, first.options) == ("delta", {"payload": "json"})
    assert second.place == Place.parse(tmp_path / "here" / "primary" / "raw")


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "namespaces is missing"),
        ("triger = '5s'\n" + NAMESPACE, "triger is not a setting; did you mean trigger"),
        ("out = [", "is not valid TOML"),
        ("jobs = ['metring']\n" + NAMESPACE, "jobs is"),
        ("listen = 'here'\n" + NAMESPACE, "write it as HOST:PORT"),
        ("out = 's3://lake/results'\n" + NAMESPACE, "give checkpoints a folder"),
        ("out = 'hdfs://nn/results'\ncheckpoints = 'c'\n" + NAMESPACE, "results go to folders and s3://"),
        ("[namespaces.primary]\nkey = '1'\n", "namespaces.primary must have one of"),
        ("[namespaces.primary]\nconnection_string_variable = 'NONE'\n", "the variable NONE is not set"),
        ("[namespaces.primary]\nconnection_string_file = 'none.txt'\n", "none.txt cannot be read"),
        (NAMESPACE + "[[capture]]\nformat = 'delta'\n", "hub is missing"),
        (NAMESPACE + "[[capture]]\nhub = 'h'\nformat = 'orc'\n", "capture.format is 'orc'"),
        (NAMESPACE + "[[capture]]\nhub = 'h'\nnamespace = 'other'\n", "there are primary"),
        (NAMESPACE + "[[capture]]\nhubs = 'h'\n", "capture.hubs is not a setting; did you mean capture.hub"),
        ("capture = 1\n" + NAMESPACE, r"capture must be written as \[\[capture\]\]"),
    ],
)
def test_a_mistake_is_named_with_the_file(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as raised:
        read(tmp_path, text)
    assert "pipeline.toml" in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read"):
        read_service_settings(tmp_path / "none.toml")
