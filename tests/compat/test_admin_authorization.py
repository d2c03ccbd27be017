"""The shared access rules of an entity: what the official clients may do with their keys, and what not."""

from __future__ import annotations

import http.client
import time
from functools import partial
from typing import Any, Final

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError
from azure.servicebus.management import AccessRights

from tandem.auth.sas import make_token
from tandem.testing import Broker
from tests.compat.admin import SYNC, Admin, new_name, shared_access_rule
from tests.compat.sdk import connection_string, texts
from tests.markers import mission
from tests.patience import PATIENCE_S

PRIMARY, SECONDARY, REPLACED = "cHJpbWFyeQ==", "c2Vjb25kYXJ5", "cmVwbGFjZWQ="
SENDS: Final = shared_access_rule("sends", [AccessRights.SEND], PRIMARY, SECONDARY)
LISTENS: Final = shared_access_rule("listens", [AccessRights.LISTEN], PRIMARY, SECONDARY)
MANAGES: Final = shared_access_rule(
    "manages", [AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN], PRIMARY, SECONDARY
)


def new_queue(broker: Broker, rules: list[Any]) -> str:
    name = new_name("queue")
    with Admin(broker, SYNC) as admin:
        admin.create_queue(name, authorization_rules=rules)
    return name


def send(broker: Broker, queue: str, rule: str, key: str) -> None:
    client = ServiceBusClient.from_connection_string(connection_string(broker, key, rule), retry_total=0)
    with client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("over AMQP"))


def receive(broker: Broker, queue: str, rule: str, key: str) -> list[str]:
    client = ServiceBusClient.from_connection_string(connection_string(broker, key, rule), retry_total=0)
    with client, client.get_queue_receiver(queue, receive_mode="receiveanddelete") as receiver:
        return texts(receiver.receive_messages(10, 0.5))


def over_http(broker: Broker, method: str, path: str, rule: str, key: str) -> int:
    """The status of a request with a token for the entity of the path."""
    entity = path.partition("/messages")[0]
    token = make_token(f"http://127.0.0.1{entity}", rule, key, int(time.time()) + 60)
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, b"over HTTP", {"Authorization": token})
        return connection.getresponse().status
    finally:
        connection.close()


@mission("M4", "M17")
def test_who_may_send_sends_and_does_nothing_else(broker: Broker) -> None:
    queue, other = new_queue(broker, [SENDS]), new_queue(broker, [])
    send(broker, queue, "sends", PRIMARY)
    assert over_http(broker, "POST", f"/{queue}/messages", "sends", SECONDARY) == 201
    with pytest.raises(ServiceBusAuthorizationError):
        receive(broker, queue, "sends", PRIMARY)
    assert over_http(broker, "DELETE", f"/{queue}/messages/head?timeout=0", "sends", PRIMARY) == 401
    with pytest.raises(ServiceBusAuthenticationError):
        send(broker, other, "sends", PRIMARY)
    assert over_http(broker, "POST", f"/{other}/messages", "sends", PRIMARY) == 401
    with Admin(broker, SYNC, PRIMARY, "sends") as admin:
        for call in (
            partial(admin.get_queue, queue),
            partial(admin.delete_queue, queue),
            partial(admin.create_queue, "refused"),
        ):
            with pytest.raises(HttpResponseError) as refused:
                call()
            assert refused.value.status_code == 401
    assert broker.queue(queue)["active_message_count"] == 2


@mission("M4", "M17")
def test_who_may_listen_receives_and_does_not_send(broker: Broker) -> None:
    queue = new_queue(broker, [LISTENS])
    assert over_http(broker, "POST", f"/{queue}/messages", "listens", PRIMARY) == 401
    with pytest.raises(ServiceBusAuthorizationError):
        send(broker, queue, "listens", PRIMARY)
    assert receive(broker, queue, "listens", SECONDARY) == []
    assert over_http(broker, "DELETE", f"/{queue}/messages/head?timeout=0", "listens", PRIMARY) == 204


@mission("M4")
def test_who_manages_one_queue_manages_that_one_only(broker: Broker) -> None:
    queue, other = new_queue(broker, [MANAGES]), new_queue(broker, [])
    with Admin(broker, SYNC, PRIMARY, "manages") as admin:
        properties = admin.get_queue(queue)
        properties.max_delivery_count = 3
        admin.update_queue(properties)
        for call in (
            partial(admin.get_queue, other),
            partial(admin.delete_queue, other),
            admin.list_queues,
            admin.get_namespace_properties,
        ):
            with pytest.raises(HttpResponseError) as refused:
                call()
            assert refused.value.status_code == 401
        # To forward is to send, to a queue that it has no say over.
        properties.forward_to = other
        with pytest.raises(HttpResponseError) as refused:
            admin.update_queue(properties)
        assert refused.value.status_code == 401
        admin.delete_queue(queue)
    assert queue not in {one["name"] for one in broker.queues()}


@mission("M4")
def test_keys_are_replaced_and_gone_with_their_queue(broker: Broker) -> None:
    queue = new_queue(broker, [SENDS])
    messages = f"/{queue}/messages"
    with Admin(broker, SYNC) as admin:
        properties = admin.get_queue(queue)
        properties.authorization_rules[0].primary_key = REPLACED
        admin.update_queue(properties)
        assert over_http(broker, "POST", messages, "sends", PRIMARY) == 401
        assert over_http(broker, "POST", messages, "sends", SECONDARY) == 201
        assert over_http(broker, "POST", messages, "sends", REPLACED) == 201
        properties.authorization_rules = []
        admin.update_queue(properties)
        assert over_http(broker, "POST", messages, "sends", REPLACED) == 401
        properties.authorization_rules = [SENDS]
        admin.update_queue(properties)
        assert over_http(broker, "POST", messages, "sends", PRIMARY) == 201
        admin.delete_queue(queue)
        admin.create_queue(queue)
    assert over_http(broker, "POST", messages, "sends", PRIMARY) == 401
