"""Every bound Tandem sets on what a peer may make it do, with its unit and its reason.

`docs/limits.md` is generated from this file: each constant is documented by the comment right above it. Where the
cloud service publishes a figure for the same thing, the comment gives it as "Service: …".
"""

from __future__ import annotations

from typing import Final

# --- AMQP: frames -----------------------------------------------------------------------------------------------

# Bytes. Before `open` the peer is a stranger: the largest honest frame then is an `open` with a handful of
# properties or a SASL response. The size is judged on the 8-byte frame header, before anything is buffered.
# Service: 65,536 at any time.
MAX_FRAME_SIZE_BEFORE_OPEN_BYTES: Final = 8_192

# Bytes. What we advertise in `open`. 1 MiB lets the official Python SDK send its largest batch in one frame, and a
# connection buffers at most one frame. Service: 65,536.
MAX_FRAME_SIZE_BYTES: Final = 1_048_576

# Bytes. A performative without its payload. It is decoded for as long as it is handled, and takes up to
# DECODED_BYTES_PER_BYTE of its size then; honest ones have some hundred bytes. Service: 65,536, as for any frame.
MAX_PERFORMATIVE_BYTES: Final = 65_536

# Bytes. An attach. One that waits for a session is kept, encoded, until there is one. Honest ones have some hundred
# bytes. Service: 65,536, as for any frame.
MAX_ATTACH_BYTES: Final = 8_192

# Bytes. The smallest max-frame-size a peer may advertise (AMQP 1.0 part 2.7.1).
MIN_MAX_FRAME_SIZE_BYTES: Final = 512

# --- AMQP: values -----------------------------------------------------------------------------------------------

# Levels. Lists, maps, arrays and described types nest at most this deep: recursion is bounded long before Python's
# own limit of 1,000. The official SDKs stop at 64 and none of their messages passes 8.
MAX_NESTING_DEPTH: Final = 32

# Elements. An array of a zero-width type (null, true, uint0, list0, ...) holds 2^32 elements in 9 bytes. Such an
# array is kept as one value and a count and never expanded; a count above this is refused all the same.
MAX_ZERO_WIDTH_ARRAY_COUNT: Final = 65_536

# Bytes of memory for each encoded byte of a value that is held decoded: a list of empty lists takes one byte for each,
# and 56 for the object with 8 for the reference to it.
DECODED_BYTES_PER_BYTE: Final = 64

# --- AMQP: connections, sessions, links -------------------------------------------------------------------------

# Channels. Sessions a peer may hold open on one connection, minus one (channel-max counts from 0). SDKs that open a
# session per link stay in the hundreds. Service: 4,999.
MAX_CHANNEL: Final = 4_999

# Handles. Links a peer may hold attached on one session, minus one (handle-max counts from 0). Service: 255.
MAX_HANDLE: Final = 255

# Transfers. The session's incoming window: how many transfer frames may be under way to us. Service: 5,000.
INCOMING_WINDOW_TRANSFERS: Final = 5_000

# Transfers. The outgoing window we announce; it is informative, what binds us is the peer's incoming window.
# Service: 65,536.
OUTGOING_WINDOW_TRANSFERS: Final = 65_536

# Deliveries. Some SDKs keep sending at zero credit. An overrun up to this many deliveries is tolerated and left to
# TCP's back-pressure; beyond it the link is detached with amqp:link:transfer-limit-exceeded.
MAX_CREDIT_OVERRUN_DELIVERIES: Final = 10_000

# Deliveries. Incoming deliveries on one session that were not settled yet. Each costs about 300 bytes beside its
# payload; past this the session ends with amqp:resource-limit-exceeded.
MAX_UNSETTLED_DELIVERIES: Final = 65_536

# Bytes. Payloads that arrived on one connection and whose outcome the application has not told yet. Past it nothing
# fails: the connection says that it is saturated, and the driver stops reading from that peer until the application
# has caught up, so that a slow disk or a sender that ignores credit costs time and not memory. 64 MiB are 65,536
# messages of 1 KB.
MAX_UNDECIDED_BYTES: Final = 67_108_864

