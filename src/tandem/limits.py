"""Every bound that a client, an operator or a program can meet, with its unit and its reason.

`docs/limits.md` is generated from this file: each constant is documented by the comment right above it, which starts
with the unit. Where the cloud service publishes a figure for the same thing, the comment gives it as "Service: …".
"""

# Longer than 650 lines: all bounds are in one place, so that none is missing from the page.

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

# Bytes of memory. For each encoded byte of a value that is held decoded: a list of empty lists takes one byte for each,
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

# Bytes of memory. By how much the broker grows while one authenticated connection attacks it in any one way. The most
# that is counted for one way is what its transactions hold, 32 MiB, with which 132 MB were measured. What the
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

# Milliseconds. What all connections that wait for a further turn may take together before new input is looked at.
MAX_TURNS_MS: Final = 4

# Milliseconds. The same for all connections that have not proved anything: half as much.
MAX_STRANGER_TURNS_MS: Final = 2

# Units of work. What a connection may have done before it has proved anything, without being slowed down. An SDK needs
# about 100 up to its first token, and 30 more for each that is refused.
STRANGER_BURST_WORK: Final = 500

# Bytes. The largest frame that is read from a connection which has said `open` and not proved anything. A request to
# `$cbs` has at most 32 KiB.
MAX_STRANGER_FRAME_BYTES: Final = 65_536

# Bytes. The largest performative, without its payload, of such a connection: attaches, which are kept decoded, have
# some hundred bytes.
MAX_STRANGER_PERFORMATIVE_BYTES: Final = 4_096

# Requests. What an HTTP connection gets answered at once before one of its requests had a valid token.
STRANGER_BURST_REQUESTS: Final = 100

# Requests per second. What it gets answered beyond these; further ones wait. A probe asks for `/health` every few
# seconds.
STRANGER_REQUESTS_PER_SECOND: Final = 20

# Bytes. What a WebSocket may send before such a connection inside has got a whole message of it. Messages are kept
# until they are whole; one with the largest frame above has 64 KiB, and some wait while the connection is slowed down.
MAX_STRANGER_MESSAGE_BYTES: Final = 262_144

# Bytes. What 1,000 such connections together make the broker hold at most: for each one read of 256 KiB, one frame, the
# incomplete requests of its links (32 KiB each) and 8 attaches. `python -m tests.load.stranger_memory` measures it.
MAX_BYTES_OF_1000_STRANGERS: Final = 1_000_000_000

# Units of work per second. What a connection that has not proved anything gets beyond that; it is not read from
# meanwhile. A put-token request costs 17, so this is one a second: 1,000 such connections take a fifth of the loop.
STRANGER_WORK_PER_SECOND: Final = 20

# --- Connections ------------------------------------------------------------------------------------------------

# Connections. Over all ports, whatever they speak, if the process may have enough file descriptors. The limit of
# descriptors is raised at the start; where the system allows less, there are fewer connections. Beyond it the oldest
# connection that has not proved anything makes room; if there is none, the new one is closed. Service: 5,000 for each
# namespace.
MAX_CONNECTIONS: Final = 10_000

# File descriptors. At least as many are not given to connections: a quarter of the limit, between this and the next. A
# broker at rest has about 30; each namespace takes about 10.
MIN_RESERVED_DESCRIPTORS: Final = 64

# File descriptors. At most as many are kept from connections: each file of the journal takes one, and readers of old
# events up to 128.
MAX_RESERVED_DESCRIPTORS: Final = 512

# Connections. Those on one port that have not said yet what they speak, at most half of all. One inside its TLS
# handshake costs about 60 KB, so all together stay below 60 MB. Beyond it the oldest makes room.
MAX_ARRIVALS: Final = 1_000

# Milliseconds. From being accepted until a connection has said what it speaks, a TLS handshake and the head of the
# first HTTP request included.
FIRST_BYTES_TIMEOUT_MS: Final = 10_000

# Milliseconds. A connection that is younger does not make room for others: when many clients come back at once, as
# after a restart, the rest of them waits in the kernel's queue while the handshakes of the first are computed.
MIN_ARRIVAL_PATIENCE_MS: Final = 2_000

# Bytes. The request line and the headers of the first HTTP request. aiohttp bounds each line to 8,190; a token in a
# header is what makes an honest head long.
MAX_HTTP_HEAD_BYTES: Final = 32_768

