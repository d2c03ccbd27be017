"""What the cloud service's management cannot do: operations on messages and sessions, exports, and a description of it.

routes          which path is answered by whom
messages        looking at messages by their state
tasks           purge, resubmit, move, un-defer: each starts a job
faults          failing on purpose
health          how the broker is
namespace       the namespace itself, and its tier
jobs            work in small steps, its progress and its end
sessions        sessions, and the state kept beside them
consumer_groups consumer groups of event hubs
hub_partitions  how far the partitions of an event hub have come
hub_events      events: a bulk read in columns, and some of them for people
exports         all entities as one document
imports         and back
openapi         the document that describes the whole JSON API
described       what an operation is
entities        the operations on queues, topics, subscriptions, rules and event hubs
shapes          the JSON of messages, jobs and sessions, as types
entity_shapes   the JSON of entities, as types
hub_shapes      the JSON of what lies below an event hub, as types
rendering       a message or an event as JSON
reading         reading requests, asking the engine
"""

from __future__ import annotations

from tandem.management.operations.described import PREFIX
from tandem.management.operations.routes import add_hub_operations, add_operations

__all__ = ["PREFIX", "add_hub_operations", "add_operations"]