# Bytes. The same for the connections of a broker, where it includes the overhead of each delivery and message, and the
# requests that are not answered yet. A commit holds no more of one connection, so it also bounds how long others wait
# for that commit. 8 MiB are 1,365 messages of 1 KB, each in a delivery of its own.
MAX_UNDECIDED_BYTES_PER_CLIENT: Final = 8_388_608

# Bytes. Overhead of a delivery in that account. A commit acknowledges all deliveries of a connection in one go, so
# there must not be too many of them: 1,638 empty ones fit.
UNDECIDED_DELIVERY_BYTES: Final = 4_096

# Bytes. What a message costs beside its own bytes from its arrival until its commit is durable.
MESSAGE_OVERHEAD_BYTES: Final = 1_024

# Bytes. The sum of all transfers of one delivery, unless the link sets its own max-message-size. Service: 262,144
# (Standard) to 104,857,600 (Premium).
MAX_MESSAGE_SIZE_BYTES: Final = 104_857_600

# Bytes. What all incomplete deliveries of one connection hold together: 64 messages of 256 KiB, or one message of the
# largest size that its link takes if that is more. Without it every link could hold its own. Past it the connection is
# closed.
MAX_INCOMPLETE_BYTES: Final = 16_777_216

# Bytes. A delivery tag is at most 32 octets (AMQP 1.0 part 2.8.7).
MAX_DELIVERY_TAG_BYTES: Final = 32

# Characters. Link names and container ids are kept for as long as the link or connection lives.
MAX_NAME_CHARACTERS: Final = 1_024

# --- One hostile connection -------------------------------------------------------------------------------------

# Bytes of resident memory by which the broker grows while one authenticated connection attacks it in any one way. The
# most that is counted for one way is what its transactions hold, 32 MiB, with which 132 MB were measured. What the
# difference is has not been examined.
MAX_CONNECTION_BYTES: Final = 134_217_728

# --- AMQP: time -------------------------------------------------------------------------------------------------

# Milliseconds. What we advertise in `open`; a peer that is silent for twice as long is dropped (AMQP 1.0 part 2.4.5
# advises to advertise half of the real threshold). Service: 120,000, and it drops after 240,000.
IDLE_TIMEOUT_MS: Final = 120_000

# Milliseconds. A peer that asks for more heartbeats than this is refused: every idle time-out below makes us write
# an empty frame at half the interval, for as long as the connection lives.
MIN_PEER_IDLE_TIMEOUT_MS: Final = 1_000

# --- Fairness ---------------------------------------------------------------------------------------------------

# Units of work. What one connection may have done before the clock is looked at: a frame costs one, and one for each
# KiB of it; a flow costs 4, an attach, a begin or the like 16, a request to `$cbs` or `$management` 16 more. It is one
# to two milliseconds of the costliest frames, and 128 messages of 1 KB.
MAX_WORK_PER_SLICE: Final = 256

# Units of work. A request to `$cbs` or `$management` beside its frame: a signature to verify, or a step of the engine.
REQUEST_WORK: Final = 16

# Milliseconds. What one connection may take of the event loop before others have their turn. Its next bytes stay in the
# kernel meanwhile. At 2 ms a peer that never stops sending delays each step of a neighbour's request by 2 ms; a whole
# read of a well-behaved sender (256 KiB) still takes a few turns only.
MAX_TURN_MS: Final = 2

# Milliseconds. What all connections that wait for a further turn may take together before new input is looked at,
# and the same for all connections that have not proved anything.
MAX_TURNS_MS: Final = 4
MAX_STRANGER_TURNS_MS: Final = 2

# Units of work. What a connection may have done before it has proved anything, without being slowed down. An SDK needs
# about 100 up to its first token, and 30 more for each that is refused.
STRANGER_BURST_WORK: Final = 500

# Bytes. The largest frame, and the largest performative without its payload, that are read from a connection which has
# said `open` and not proved anything. A request to `$cbs` has at most 32 KiB; attaches, which are kept decoded, have
# some hundred bytes.
MAX_STRANGER_FRAME_BYTES: Final = 65_536
MAX_STRANGER_PERFORMATIVE_BYTES: Final = 4_096