# Bytes. A WebSocket message that arrives is held until it is whole. The SDKs put one frame into each: this is two of
# the largest.
MAX_WEBSOCKET_MESSAGE_BYTES: Final = 2_097_152

# Bytes. What Tandem puts into one WebSocket message. It is the largest frame of the service, so that no client meets a
# larger message here than there.
MAX_OUTGOING_WEBSOCKET_BYTES: Final = 65_536

# Links. Of a connection that has not proved anything yet: the two of `$cbs` and the two of `$management`, tried a few
# times.
MAX_LINKS_BEFORE_AUTHENTICATION: Final = 8

# Sessions. Of a connection that has not proved anything yet: one for each of its links.
MAX_SESSIONS_BEFORE_AUTHENTICATION: Final = 8

# Links. Of one connection, whatever its sessions. The SDKs have a handful for each entity.
MAX_LINKS_PER_CONNECTION: Final = 5_000

# Characters. Of a client's name in the stream of operations; the rest of a longer name is cut off.
MAX_CLIENT_NAME_CHARACTERS: Final = 64

# --- Guessing ---------------------------------------------------------------------------------------------------

# Failed authentications. Those of one address that are answered at once: wrong tokens put to `$cbs` or sent with HTTP
# requests, and wrong keys in SASL PLAIN. A misconfigured client with some retries stays below it.
FREE_FAILED_AUTHENTICATIONS: Final = 50

# Failed authentications per second. Those that one address gets answered beyond these. Each one more waits longer, and
# its connection is not read from meanwhile. A valid token or key is never delayed.
FAILED_AUTHENTICATIONS_PER_SECOND: Final = 2

# Failed authentications. The same for the loopback addresses: whoever is there shares the machine, and test suites try
# wrong keys by the hundred.
FREE_LOOPBACK_FAILED_AUTHENTICATIONS: Final = 2_000

# Failed authentications per second. The same beyond these, for the loopback addresses.
LOOPBACK_FAILED_AUTHENTICATIONS_PER_SECOND: Final = 50

# Milliseconds. The longest that the answer to a failed authentication is delayed: below the time-outs of all SDKs,
# which would take silence for a broken network, and less than a stranger's 20 seconds.
MAX_FAILED_AUTHENTICATION_DELAY_MS: Final = 10_000

# Addresses. Those whose failed authentications are remembered; the one that failed longest ago is forgotten. 300 bytes
# each.
MAX_WATCHED_ADDRESSES: Final = 10_000

# --- AMQP: SASL -------------------------------------------------------------------------------------------------

# Bytes. A SASL response beyond this cannot be a rule name and a key.
MAX_SASL_RESPONSE_BYTES: Final = 4_096

# --- AMQP: batches ----------------------------------------------------------------------------------------------

# Messages. A batch (message-format 0x80013700) of more messages than this is refused before it is split: 1 MiB of
# the smallest messages the SDKs write (about 20 bytes with their framing) stays below it.
MAX_MESSAGES_PER_BATCH: Final = 65_536

# Messages. What a queue or a topic takes in one batch. A batch is decided and written in one step, in which nobody else
# is served: some 30 ms for so many. Event hubs do not take their batches apart and allow more. Service: 4,500
# (Standard), about 15,900 (Premium); the SDK for .NET makes no larger ones.
MAX_MESSAGES_PER_SENT_BATCH: Final = 4_500

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

# Subscriptions. Of one topic. Service: 2,000.
MAX_SUBSCRIPTIONS_PER_TOPIC: Final = 2_000

# Filters. SQL filters of all subscriptions of a topic, each of which is evaluated for each message. Service: 2,000.
MAX_SQL_FILTERS_PER_TOPIC: Final = 2_000

# Filters. Correlation filters of all subscriptions of a topic, which an index finds. Service: 100,000.
MAX_CORRELATION_FILTERS_PER_TOPIC: Final = 100_000

# Rules. Of one subscription: as many as its topic may have SQL filters. Each may make a copy of its own.
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

# Hubs. Of one namespace. Each partition costs about 1 KB of memory, whatever it holds. Service: 10 (Standard) to 1,000.
MAX_HUBS: Final = 1_000

# Partitions. Of one hub. Service: 32 (Standard), 100 (Premium), 1,024 (Dedicated).
MAX_PARTITIONS: Final = 1_024

# Consumer groups. Of one hub. Service: 20 (Standard), 100 (Premium), 1,000 (Dedicated).
MAX_CONSUMER_GROUPS: Final = 1_000

