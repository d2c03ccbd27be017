"""Where workers import Spark from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tandem.spark.spark_home import light_home
from tests.spark.deaths import PROGRAM_LIMIT_S
from tests.spark.small_spark import SHORT_LIVED_JAVA

INSTALLED = Path(pyspark.__file__).parent


def test_a_home_has_all_of_the_installed_one_but_its_archives(tmp_path: Path) -> None:
    home = light_home(INSTALLED, tmp_path)
    assert home is not None
    assert (home / "bin" / "spark-submit").exists()
    assert (home / "jars").samefile(INSTALLED / "jars")
    assert not (home / "python").exists()
    assert light_home(INSTALLED, tmp_path) == home


def test_a_home_is_mended_when_spark_was_installed_elsewhere(tmp_path: Path) -> None:
    home = light_home(INSTALLED, tmp_path)
    assert home is not None
    (home / "jars").unlink()
    (home / "jars").symlink_to(tmp_path / "gone")
    light_home(INSTALLED, tmp_path)
    assert (home / "jars").samefile(INSTALLED / "jars")


def test_where_no_home_can_be_made_there_is_none(tmp_path: Path) -> None:
    assert light_home(tmp_path, tmp_path / "cache") is None
    (tmp_path / "file").touch()
    assert light_home(INSTALLED, tmp_path / "file") is None


@pytest.mark.timeout(900)
def test_the_formats_are_found_by_a_python_in_a_folder_with_a_space(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "venv").symlink_to(sys.prefix)
    program = "\n".join(
        [
            "from tandem.spark import session",
            "with session('space') as spark:",
            "    for name in ('eventhubs', 'servicebus'):",
            "        print(name, spark.read.format(name).load().columns[0])",
        ]
    )
    done = subprocess.run(
        [folder / "venv" / "bin" / "python", "-c", program],
        cwd=folder,
        env={**os.environ, "SPARK_SUBMIT_OPTS": SHORT_LIVED_JAVA},
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["eventhubs body", "servicebus queue"], done.stderr


@pytest.mark.timeout(900)
def test_workers_import_the_installed_package_and_are_forked_with_tandem(spark: SparkSession) -> None:
    def look_around(batches):  # type: ignore[no-untyped-def] # Spark pickles it, with all that it names
        import sys

        import pyarrow
        import pyspark

        for _ in batches:
            modules = [name for name in ("pandas", "tandem.spark.source") if name in sys.modules]
            yield pyarrow.RecordBatch.from_pydict({"place": [pyspark.__file__], "modules": [modules]})

    [row] = spark.range(1).coalesce(1).mapInArrow(look_around, "place string, modules array<string>").collect()
    assert Path(row.place) == INSTALLED / "__init__.py"
    # Nothing in this query asks for them.
    assert row.modules == ["pandas", "tandem.spark.source"]