# Requests, and requests per second beyond these. What an HTTP connection gets answered before one of its requests had a
# valid token; further ones wait. A probe asks for `/health` every few seconds.
STRANGER_BURST_REQUESTS: Final = 100
STRANGER_REQUESTS_PER_SECOND: Final = 20

# Bytes. What 1,000 such connections together make the broker hold at most: for each one read of 256 KiB, one frame, the
# incomplete requests of its links (32 KiB each) and 8 attaches. `python -m tests.load.stranger_memory` measures it.
MAX_BYTES_OF_1000_STRANGERS: Final = 1_000_000_000

# Units of work per second. What a connection that has not proved anything gets beyond that; it is not read from
# meanwhile. A put-token request costs 17, so this is one a second: 1,000 such connections take a fifth of the loop.
STRANGER_WORK_PER_SECOND: Final = 20

# --- Connections ------------------------------------------------------------------------------------------------

# Connections over all ports, whatever they speak, if the process may have enough file descriptors. The limit of
# descriptors is raised at the start; where the system allows less, there are fewer connections. Beyond it the oldest
# connection that has not proved anything makes room; if there is none, the new one is closed. Service: 5,000 for each
# namespace.
MAX_CONNECTIONS: Final = 10_000

# File descriptors that are not given to connections: a quarter of the limit, between these two. A broker at rest has
# about 30; each namespace takes about 10, each file of the journal one, and readers of old events up to 128.
MIN_RESERVED_DESCRIPTORS: Final = 64
MAX_RESERVED_DESCRIPTORS: Final = 512

# Connections on one port that have not said yet what they speak, at most half of all. One inside its TLS handshake
# costs about 60 KB, so all together stay below 60 MB. Beyond it the oldest makes room.
MAX_ARRIVALS: Final = 1_000

# --- Guessing ---------------------------------------------------------------------------------------------------

# Failed authentications of one address that are answered at once: wrong tokens put to `$cbs` or sent with HTTP
# requests, and wrong keys in SASL PLAIN. A misconfigured client with some retries stays below it.
FREE_FAILED_AUTHENTICATIONS: Final = 50

# Failed authentications per second that one address gets answered beyond these. Each one more waits longer, and its
# connection is not read from meanwhile. A valid token or key is never delayed.
FAILED_AUTHENTICATIONS_PER_SECOND: Final = 2

# The same two for the loopback addresses: whoever is there shares the machine, and test suites try wrong keys by the
# hundred.
FREE_LOOPBACK_FAILED_AUTHENTICATIONS: Final = 2_000
LOOPBACK_FAILED_AUTHENTICATIONS_PER_SECOND: Final = 50

# Milliseconds. The longest that the answer to a failed authentication is delayed: below the time-outs of all SDKs,
# which would take silence for a broken network, and less than a stranger's 20 seconds.
MAX_FAILED_AUTHENTICATION_DELAY_MS: Final = 10_000

# Addresses whose failed authentications are remembered; the one that failed longest ago is forgotten. 300 bytes each.
MAX_WATCHED_ADDRESSES: Final = 10_000

# --- AMQP: SASL -------------------------------------------------------------------------------------------------

# Bytes. A SASL response beyond this cannot be a rule name and a key.
MAX_SASL_RESPONSE_BYTES: Final = 4_096

# --- AMQP: batches ----------------------------------------------------------------------------------------------

# Messages. A batch (message-format 0x80013700) of more messages than this is refused before it is split: 1 MiB of
# the smallest messages the SDKs write (about 20 bytes with their framing) stays below it.
MAX_MESSAGES_PER_BATCH: Final = 65_536

# --- Queues -----------------------------------------------------------------------------------------------------

# Milliseconds. A lock shorter than a round trip and an fsync is lost before it can be used. Service: 5,000.
MIN_LOCK_DURATION_MS: Final = 1_000

# Milliseconds. A receiver that needs longer renews its lock; a crashed one holds its messages back for this long.
# Service: 300,000.
MAX_LOCK_DURATION_MS: Final = 300_000

