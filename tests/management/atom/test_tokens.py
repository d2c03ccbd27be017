"""JSON web tokens in the headers of HTTP requests, with and without the word that names their scheme."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import jwt
import pytest

from tests.management.atom.documents import entry, put
from tests.management.http_api import Http, serving
from tests.markers import mission

SIGNED: Final = jwt.encode({"sub": "somebody", "exp": 4_102_444_800}, "k" * 32, algorithm="HS256")
SUPPLEMENTARY: Final = ("ServiceBusSupplementaryAuthorization", "ServiceBusDlqSupplementaryAuthorization")


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    async with serving(tmp_path / "data") as http:
        yield http


@mission("M4")
@pytest.mark.parametrize("token", [SIGNED, f"Bearer {SIGNED}", f"bearer {SIGNED}"])
async def test_a_json_web_token_counts_with_and_without_its_scheme(http: Http, token: str) -> None:
    created = await http.ask("PUT", "/orders", entry("QueueDescription"), token=token)
    assert created.status == 201
    assert (await http.ask("POST", "/orders/messages", b"x", token=token)).status == 201
    assert (await http.ask("GET", "/$Resources/queues", token=token)).status == 200


@mission("M4")
@pytest.mark.parametrize("token", [SIGNED, f"Bearer {SIGNED}"])
async def test_a_json_web_token_for_the_target_of_forwarding_needs_no_scheme(http: Http, token: str) -> None:
    await put(http, "/target", "QueueDescription")
    forward = "<ForwardTo>target</ForwardTo><ForwardDeadLetteredMessagesTo>target</ForwardDeadLetteredMessagesTo>"
    own = http.api.token("/source")
    document = entry("QueueDescription", forward)
    headers = dict.fromkeys(SUPPLEMENTARY, token)
    assert (await http.ask("PUT", "/source", document, headers, token=own)).status == 201
    # The token of the request says nothing about the target.
    assert (await http.ask("PUT", "/source", document, token=own)).status == 401


@pytest.mark.parametrize("token", ["a.b.c", "Basic eDp5", SIGNED[:-1] + "é", f"Digest {SIGNED}"])
async def test_what_only_resembles_a_json_web_token_is_refused(http: Http, token: str) -> None:
    refused = await http.ask("GET", "/$Resources/queues", token=token)
    assert (refused.status, "MalformedToken" in refused.detail) == (401, True), refused.detail