# Characters. It is part of every address that a reader writes. Service: 50.
MAX_CONSUMER_GROUP_NAME_CHARACTERS: Final = 50

# Characters. Who processes a partition is a name that processors choose; the SDKs take a UUID, of 36. Service: not
# published.
MAX_OWNER_ID_CHARACTERS: Final = 128

# Characters. The offset of a checkpoint, as a reader got it. Service: not published.
MAX_OFFSET_CHARACTERS: Final = 128

# Kilobytes. An event, or a batch of them. Service: 256 (Basic), 1,024.
MAX_EVENT_SIZE_KILOBYTES: Final = 1_024

# Characters. The key of an event is kept with every event. Service: 128.
MAX_PARTITION_KEY_CHARACTERS: Final = 128

# Milliseconds. A minute: what is kept shorter is gone before it is read. Service: 3,600,000.
MIN_RETENTION_MS: Final = 60_000

# Milliseconds. A hundred years; who wants to keep events for good says so by null. Service: 7,776,000,000 (90 days).
MAX_RETENTION_MS: Final = 3_155_760_000_000

# Bytes. The smallest retention of one partition: it drops whole segments, of 8 MiB, so that less could not be kept.
# Service: not published.
MIN_RETENTION_BYTES: Final = 16_777_216

# Receivers. Those without an epoch, of one partition and consumer group. Service: 5.
MAX_RECEIVERS_WITHOUT_EPOCH: Final = 5

# Producers. Idempotent producers that one partition remembers; the one that was silent longest is forgotten. About
# 300 bytes each.
# Service: not published.
MAX_PRODUCERS_PER_PARTITION: Final = 10_000

# Producers. Idempotent producers of all partitions that a restart remembers. They are written again at the start of
# each file of the journal, of which they take 4 MiB at most. Service: not published.
MAX_REMEMBERED_PRODUCERS: Final = 65_536

# Bytes. The young tail of a partition that somebody reads, from which readers that keep up are served.
MAX_TAIL_BYTES: Final = 1_048_576

# Events. What is read from the store at once for a reader that is behind, and given to one that keeps up before others
# have their turn.
MAX_EVENTS_PER_READ: Final = 1_000

# Bytes. The same in bytes, so that large events do not pile up.
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

# Units of work. About a nanosecond each: what the rules of topics may take in one turn of the event loop: a filter
# costs 500, and a LIKE one for each character that it looks through, or 50 with `_` behind a `%`; an action costs
# 5,000, and what it computes and writes; a copy costs 10,000. Copies of a message that needs more are made in later
# turns; the message waits in its topic, on disk, and whatever is sent there waits behind it. 2,000 filters cost one
# message a million, so a batch of 20 is copied at once, if it is copied to few subscriptions. Service: not published.
RULE_WORK_PER_TURN: Final = 20_000_000

# Properties. User properties that one correlation filter names. Service: not published.
MAX_CORRELATION_PROPERTIES: Final = 64

# Selectors. Different selectors (of JMS) that receivers of one queue or subscription have: each message is judged by
# each of them. Service: selectors only on subscriptions, 2,000 rules per topic.
MAX_SELECTORS_PER_ENTITY: Final = 1_000

# Entities. Temporary queues and topics that clients of JMS make, of one connection: each is an entity of the namespace.
MAX_TEMPORARY_ENTITIES_PER_CONNECTION: Final = 100

# Milliseconds. After this time without use a temporary entity goes that a broker which died has left behind. As long as
# the connection that made the entity is there, it stays. Five minutes are the least that the service allows.
TEMPORARY_ENTITY_IDLE_MS: Final = 300_000

# Bytes. What an action may add to the properties of a message. Service: 65,536 for the whole header.
MAX_HEADER_BYTES: Final = 65_536

# Bytes. Properties of all copies that the actions of a topic's rules make of one message, which are held in memory
# until the copies are on disk: 512 copies with the largest properties that the service allows, 65,536 bytes. For an
# action past it the message counts as one that the rule cannot be evaluated for. Service: not published.
MAX_ACTED_BYTES: Final = 33_554_432

# Characters. A duration or a moment as a text. The longest that a client writes is a duration with seven digits in each
# part, of half this length.
MAX_WRITTEN_VALUE_CHARACTERS: Final = 100