# Deliveries. The largest that the paired namespaces' backlog queues ask for. Service: 2,000, and 2^31 - 1 for those.
MAX_DELIVERY_COUNT: Final = 2_147_483_647

# Megabytes. A queue may fill the disk if its owner says so. Service: 5,120 (Standard), 81,920 (Premium).
MAX_QUEUE_SIZE_MEGABYTES: Final = 1_048_576

# Kilobytes. MAX_MESSAGE_SIZE_BYTES in the unit of the queue's property. Service: 256 (Standard), 102,400 (Premium).
MAX_MESSAGE_SIZE_KILOBYTES: Final = 102_400

# Milliseconds. Every message id of the window is kept: a shorter one detects nothing, a longer one keeps too much.
# Service: 20,000.
MIN_DUPLICATE_WINDOW_MS: Final = 20_000

# Milliseconds. Seven days. Service: 604,800,000.
MAX_DUPLICATE_WINDOW_MS: Final = 604_800_000

# Milliseconds. Service: 1,000.
MIN_TIME_TO_LIVE_MS: Final = 1_000

# Milliseconds. Five minutes. Service: 300,000.
MIN_AUTO_DELETE_ON_IDLE_MS: Final = 300_000

# Characters. Service: 1,024.
MAX_USER_METADATA_CHARACTERS: Final = 1_024

# Entities. Queues of one namespace. Each costs about 3 KB of memory, whatever it holds. Service: 10,000.
MAX_ENTITIES: Final = 10_000

# Subscriptions of one topic, and SQL filters of all of them, each of which is evaluated for each message.
# Service: 2,000.
MAX_SUBSCRIPTIONS_PER_TOPIC: Final = 2_000
MAX_SQL_FILTERS_PER_TOPIC: Final = 2_000

# Correlation filters of all subscriptions of a topic. Service: 100,000.
MAX_CORRELATION_FILTERS_PER_TOPIC: Final = 100_000

# Rules of one subscription: as many as its topic may have SQL filters. Each may make a copy of its own.
MAX_RULES_PER_SUBSCRIPTION: Final = 2_000

# Characters. Session ids, message ids and partition keys are keys of indexes. Service: 128.
MAX_ID_CHARACTERS: Final = 128

# Bytes. Properties that a receiver sets when it gives a message back or dead-letters it, encoded. Service: 65,536 for
# the whole header.
MAX_PROPERTIES_TO_MODIFY_BYTES: Final = 65_536

# Messages. What a queue with receivers keeps of its head in memory; the rest stays on disk until its turn comes.
MAX_HEAD_MESSAGES: Final = 4_000

# Bytes. The same in bytes, so that large messages do not pile up: sixteen of the default largest size.
MAX_HEAD_BYTES: Final = 4_194_304

# Bytes. What the heads of all entities of a namespace hold. The fuller that is, the smaller is what one head may hold,
# down to MIN_HEAD_BYTES; when it is full, a head that nobody can take from at present is forgotten.
MAX_HEADS_BYTES: Final = 33_554_432

# Bytes. What a head may hold whatever the others do: less would make a query of every message.
MIN_HEAD_BYTES: Final = 65_536

# Bytes. What the receivers of one connection are given in a step, with the overhead of each message, before the
# connection has written it. It bounds what waits for a commit when messages are received and deleted.
MAX_OWED_BYTES: Final = 4_194_304

# Messages. Locked for the receivers of one connection, open and closed. Each lock costs about 1.3 KB. Past it receivers
# get more as messages are settled or their locks expire. Service: not published.
MAX_LOCKS_PER_CONNECTION: Final = 32_768

# Messages. What is read from the store at once to expire, to activate, to delete or to browse. It bounds how long one
# queue can keep all others waiting.
MAX_PAGE_MESSAGES: Final = 1_000

# Messages. One call of batch delete. Service: 500 (Standard), 4,000 (Premium).
MAX_BATCH_DELETE_MESSAGES: Final = 4_000

# Messages. One call of peek. Service: not published; the SDKs ask for at most a few hundred.
MAX_PEEK_MESSAGES: Final = 1_000

