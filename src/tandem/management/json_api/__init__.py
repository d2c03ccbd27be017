"""The JSON API: queues, topics, subscriptions, rules and event hubs, and what lies in them, over HTTP.

Each operation is described where it is handled; routes, the OpenAPI document and the reference come from that.

    GET    /$api/v1/queues?skip=&top=           {"queues": [...]} in the order of their names
    PUT    /$api/v1/queues/{name}               create; 201, or 409 if there is one
    GET    /$api/v1/queues/{name}               the settings and the counts
    PATCH  /$api/v1/queues/{name}               change some settings
    DELETE /$api/v1/queues/{name}               delete, with its messages

The same for topics, subscriptions, rules and hubs. A request carries `Authorization: SharedAccessSignature ...`.
Reading needs a token with any right, and writing one with Manage. Names of queues, topics and hubs may hold slashes,
encoded or as they are: what follows them is found from the right.

routes          which path is answered by whom
described       what an operation is
entity_handlers create, show, update, delete and list, for every noun
queues topics subscriptions rules hubs
                the nouns: how each is found, made and shown
explanations    which subscriptions would get a message, and why
messages        looking at messages by their state
tasks           purge, resubmit, move, un-defer: each starts a job
jobs            work in small steps, its progress and its end
sessions        sessions, and the state kept beside them
consumer_groups consumer groups of event hubs
progress        ownerships and checkpoints of consumer groups
hub_partitions  how far the partitions of an event hub have come
hub_events      events: a bulk read in columns, and some of them for people
authorization   shared access rules and their keys
faults          failing on purpose
health          how the broker is
namespace       the namespace itself, and its tier
exports         all entities as one document
imports         and back
openapi         the document that describes the whole JSON API
shapes          the JSON of messages, jobs and sessions, as types
entity_shapes   the JSON of entities, as types
hub_shapes      the JSON of what lies below an event hub, as types
rendering       a message or an event as JSON
reading         reading requests, asking the engine
"""

from __future__ import annotations

from tandem.management.json_api.described import PREFIX
from tandem.management.json_api.routes import add_json_api

__all__ = ["PREFIX", "add_json_api"]
