"""Options of the formats that read and write files: where, and how to reach it."""

from __future__ import annotations

from typing import Final

from tandem.lake.place import Place, StorageOptions
from tandem.spark.given_options import GivenOptions, Option, OptionError

__all__ = ["STORAGE_OPTIONS", "place_of"]

STORAGE_OPTIONS: Final = (
    Option("endpoint", "Of S3: where it is; the variable `AWS_ENDPOINT_URL` if left out, else Amazon's."),
    Option("region", "Of S3: `AWS_REGION` if left out."),
    Option("accessKey", "Of S3: `AWS_ACCESS_KEY_ID` if left out.", is_secret=True),
    Option("secretKey", "Of S3: `AWS_SECRET_ACCESS_KEY` if left out.", is_secret=True),
    Option("sessionToken", "Of S3: `AWS_SESSION_TOKEN` if left out.", is_secret=True),
)


def place_of(format_name: str, given: GivenOptions) -> Place:
    """Return the place that the options name."""
    path = given.text("path")
    if path is None:
        raise OptionError(f"{format_name}: path is missing: a folder, or s3://bucket/prefix")
    storage = {name: value for name in StorageOptions.names() if (value := given.text(name)) is not None}
    place = Place.parse(path, StorageOptions.parse(storage))
    if not place.is_ours:
        raise OptionError(
            f"{format_name}: path is {path!r:.200}; this format has folders and s3://. For the file systems of Spark, "
            'use format("parquet")'
        )
    return place