# --- Names and addresses -----------------------------------------------------------------------------------------

# Characters. An address as it was written, with scheme, host and percent-encoding: room for the longest entity name and
# the longest subscription name, every character of them encoded. Service: not published.
MAX_ADDRESS_CHARACTERS: Final = 2_048

# Characters. The path of a queue, a topic or an event hub. Service: 260.
MAX_ENTITY_NAME_CHARACTERS: Final = 260

# Characters. The name of a subscription or of a rule. Service: 50.
MAX_SUBSCRIPTION_NAME_CHARACTERS: Final = 50

# Characters. An endpoint, a rule name and a key of the largest sizes take less than a thousand; a token may take more.
MAX_CONNECTION_STRING_CHARACTERS: Final = 16_384

# Characters. The longest duration that makes sense is .NET's largest, `P10675199DT2H48M5.4775807S`.
MAX_DURATION_CHARACTERS: Final = 64

# --- Keys and tokens ---------------------------------------------------------------------------------------------

# Rules. Shared access rules of a namespace, and of each entity. Service: 12.
MAX_RULES_PER_SCOPE: Final = 12

# Characters. The name of a shared access rule. Service: 256.
MAX_RULE_NAME_CHARACTERS: Final = 256

# Characters. A key that was chosen by somebody else. Service: 44, the base64 of 32 bytes.
MAX_KEY_CHARACTERS: Final = 256

# Bytes. The file of keys: the rules of a namespace and of a thousand entities. A larger file was not written by Tandem.
MAX_KEYS_FILE_BYTES: Final = 16_777_216

# Characters. A shared access signature: a resource of the longest kind with every character encoded, and a few hundred
# for the rest.
MAX_SAS_TOKEN_CHARACTERS: Final = 8_192

# Digits. The expiry in seconds has 10 until the year 2286; clients that write milliseconds by mistake have 13. Python
# needs time that grows with the square of the digits to read a number.
MAX_EXPIRY_DIGITS: Final = 18

# Characters. JSON web tokens of identity providers have 1,000 to 4,000, and more when they list the groups of a user.
# All of it is decoded before the signature can be judged.
MAX_JWT_CHARACTERS: Final = 16_384

# Keys. Identity providers publish two to ten: the present one, the next, and some that tokens in use were signed with.
MAX_JWT_KEYS: Final = 64

# Bits. A shorter RSA key can be broken (RFC 7518, section 3.3).
MIN_RSA_KEY_BITS: Final = 2_048

# Seconds. How far the clock of an identity provider may be ahead of ours: without it a token is refused right after it
# was made. Nothing is added to its expiry.
NOT_BEFORE_LEEWAY_S: Final = 300

# Claims. Tokens that one connection holds, each for another audience. Clients put one or two for every entity they use,
# and a connection has 255 links in each of its sessions.
MAX_CLAIMS_PER_CONNECTION: Final = 4_096

# Seconds. How long a connection may stay without proving anything. Service: 20.
AUTHENTICATION_TIMEOUT_S: Final = 20.0

# --- Management requests over AMQP -------------------------------------------------------------------------------

# Bytes. A request to `$cbs`. A token is at most 16 KiB, and some properties come with it.
MAX_CBS_REQUEST_BYTES: Final = 32_768

# Bytes. A request to `$management` of the namespace, which carries its own token, of at most 16 KiB. Strangers may send
# such requests too.
MAX_HUB_MANAGEMENT_REQUEST_BYTES: Final = 32_768

# Bytes. A declare or a discharge has about thirty, and anybody can send one.
MAX_COORDINATOR_REQUEST_BYTES: Final = 4_096

# Items. Lock tokens, sequence numbers or messages to schedule that one request may name.
MAX_ITEMS_PER_REQUEST: Final = 4_096

# Responses. They wait for credit on one link. One client grants credit only after its request; none has more requests
# under way than this.
MAX_WAITING_RESPONSES: Final = 1_000

# Characters. The selector that says where a reader of a hub begins. The longest that an SDK writes has about 60.
MAX_SELECTOR_CHARACTERS: Final = 256

# --- JSON API ----------------------------------------------------------------------------------------------------

# Bytes. A description with every property at its longest has less than 4 KB; a correlation filter of 64 properties with
# the longest names and values has 82,000 characters. A subscription with more rules than fit is given them one by one.
MAX_JSON_BODY_BYTES: Final = 262_144

