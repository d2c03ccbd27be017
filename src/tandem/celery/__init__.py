"""Celery on Tandem and on Azure Service Bus: a transport for kombu, which is what Celery talks to brokers through.

    app = Celery("shop", broker=connection_string, broker_transport="tandem.celery:Transport")

The broker URL is a connection string as it stands. With this module imported, `tandem://` in front of it chooses the
transport as well. It needs the package kombu (the extra `celery`).

    broker_url      the connection string in a broker URL
    transport       what kombu makes of it: connects, and hands messages to Celery's event loop
    bus_connection  one connection: its senders, its entities, its channels
    channel         AMQP 0-9-1's verbs, as kombu calls them
    topology        exchanges, queues and bindings as topics, queues and subscriptions
    routing_keys    routing keys and their patterns as properties and filters
    entity_names    names of queues and exchanges as names of entities
    envelopes       kombu's messages as messages of the bus, and back
    intake          receiving for one channel: prefetching, locks and their renewal
    handover        from the thread of the client library to that of the program
"""

from kombu.transport import TRANSPORT_ALIASES

from tandem.celery.transport import Transport

__all__ = ["Transport"]

TRANSPORT_ALIASES["tandem"] = "tandem.celery:Transport"
