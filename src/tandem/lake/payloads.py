"""Bodies of events as records: JSON objects, or Avro."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import msgspec

from tandem.errors import ConfigurationError
from tandem.lake.column_types import Conflict

__all__ = ["PAYLOADS", "AvroDecoder", "Decoder", "JsonDecoder", "PayloadFormat", "avro_schemas"]

PayloadFormat = Literal["json", "avro"]
PAYLOADS: Final = ("json", "avro")

_CONTAINER: Final = b"Obj\x01"
# The mark of a single object, in front of the fingerprint of its schema (Avro 1.12, "Single-object encoding").
_SINGLE_OBJECT: Final = b"\xc3\x01"
_FINGERPRINT_BYTES: Final = 8


class Decoder(Protocol):
    """Reads bodies. It travels to the executors."""

    def decode(self, body: bytes) -> dict[str, Any]:
        """Return the fields of a body. Raise Conflict if it has none."""


@dataclass(frozen=True)
class JsonDecoder:
    """Objects of JSON."""

    def decode(self, body: bytes) -> dict[str, Any]:
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Conflict(f"the body is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise Conflict("the body is not a JSON object")
        return value


@dataclass(frozen=True)
class AvroDecoder:
    """Records of Avro: containers, single objects with the fingerprint of a known schema, or plain records of one."""

    schemas: tuple[Any, ...]

    def decode(self, body: bytes) -> dict[str, Any]:
        try:
            value = self._decode(body)
        except Conflict:
            raise
        except Exception as error:
            # fastavro raises whatever the bytes lead it to.
            raise Conflict(f"the body is not Avro of a known schema: {error!r:.200}") from None
        if not isinstance(value, dict):
            raise Conflict("the body is not an Avro record")
        return value

    def _decode(self, body: bytes) -> object:
        import fastavro

        if body.startswith(_CONTAINER):
            records = list(fastavro.reader(io.BytesIO(body)))
            if len(records) != 1:
                raise Conflict(f"the body is an Avro container of {len(records)} records, not of one")
            return records[0]
        if body.startswith(_SINGLE_OBJECT):
            start = len(_SINGLE_OBJECT)
            fingerprint = body[start : start + _FINGERPRINT_BYTES]
            for schema in self.schemas:
                if _fingerprint(schema) == fingerprint:
                    return _whole(body[start + _FINGERPRINT_BYTES :], schema)
            raise Conflict(f"the body has an Avro schema that is not known, with the fingerprint {fingerprint.hex()}")
        failure: Exception = Conflict("the body is plain Avro, and no schema was given")
        for schema in self.schemas:
            try:
                return _whole(body, schema)
            except Exception as error:
                failure = error
        raise failure


def _whole(body: bytes, schema: Any) -> object:
    import fastavro

    stream = io.BytesIO(body)
    value = fastavro.schemaless_reader(stream, schema, None)
    if stream.tell() != len(body):
        raise Conflict(f"{len(body) - stream.tell()} bytes of the body are behind the Avro record")
    return value


def _fingerprint(schema: Any) -> bytes:
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def avro_schemas(texts: Sequence[str]) -> tuple[Any, ...]:
    """Read schemas, the newest first."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    schemas = []
    for text in texts:
        try:
            schema = msgspec.json.decode(text)
            parse_schema(schema)
        except (msgspec.DecodeError, SchemaParseException, UnknownType) as error:
            raise ConfigurationError(f"{text!r:.80} is not an Avro schema: {error!r:.200}") from None
        schemas.append(schema)
    return tuple(schemas)
