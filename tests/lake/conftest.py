"""An S3 server for the tests of this folder."""

from tests.lake.s3_server import make_bucket, s3_server

__all__ = ["make_bucket", "s3_server"]