# Bytes. What one call of peek answers at most: a response is one message.
MAX_PEEK_BYTES: Final = 4_194_304

# Bytes. What one request by sequence numbers receives at most: its answer is one message, and holds all of them or
# none. Past it the request is refused; a single message is received whatever its size. Service: not published.
MAX_RECEIVE_BYTES: Final = 8_388_608

# Bytes. Answers to requests of one connection that are being made, or wait for credit. A request that finds no room
# waits, and starts when others are answered.
MAX_ANSWER_BYTES: Final = 8_388_608

# Bytes. Answers of one connection that wait for credit on its response links. Past it the link of the next answer is
# detached; one answer is never too much. Twice what requests reserve, since an answer may be larger than was expected.
MAX_WAITING_RESPONSE_BYTES: Final = 16_777_216

# Bytes. A request to `$management` of an entity, which may schedule several messages; or one message of the entity if
# that may be larger.
MAX_MANAGEMENT_REQUEST_BYTES: Final = 1_048_576

# Hops. How often a message is forwarded before it is dead-lettered: a ring of queues must not turn for ever.
# Service: 4 hops.
MAX_HOPS: Final = 4

# Partitions. Of a partitioned queue. Service: 16.
PARTITION_COUNT: Final = 16

# Messages. Sends and settlements of one transaction. Service: 100.
MAX_MESSAGES_PER_TRANSACTION: Final = 100

# Milliseconds. How long a transaction may stay open before it is rolled back. Service: 120,000.
TRANSACTION_TIMEOUT_MS: Final = 120_000

# Transactions. Open at once on one connection. What they hold together is bounded below.
MAX_TRANSACTIONS_PER_CONNECTION: Final = 100

# Bytes. What one open transaction holds: 100 messages of 256 KiB, the largest of the service's Standard tier, with
# their overhead are 26,316,800, rounded up to 26 MiB. Service: 100 messages, no figure in bytes.
MAX_TRANSACTION_BYTES: Final = 27_262_976

# Bytes. What all open transactions of one connection hold: one that is full, and 6 MiB for others beside it.
# Service: not published.
MAX_TRANSACTION_BYTES_PER_CONNECTION: Final = 33_554_432

# Bytes. What all open transactions of a broker hold, in all its namespaces: those of eight connections that hold as
# much as they may. Service: not published.
MAX_TRANSACTION_BYTES_PER_BROKER: Final = 268_435_456

# Transactions. The same before a token was put. Java and .NET declare one, or a few at once, before their first token;
# empty as they are then, each holds some hundred bytes for the 20 seconds that a stranger has.
MAX_TRANSACTIONS_BEFORE_AUTHENTICATION: Final = 8

# Milliseconds. How long a receiver that asks for any session waits for one, unless it names a time. Service: 65,000.
SESSION_WAIT_MS: Final = 65_000

# Milliseconds. How long the link of a receiver stays open after the lock of its session has expired. A client that
# waits for a message exactly as long as the lock lasts stops some tenths of a second later: of 16 such clients 10 saw
# an error without a grace, 7 with 100 ms, and none with 500 ms. The session itself is free at once.
SESSION_CLOSE_GRACE_MS: Final = 500

# Sessions. One call of get-message-sessions. Service: 100 in the SDKs.
MAX_SESSIONS_PER_PAGE: Final = 1_000

# Milliseconds. A backlog of paired namespaces that holds messages counts as stranded when no syphon has had a link to
# it for this long: a long poll of 15 minutes, and a third more. Service: not published.
BACKLOG_STRANDED_AFTER_MS: Final = 1_200_000

# --- Event hubs -------------------------------------------------------------------------------------------------

# Hubs of one namespace. Each partition costs about 1 KB of memory, whatever it holds. Service: 10 (Standard) to 1,000.
MAX_HUBS: Final = 1_000

# Partitions of one hub. Service: 32 (Standard), 100 (Premium), 1,024 (Dedicated).
MAX_PARTITIONS: Final = 1_024

# Consumer groups of one hub. Service: 20 (Standard), 100 (Premium), 1,000 (Dedicated).
MAX_CONSUMER_GROUPS: Final = 1_000