# Bytes. A document of `tandem import`. Ten thousand queues have about 6 MB.
MAX_IMPORT_BYTES: Final = 16_777_216

# Entities. One page of a list; the answer says where the next one begins.
MAX_PAGE_ENTITIES: Final = 1_000

# Entities. What a request for a page of a list may skip: more than there can be.
MAX_SKIP: Final = 999_999_999

# Messages. One answer that shows messages; the rest is asked for with `from`.
MAX_BROWSED_MESSAGES: Final = 250

# Steps of the engine. A few deferred messages may be hidden among millions of active ones: after so many steps, each
# over 2,000 messages, the answer is what was found, and where to go on.
MAX_BROWSE_STEPS: Final = 50

# Bytes. How much of a body a preview shows.
PREVIEW_BYTES: Final = 1_024

# Sessions. One answer; the rest is asked for with `after`.
MAX_LISTED_SESSIONS: Final = 1_000

# Bytes. The state of a session, of 1 MiB, and as much again for what JSON and base64 make of it. Larger ones are set
# over AMQP.
MAX_STATE_BODY_BYTES: Final = 2_097_152

# Sequence numbers. One request to un-defer by number.
MAX_UNDEFERRED_NUMBERS: Final = 1_000

# Jobs. Purging, moving and the like, remembered with their results; the oldest is forgotten.
MAX_JOBS: Final = 100

# Jobs. Those that run at the same time: each asks the store for a page at a time.
MAX_RUNNING_JOBS: Final = 8

# Messages. The result of a job names at most these, and as many that could not be moved.
MAX_MENTIONS: Final = 20

# Events. One answer as JSON; the rest is asked for with `from`.
MAX_SHOWN_EVENTS: Final = 1_000

# Bulk reads. Those at the same time: each keeps the segments that it reads from being dropped. Service: it has none.
MAX_BULK_READS: Final = 64

# Seconds. How long the reader of a bulk read may take for one chunk: a Spark task may wait that long for what comes
# behind it.
MAX_BULK_READ_STALL_S: Final = 600.0

# Ranges. Missing events that one bulk read may have: of at most 40 characters each in the head of the answer, which
# clients read up to 8 KiB or more.
MAX_MISSING_RANGES: Final = 100

# Bytes. An answer that commands and `tandem.management.client` read. A page of queues with every property at its
# longest has less than 4 MB; one of rules that compare many properties with long texts can have more.
MAX_HTTP_ANSWER_BYTES: Final = 67_108_864

# Seconds. How long a command waits for a connection to the JSON API, and for each part of an answer.
REQUEST_TIMEOUT_S: Final = 30.0

# --- Atom and REST -----------------------------------------------------------------------------------------------

# Bytes. An XML document. A rule with a correlation filter of 64 properties with the longest names and values has 82,000
# characters.
MAX_XML_BYTES: Final = 262_144

# Levels. A parameter of a rule is the eighth: entry, content, RuleDescription, Filter, Parameters, pair, Value.
MAX_XML_DEPTH: Final = 24

# Elements. Of one document: a correlation filter of 64 properties has 250.
MAX_XML_ELEMENTS: Final = 4_096

# Attributes. Of one element, namespace declarations not counted: honest ones have one or two.
MAX_XML_ATTRIBUTES: Final = 32

# Bytes. A message or a batch over HTTP: 1 MiB, and as much again for what JSON and base64 make of it. Larger ones are
# sent over AMQP.
MAX_REST_REQUEST_BYTES: Final = 2_097_152

# Properties. Application properties of one message over HTTP, each of which is a header.
MAX_HEADER_PROPERTIES: Final = 100

# Characters. One header of an answer: common clients read lines of up to 8,190.
MAX_REST_HEADER_CHARACTERS: Final = 8_000

# Seconds. How long a receive over HTTP waits, if the client does not say, and at most. Service: 60.
MAX_REST_TIMEOUT_S: Final = 60

# --- Configuration -----------------------------------------------------------------------------------------------

# Bytes. Every entity that a namespace may have, with every property written out, is some megabytes.
MAX_CONFIG_FILE_BYTES: Final = 16_777_216

# Namespaces. Of one broker: each has a store of its own, with its files and its memory.
MAX_NAMESPACES: Final = 50

# Credits. Beyond what any machine can do, throttling limits nothing. Service: 1,000 for each namespace (Standard).
MAX_CREDITS_PER_SECOND: Final = 1_000_000_000

