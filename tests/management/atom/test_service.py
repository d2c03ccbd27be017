"""The management API in XML as it goes over the wire: documents, headers, errors, and what a restart keeps."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from tandem.auth import make_token
from tandem.durations import NEVER_DURATION, date_text, iso_duration
from tandem.entity_settings import SERVICE_WORDS
from tandem.errors import ArgumentError
from tandem.management.atom.paths import Noun, parse_path
from tandem.management.atom.paths import Path as UrlPath
from tandem.wire_names import ticks_of
from tests.management.atom.documents import ATOM, COUNTS, ENTRY, FEED, SERVICE_BUS, UPDATE, elements, entry, put, value
from tests.management.http_api import Http, Reply, serving
from tests.markers import mission


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    async with serving(tmp_path / "data") as http:
        yield http


# --- documents ------------------------------------------------------------------------------------------------------

QUEUE_ELEMENTS: Final = (
    *("LockDuration", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "RequiresSession"),
    *("DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration", "DuplicateDetectionHistoryTimeWindow"),
    *("MaxDeliveryCount", "EnableBatchedOperations", "SizeInBytes", "MessageCount", "IsAnonymousAccessible"),
    *("AuthorizationRules", "Status", "CreatedAt", "UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails"),
    *("AutoDeleteOnIdle", "EnablePartitioning", "EntityAvailabilityStatus", "EnableExpress", "ForwardTo"),
    *("UserMetadata", "ForwardDeadLetteredMessagesTo", "MaxMessageSizeInKilobytes"),
)
TOPIC_ELEMENTS: Final = (
    *("DefaultMessageTimeToLive", "MaxSizeInMegabytes", "RequiresDuplicateDetection"),
    *("DuplicateDetectionHistoryTimeWindow", "EnableBatchedOperations", "SizeInBytes"),
    *("FilteringMessagesBeforePublishing", "IsAnonymousAccessible", "AuthorizationRules", "Status", "CreatedAt"),
    *("UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails", "SubscriptionCount", "SqlFilterCount"),
    *("CorrelationFilterCount", "AutoDeleteOnIdle", "EnablePartitioning", "EntityAvailabilityStatus"),
    *("EnableSubscriptionPartitioning", "EnableExpress", "UserMetadata", "MaxMessageSizeInKilobytes"),
)
SUBSCRIPTION_ELEMENTS: Final = (
    *("LockDuration", "RequiresSession", "DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration"),
    *("DeadLetteringOnFilterEvaluationExceptions", "MessageCount", "MaxDeliveryCount", "EnableBatchedOperations"),
    *("Status", "ForwardTo", "CreatedAt", "UpdatedAt", "AccessedAt", "CountDetails", "ForwardDeadLetteredMessagesTo"),
    *("AutoDeleteOnIdle", "EntityAvailabilityStatus", "UserMetadata"),
)


@mission("M4")
async def test_elements_come_in_the_order_of_the_service(http: Http) -> None:
    forward = "<ForwardTo>q</ForwardTo><ForwardDeadLetteredMessagesTo>q</ForwardDeadLetteredMessagesTo>"
    metadata = "<UserMetadata>x</UserMetadata>"
    await put(http, "/q", "QueueDescription")
    created = await put(http, "/queue", "QueueDescription", forward + metadata)
    assert created.status == 201
    # Right after its creation nothing has been counted, and nobody was there.
    absent = ("AccessedAt", "CountDetails", "SubscriptionCount", "SqlFilterCount", "CorrelationFilterCount")
    assert elements(created, "QueueDescription") == [name for name in QUEUE_ELEMENTS if name not in absent]
    assert elements(await http.ask("GET", "/queue"), "QueueDescription") == list(QUEUE_ELEMENTS)
    created = await put(http, "/topic", "TopicDescription", metadata)
    assert elements(created, "TopicDescription") == [name for name in TOPIC_ELEMENTS if name not in absent]
    assert elements(await http.ask("GET", "/topic"), "TopicDescription") == list(TOPIC_ELEMENTS)
    created = await put(http, "/topic/subscriptions/s", "SubscriptionDescription", forward + metadata)
    assert elements(created, "SubscriptionDescription") == list(SUBSCRIPTION_ELEMENTS)
    assert elements(await http.ask("GET", "/topic/Subscriptions/s/rules/$Default"), "RuleDescription") == [
        *("Filter", "Action", "CreatedAt", "Name"),
    ]


@mission("M4")
async def test_an_entry_says_what_it_is_and_where(http: Http) -> None:
    await put(http, "/Region%2FOrders", "QueueDescription")
    reply = await http.ask("GET", "/region/orders?api-version=2017-04&enrich=False")
    assert (reply.status, reply.headers["content-type"]) == (200, ENTRY)
    assert reply.headers["etag"].isdigit()
    root = ET.fromstring(reply.body)
    assert root.tag == f"{ATOM}entry"
    assert root.findtext(f"{ATOM}id") == f"{http.base}/Region/Orders?api-version=2017-04"
    assert root.findtext(f"{ATOM}title") == "Region/Orders"
    assert root.findtext(f"{ATOM}author/{ATOM}name") == "sbemulatorns"
    for moment in (root.findtext(f"{ATOM}published"), value(reply, "QueueDescription", "CreatedAt")):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", moment or "")
    counts = root.find(f".//{SERVICE_BUS}CountDetails")
    assert counts is not None
    assert [child.tag for child in counts] == [
        f"{COUNTS}{name}MessageCount"
        for name in ("Active", "DeadLetter", "Scheduled", "Transfer", "TransferDeadLetter")
    ]


@mission("M4")
async def test_a_feed_goes_on_by_its_second_link(http: Http) -> None:
    for number in range(5):
        await http.make_queue(f"q{number}")
    reply = await http.ask("GET", "/$Resources/Queues?$skip=1&$top=2&api-version=2021-05")
    assert (reply.status, reply.headers["content-type"]) == (200, FEED)
    root = ET.fromstring(reply.body)
    assert root.findtext(f"{ATOM}title") == "Queues"
    assert [one.findtext(f"{ATOM}title") for one in root.findall(f"{ATOM}entry")] == ["q1", "q2"]
    links = {link.get("rel"): link.get("href") for link in root.findall(f"{ATOM}link")}
    assert links["next"] == f"{http.base}/$Resources/Queues?api-version=2021-05&$skip=3&$top=2"
    last = ET.fromstring((await http.ask("GET", str(links["next"]).removeprefix(http.base))).body)
    assert [one.findtext(f"{ATOM}title") for one in last.findall(f"{ATOM}entry")] == ["q3", "q4"]
    assert len(last.findall(f"{ATOM}link")) == 1
    for page in ("$skip=5", "$top=0", "$skip=999999999"):
        empty = ET.fromstring((await http.ask("GET", f"/$Resources/queues?{page}")).body)
        assert empty.findall(f"{ATOM}entry") == []
    for page in ("$skip=-1", "$top=101", "$top=x", "$skip=9999999999"):
        refused = await http.ask("GET", f"/$Resources/queues?{page}")
        assert (refused.status, page.partition("=")[0] in refused.detail) == (400, True)


# --- updates --------------------------------------------------------------------------------------------------------


@mission("M4")
async def test_an_update_replaces_the_whole_description(http: Http) -> None:
    await put(http, "/q", "QueueDescription", "<MaxDeliveryCount>5</MaxDeliveryCount><UserMetadata>x</UserMetadata>")
    reply = await put(http, "/q", "QueueDescription", "<LockDuration>PT5S</LockDuration>", is_update=True)
    assert reply.status == 200
    assert value(reply, "QueueDescription", "LockDuration") == "PT5S"
    assert value(reply, "QueueDescription", "MaxDeliveryCount") == "10"
    assert value(reply, "QueueDescription", "UserMetadata") is None


@mission("M4")
async def test_what_came_can_be_sent_back_as_it_is(http: Http) -> None:
    await http.make_queue("q")
    await http.send("q")
    reply = await http.ask("GET", "/q")
    again = await http.ask("PUT", "/q", reply.body, UPDATE)
    assert again.status == 200
    same = {"UpdatedAt", "AccessedAt"}
    for name in set(QUEUE_ELEMENTS) - same:
        assert value(again, "QueueDescription", name) == value(reply, "QueueDescription", name)


@mission("M4")
async def test_authorization_rules_stay_unless_others_are_sent(http: Http) -> None:
    rule = (
        "<AuthorizationRules><AuthorizationRule i:type='SharedAccessAuthorizationRule'><Rights>"
        "<AccessRights>Send</AccessRights></Rights><KeyName>k</KeyName></AuthorizationRule></AuthorizationRules>"
    )
    await put(http, "/q", "QueueDescription", rule)

    def keys(reply: Reply) -> list[str | None]:
        return [key.text for key in ET.fromstring(reply.body).iter(f"{SERVICE_BUS}PrimaryKey")]

    (made,) = keys(await http.ask("GET", "/q"))
    assert len(made or "") == 44  # A rule without keys gets some: 32 bytes, as base64.
    assert keys(await put(http, "/q", "QueueDescription", is_update=True)) == [made]
    assert keys(await put(http, "/q", "QueueDescription", "<AuthorizationRules/>", is_update=True)) == []
    bad = rule.replace("Send", "Fly")
    refused = await put(http, "/q", "QueueDescription", bad, is_update=True)
    assert (refused.status, "AuthorizationRules" in refused.detail) == (400, True)
    many = rule.replace("k<", "k{}<")
    inner = "".join(
        many.format(number)[len("<AuthorizationRules>") : -len("</AuthorizationRules>")] for number in range(13)
    )
    refused = await put(
        http, "/q", "QueueDescription", f"<AuthorizationRules>{inner}</AuthorizationRules>", is_update=True
    )
    assert (refused.status, "at most 12" in refused.detail) == (400, True)


@mission("M4")
async def test_rules_and_keys_of_entities_are_there_after_a_restart(tmp_path: Path) -> None:
    pair = "<KeyValueOfstringanyType><Key>@p</Key><Value i:type='x:double'>{}</Value></KeyValueOfstringanyType>"
    async with serving(tmp_path / "data") as http:
        keys = (
            "<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Send</AccessRights></Rights>"
            "<KeyName>k</KeyName><PrimaryKey>secret</PrimaryKey></AuthorizationRule></AuthorizationRules>"
        )
        assert (await put(http, "/q", "QueueDescription", keys)).status == 201
        await put(http, "/t", "TopicDescription")
        await put(http, "/t/subscriptions/s", "SubscriptionDescription")
        # Numbers that JSON has no word for.
        for number, text in enumerate(("INF", "-INF", "NaN")):
            content = (
                "<Filter i:type='SqlFilter'><SqlExpression>a = @p</SqlExpression>"
                f"<Parameters>{pair.format(text)}</Parameters></Filter>"
            )
            assert (await put(http, f"/t/subscriptions/s/rules/r{number}", "RuleDescription", content)).status == 201
        before = await http.ask("GET", "/t/subscriptions/s/rules")
    async with serving(tmp_path / "data") as http:
        after = await http.ask("GET", "/t/subscriptions/s/rules")
        assert re.findall(rb"double\"[^>]*>([^<]*)<", after.body) == [b"INF", b"-INF", b"NaN"]
        assert len(after.body) == len(before.body)
        token = make_token(f"{http.base}/q", "k", "secret", int(time.time()) + 60)
        assert (await http.ask("POST", "/q/messages", b"x", token=token)).status == 201
        assert (await http.ask("DELETE", "/q/messages/head?timeout=0", token=token)).status == 401


# --- refusals -------------------------------------------------------------------------------------------------------


@mission("M4")
@pytest.mark.parametrize(
    "body, words",
    [
        (b"", "the XML is wrong"),
        (b"{}", "the XML is wrong"),
        (b"<entry/>", "must be an Atom entry"),
        (b"<a><content><QueueDescription/></content></a>", "must be an Atom entry"),
        (b"<entry><content/></entry>", "must be an Atom entry"),
        (b"<entry><content><QueueDescription/><QueueDescription/></content></entry>", "must be an Atom entry"),
        (b"<entry><content><HubDescription/></content></entry>", "it must be QueueDescription"),
        (entry("QueueDescription", "<LockDuration>soon</LockDuration>").encode(), "LockDuration is 'soon'"),
        (entry("QueueDescription", "<MaxDeliveryCount>1.5</MaxDeliveryCount>").encode(), "MaxDeliveryCount is '1.5'"),
        (entry("QueueDescription", "<RequiresSession>maybe</RequiresSession>").encode(), "RequiresSession is 'maybe'"),
        (entry("QueueDescription", "<ForwardTo>sb://host/</ForwardTo>").encode(), "ForwardTo is 'sb://host/'"),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><entry>&x;</entry>', "document type declaration"),
    ],
    ids=range(12),
)
async def test_a_body_that_is_no_description_is_refused(http: Http, body: bytes, words: str) -> None:
    reply = await http.ask("PUT", "/q", body)
    assert (reply.status, words in reply.detail) == (400, True), reply.detail
    assert reply.detail.startswith("SubCode=40000. Bad Request. ")
    assert re.search(r"TrackingId:[0-9a-f-]{36}_G\d+, SystemTracker:\S+:q, Timestamp:\S+$", reply.detail)


async def test_a_body_that_is_too_long_is_refused(http: Http) -> None:
    reply = await http.ask("PUT", "/q", entry("QueueDescription", f"<UserMetadata>{'x' * 262_144}</UserMetadata>"))
    assert (reply.status, "262,144 bytes" in reply.detail) == (413, True)


async def test_a_method_that_nothing_has_is_refused_with_those_it_has(http: Http) -> None:
    for method, path, allowed in (
        ("POST", "/q", "GET, PUT, DELETE"),
        ("PATCH", "/q", "GET, PUT, DELETE"),
        ("PUT", "/$Resources/queues", "GET"),
        ("DELETE", "/$namespaceinfo", "GET"),
        ("PUT", "/t/subscriptions", "GET"),
    ):
        reply = await http.ask(method, path)
        assert reply.status == 405
        assert sorted(reply.headers["allow"].replace(" ", "").split(",")) == sorted(allowed.replace(" ", "").split(","))
    for path in ("/$Resources", "/$Resources/hubs", "/$cbs", "/q/$management"):
        assert (await http.ask("GET", path)).status == 404, path


async def test_a_queue_is_no_topic(http: Http) -> None:
    await http.make_queue("q")
    assert (await put(http, "/q", "TopicDescription")).status == 409
    assert (await put(http, "/q", "TopicDescription", is_update=True)).status == 404
    assert (await put(http, "/q/subscriptions/s", "SubscriptionDescription")).status == 404
    assert (await http.ask("GET", "/q/subscriptions")).status == 404


async def test_a_subscription_whose_rule_cannot_be_is_not_made(http: Http) -> None:
    await put(http, "/t", "TopicDescription")
    rule = (
        "<DefaultRuleDescription><Filter i:type='SqlFilter'><SqlExpression>{}</SqlExpression></Filter><Name>{}</Name>"
        "</DefaultRuleDescription>"
    )
    for expression, name in (("a = = 1", "r"), ("a = 1", "n" * 51)):
        refused = await put(http, "/t/subscriptions/s", "SubscriptionDescription", rule.format(expression, name))
        assert refused.status == 400
    assert not http.broker.namespace.topic("t").subscriptions
    assert (await put(http, "/t/subscriptions/s", "SubscriptionDescription", rule.format("a = 1", "r"))).status == 201
    assert list(http.broker.namespace.subscription("t", "s").rules) == ["r"]


# --- event hubs -----------------------------------------------------------------------------------------------------

HUB_ELEMENTS: Final = (
    *("SizeInBytes", "MessageRetentionInDays", "AuthorizationRules", "Status", "UserMetadata", "CreatedAt"),
    *("UpdatedAt", "PartitionCount", "EntityAvailabilityStatus", "PartitionIds"),
)


@mission("M4", "M10")
async def test_a_hub_is_described_in_the_order_of_the_service(http: Http) -> None:
    content = "<MessageRetentionInDays>2</MessageRetentionInDays><UserMetadata> a </UserMetadata>"
    content += "<PartitionCount>3</PartitionCount>"
    made = await put(http, "/telemetry", "EventHubDescription", content)
    assert (made.status, made.headers["content-type"]) == (201, ENTRY)
    assert elements(made, "EventHubDescription") == list(HUB_ELEMENTS)
    assert value(made, "EventHubDescription", "UserMetadata") == " a "
    ids = ET.fromstring(made.body).iter("{http://schemas.microsoft.com/2003/10/Serialization/Arrays}string")
    assert [one.text for one in ids] == ["0", "1", "2"]
    assert (await put(http, "/telemetry", "EventHubDescription")).status == 409
    assert (await put(http, "/telemetry", "QueueDescription")).status == 409
    assert (await put(http, "/telemetry", "QueueDescription", is_update=True)).status == 404
    assert (await put(http, "/other", "EventHubDescription", is_update=True)).status == 404


async def test_rules_of_a_hub_are_kept_unless_the_document_has_others(http: Http) -> None:
    rule = (
        "<AuthorizationRules><AuthorizationRule i:type='SharedAccessAuthorizationRule'><Rights>"
        "<AccessRights>Send</AccessRights></Rights><KeyName>devices</KeyName></AuthorizationRule></AuthorizationRules>"
    )
    made = await put(http, "/telemetry", "EventHubDescription", rule)
    key = ET.fromstring(made.body).findtext(f".//{SERVICE_BUS}PrimaryKey")
    assert key
    kept = await put(http, "/telemetry", "EventHubDescription", is_update=True)
    assert ET.fromstring(kept.body).findtext(f".//{SERVICE_BUS}PrimaryKey") == key
    cleared = await put(http, "/telemetry", "EventHubDescription", "<AuthorizationRules/>", is_update=True)
    assert ET.fromstring(cleared.body).findtext(f".//{SERVICE_BUS}PrimaryKey") is None


@mission("M10")
async def test_the_lists_of_hubs_and_of_consumer_groups_come_in_pages(http: Http) -> None:
    for name in ("a", "b", "c"):
        assert (await put(http, f"/{name}", "EventHubDescription")).status == 201
    page = await http.ask("GET", "/$Resources/EventHubs?$skip=1&$top=1")
    assert page.headers["content-type"] == FEED
    assert [one.text for one in ET.fromstring(page.body).iterfind(f"{ATOM}entry/{ATOM}title")] == ["b"]
    assert (await put(http, "/a/consumergroups/one", "ConsumerGroupDescription")).status == 201
    assert (await put(http, "/a/consumergroups/one", "ConsumerGroupDescription", is_update=True)).status == 200
    assert (await put(http, "/a/consumergroups/two", "QueueDescription")).status == 400
    groups = await http.ask("GET", "/a/ConsumerGroups")
    assert [one.text for one in ET.fromstring(groups.body).iterfind(f"{ATOM}entry/{ATOM}title")] == ["$Default", "one"]
    assert (await http.ask("GET", "/missing/consumergroups")).status == 404
    assert (await http.ask("DELETE", "/a/consumergroups/one")).status == 200
    assert (await http.ask("DELETE", "/a/consumergroups/one")).status == 404
    assert (await http.ask("DELETE", "/a")).status == 200
    assert (await http.ask("POST", "/b/consumergroups/one")).status == 405


# --- parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw_path, expected",
    [
        ("/q", UrlPath(Noun.ENTITY, "q")),
        ("/a/b", UrlPath(Noun.ENTITY, "a/b")),
        ("/a%2Fb", UrlPath(Noun.ENTITY, "a/b")),
        ("/$resources/QUEUES", UrlPath(Noun.QUEUES)),
        ("/$Resources/Topics", UrlPath(Noun.TOPICS)),
        ("/$resources/EventHubs", UrlPath(Noun.EVENT_HUBS)),
        ("/$resources/others", UrlPath(Noun.NOTHING)),
        ("/a/h/consumerGroups", UrlPath(Noun.CONSUMER_GROUPS, "a/h")),
        ("/h/ConsumerGroups/$Default", UrlPath(Noun.CONSUMER_GROUP, "h", consumer_group="$Default")),
        ("/$NamespaceInfo", UrlPath(Noun.NAMESPACE)),
        ("/t/Subscriptions", UrlPath(Noun.SUBSCRIPTIONS, "t")),
        ("/a/t/subscriptions/s", UrlPath(Noun.SUBSCRIPTION, "a/t", "s")),
        ("/t/subscriptions/s/Rules", UrlPath(Noun.RULES, "t", "s")),
        ("/t/subscriptions/s/rules/$Default", UrlPath(Noun.RULE, "t", "s", "$Default")),
        ("/t/subscriptions/subscriptions", UrlPath(Noun.SUBSCRIPTION, "t", "subscriptions")),
        ("/t/subscriptions/s/rules/rules", UrlPath(Noun.RULE, "t", "s", "rules")),
        ("/subscriptions", UrlPath(Noun.ENTITY, "subscriptions")),
        ("/", UrlPath(Noun.EVERYTHING)),
        ("/q/$DeadLetterQueue", UrlPath(Noun.SUB_QUEUE, "q")),
        ("/a/$x", UrlPath(Noun.NOTHING)),
    ],
)
def test_a_path_names(raw_path: str, expected: UrlPath) -> None:
    assert parse_path(raw_path) == expected


@pytest.mark.parametrize(
    "value_ms, text",
    [
        (None, NEVER_DURATION),
        (1 << 61, NEVER_DURATION),
        (0, "PT0S"),
        (1, "PT0.001S"),
        (60_000, "PT1M"),
        (86_400_000, "P1D"),
        (93_784_005, "P1DT2H3M4.005S"),
        (3_600_500, "PT1H0.5S"),
    ],
)
def test_durations_are_written_as_the_service_does(value_ms: int | None, text: str) -> None:
    assert iso_duration(value_ms) == text


def test_dates_have_seven_digits_and_ticks_count_from_the_year_one() -> None:
    assert date_text(1_600_000_000_123) == "2020-09-13T12:26:40.1230000Z"
    assert date_text(None) == "0001-01-01T00:00:00Z"
    assert ticks_of(0) == 621_355_968_000_000_000


@pytest.mark.parametrize(
    "error, expected",
    [
        (
            ArgumentError.of(
                "{field} is {value}; at least {least}", "lock_duration_ms", value=2_160_000_000, least=1_000
            ),
            "LockDuration is P25D; at least PT1S",
        ),
        (ArgumentError.of("{field} is {value}", "max_delivery_count", value=0), "MaxDeliveryCount is 0"),
        (ArgumentError.of("{field} is {value}", "forward_to", value="{field} {x"), "ForwardTo is '{field} {x'"),
        (ArgumentError.of("{field} is {value}", "status", value="x"), "Status is 'x'"),
        (ArgumentError.of("{field} {value}", "name", value="x"), "Name 'x'"),
        (ArgumentError.of("{field}: {reason}", "authorization_rules", reason="none."), "AuthorizationRules: none."),
    ],
)
def test_errors_speak_of_elements(error: ArgumentError, expected: str) -> None:
    assert error.argument is not None
    assert SERVICE_WORDS.sentence(error.argument) == expected