# Characters. It is part of every address that a reader writes. Service: 50.
MAX_CONSUMER_GROUP_NAME_CHARACTERS: Final = 50

# Kilobytes. An event, or a batch of them. Service: 256 (Basic), 1,024.
MAX_EVENT_SIZE_KILOBYTES: Final = 1_024

# Characters. The key of an event is kept with every event. Service: 128.
MAX_PARTITION_KEY_CHARACTERS: Final = 128

# Milliseconds. A minute: what is kept shorter is gone before it is read. Service: 3,600,000.
MIN_RETENTION_MS: Final = 60_000

# Milliseconds. A hundred years; who wants to keep events for good says so by null. Service: 7,776,000,000 (90 days).
MAX_RETENTION_MS: Final = 3_155_760_000_000

# Bytes of one partition. Retention drops whole segments, of 8 MiB: less could not be kept. Service: not published.
MIN_RETENTION_BYTES: Final = 16_777_216

# Receivers without an epoch, of one partition and consumer group. Service: 5.
MAX_RECEIVERS_WITHOUT_EPOCH: Final = 5

# Idempotent producers that one partition remembers; the one that was silent longest is forgotten. About 300 bytes each.
# Service: not published.
MAX_PRODUCERS_PER_PARTITION: Final = 10_000

# Bytes. The young tail of a partition that somebody reads, from which readers that keep up are served.
MAX_TAIL_BYTES: Final = 1_048_576

# Events and bytes. What is read from the store at once for a reader that is behind, and given to one that keeps up
# before others have their turn.
MAX_EVENTS_PER_READ: Final = 1_000
MAX_EVENT_READ_BYTES: Final = 524_288

# --- Rules ------------------------------------------------------------------------------------------------------

# Characters. The text of a filter or of an action; it has at most as many tokens. Service: 1,024.
MAX_EXPRESSION_CHARACTERS: Final = 1_024

# Characters. A property's name in a rule: longer than any that is typed by a person. Service: not published.
MAX_PROPERTY_NAME_CHARACTERS: Final = 256

# Levels. Parentheses, NOT, signs, lists and functions within each other. A text of 1,024 characters could have 512; the
# parser takes three calls of a function for a level, and Python stops at a thousand of them. Service: not published.
MAX_RULE_DEPTH: Final = 64

# Statements. SET and REMOVE of one action. Service: 32.
MAX_RULE_STATEMENTS: Final = 32

# Characters. A pattern may come from a property or a parameter, and so be longer than the text of the rule; matching
# takes time for each character of the text, and memory for each of the pattern. Service: not published.
MAX_PATTERN_CHARACTERS: Final = 1_024

# Characters. A string that a rule puts together: sixteen times "SET a = a + a" would make anything of one character.
# It is as much as a message may have in all its properties. Service: 65,536 bytes for the whole header.
MAX_COMPUTED_CHARACTERS: Final = 65_536

# Units of work, of about a nanosecond. What the rules of topics may take in one turn of the event loop: a filter costs
# 500, and a LIKE one for each character that it looks through, or 50 with `_` behind a `%`. Copies of a message that
# needs more are made in later turns; the message waits in its topic, on disk, and whatever is sent there waits behind
# it. 2,000 filters cost one message a million, so a batch of 20 is copied at once. Service: not published.
RULE_WORK_PER_TURN: Final = 20_000_000

# Properties. User properties that one correlation filter names. Service: not published.
MAX_CORRELATION_PROPERTIES: Final = 64

# Bytes. What an action may add to the properties of a message. Service: 65,536 for the whole header.
MAX_HEADER_BYTES: Final = 65_536

# --- Captures -----------------------------------------------------------------------------------------------------

# Columns, those inside objects counted. What payloads may make of a table that they are parsed into: objects with
# numbers or names as keys would make a column of each. Service: not published.
MAX_PAYLOAD_COLUMNS: Final = 1_000

# Levels. Objects and lists within each other in a parsed payload. Service: not published.
MAX_PAYLOAD_DEPTH: Final = 16