# Milliseconds. The largest limit in time of `[health]`, a day: beyond it a limit limits nothing.
MAX_HEALTH_TIME_MS: Final = 86_400_000

# Megabytes. The largest limit in memory or on disk of `[health]`, a petabyte: beyond it a limit limits nothing.
MAX_HEALTH_MEGABYTES: Final = 1_000_000_000

# --- Disk --------------------------------------------------------------------------------------------------------

# Bytes. What a broker keeps of its disk for bad times: as much as SQLite's log may hold, so that it can be copied into
# the database and start from its beginning.
BALLAST_BYTES: Final = 67_108_864

# Bytes. Below this much free space no new messages are taken, well before the disk is full.
MIN_FREE_DISK_BYTES: Final = 33_554_432

# Findings. What `tandem check` lists of a store or a log, and a broker keeps of a log for its health report: more say
# nothing new, and must not fill the memory.
MAX_FINDINGS: Final = 1_000

# --- Faults on purpose -------------------------------------------------------------------------------------------

# Faults. Of one namespace at a time: each operation asks all of them.
MAX_FAULTS: Final = 100

# Milliseconds. By how much an answer or the appearance of a message can be put off: 15 minutes, as long as the service
# says that messages may take while its storage is in trouble.
MAX_FAULT_DELAY_MS: Final = 900_000

# Milliseconds. The longest time that can be stated for a fault, a week; without one it lasts until it is cleared.
MAX_FAULT_DURATION_MS: Final = 604_800_000

# Requests. The highest rate in a second that a fault throttles to.
MAX_FAULT_RATE_PER_SECOND: Final = 1_000_000

# Operations. Those beyond go on at once: each keeps what it was about to do in memory.
MAX_STALLED_OPERATIONS: Final = 10_000

# --- Operations --------------------------------------------------------------------------------------------------

# Kinds of records. In one second: a broker with more clients than that counts the rest together.
MAX_METERED_KINDS: Final = 10_000

# --- Client library ----------------------------------------------------------------------------------------------

# Messages. What one receiver may have fetched ahead of its reader: their locks run while they wait.
MAX_PREFETCH_COUNT: Final = 50_000

# Messages. What one call may ask for at once.
MAX_RECEIVE_BATCH_MESSAGES: Final = 10_000

# Milliseconds. The longest time to live that fits its field in a header: 49 days and 17 hours. A longer one is as good
# as none, and an entity may have any.
MAX_MESSAGE_TIME_TO_LIVE_MS: Final = 4_294_967_295

# Messages. What one `tandem send` or `tandem hub send` sends: more is the work of a benchmark.
MAX_SENT_MESSAGES: Final = 10_000_000

# --- Paired namespaces -------------------------------------------------------------------------------------------

# Queues. More backlog queues spread nothing further, and each is long-polled continuously.
MAX_BACKLOG_QUEUES: Final = 1_000

# Seconds. The longest failover interval and the longest time between two pings, a day: after a day of failures, or
# without a ping, nobody speaks of availability.
MAX_PAIRING_INTERVAL_S: Final = 86_400

# Addresses. More spellings of one primary are not remembered; the oldest go first.
MAX_PRIMARY_ADDRESSES: Final = 8

# Events. What a paired client has not written to its secondary yet; the oldest are left out first.
MAX_WAITING_PAIRING_EVENTS: Final = 1_000

# --- Drills, costs and tests -------------------------------------------------------------------------------------

# Pairs. Each takes a broker and a client of its own on the same machine.
MAX_DRILL_PAIRS: Final = 4

# Digits. A price for a million with six digits behind the point has twelve for a single unit, and one for a gigabyte
# has fifteen for a single byte: decimals hold both exactly.
MAX_PRICE_DIGITS: Final = 6

# Stops. Moving the clock of a test bus stops at each moment at which something is due, so that things happen in their
# order; but what is due every few seconds for a week does not make it stop more often than this.
MAX_CLOCK_STOPS: Final = 1_000

# --- Captures -----------------------------------------------------------------------------------------------------

# Columns, those inside objects counted. What payloads may make of a table that they are parsed into: objects with
# numbers or names as keys would make a column of each. Service: not published.
MAX_PAYLOAD_COLUMNS: Final = 1_000

# Levels. Objects and lists within each other in a parsed payload. Service: not published.
MAX_PAYLOAD_DEPTH: Final = 16
