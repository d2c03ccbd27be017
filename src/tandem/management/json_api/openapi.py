"""The OpenAPI document of the JSON API, made from the descriptions of its operations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from aiohttp import web

import tandem
from tandem.management.answers import json_answer
from tandem.management.json_api.described import PREFIX, Operation, describes
from tandem.management.json_api.shapes import Error

__all__ = ["OpenApiHandlers", "make_document"]

_REFERENCE: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"

# What stands in the URL, by the name it has there.
_IN_PATH: Final = {
    "path": "A queue, a topic, or `topic/Subscriptions/name`. Slashes may be written as %2F.",
    "name": "The name. Slashes of queues, topics and event hubs may be written as %2F.",
    "topic_name": "The name of the topic.",
    "subscription_name": "The name of the subscription.",
    "hub_name": "The name of the event hub.",
    "group": "The name of the consumer group.",
    "partition_id": "The partition: `0`, `1`, and so on.",
    "session_id": "The id of the session; a slash in it is written as %2F.",
    "id": "The id of the job or the fault.",
}


class OpenApiHandlers:
    """`/openapi.json`"""

    def __init__(self, list_operations: Callable[[], list[Operation]]) -> None:
        self._list_operations = list_operations
        # Made when somebody asks for it: that takes a tenth of a second, and most brokers are never asked.
        self._document: bytes | None = None

    @describes(Operation("GET", "/openapi.json", "openapi", "This document.", "", dict[str, Any], tag="namespace"))
    async def show(self, _: web.Request) -> web.Response:
        if self._document is None:
            self._document = msgspec.json.encode(make_document(self._list_operations()))
        return json_answer(msgspec.Raw(self._document))


def make_document(operations: list[Operation]) -> dict[str, Any]:
    kinds: list[Any] = [Error]
    for operation in operations:
        kinds += [operation.answer, *[one.kind for one in operation.parameters]]
        if operation.body is not None:
            kinds.append(operation.body)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    for component in components.values():
        component["description"] = inspect.cleandoc(component["description"])
    # By their text: not all of these types have a hash.
    by_kind = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = _described(operation, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tandem",
            "version": tandem.__version__,
            "description": "Entities of a namespace, and what lies in them. A namespace is chosen by the host name.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`SharedAccessSignature sr=...&sig=...&se=...&skn=...`, or `Bearer` and a token.",
                }
            },
        },
        "security": [{"token": []}],
    }


def _described(operation: Operation, by_kind: dict[str, Any]) -> dict[str, Any]:
    right = f"Needs {operation.right}." if operation.right else "Needs no token."
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": right,
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation, by_kind)],
        "responses": {
            str(operation.status): _content("What was asked for.", by_kind[repr(operation.answer)], operation.streams),
            "default": _content("It was refused, or failed.", by_kind[repr(Error)]),
        },
    }
    if operation.body is not None:
        described["requestBody"] = {
            "content": {_JSON: {"schema": by_kind[repr(operation.body)]}},
            "required": any(one.required for one in msgspec.structs.fields(operation.body)),
        }
    if not operation.right:
        described["security"] = []
    return described


def _content(description: str, schema: object, streams: str | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {_JSON: {"schema": schema}}
    if streams is not None:
        # Of bytes that are no text a schema has nothing to say.
        content[streams] = {}
    return {"description": description, "content": content}


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "description": _IN_PATH[name], "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]


def _query_parameters(operation: Operation, by_kind: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "in": "query", "description": one.text, "schema": by_kind[repr(one.kind)]}
        for one in operation.parameters
    ]
