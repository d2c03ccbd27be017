"""The tables on disk, and how they change.

The format has a number, in `PRAGMA user_version`. A change of the tables is a new entry at the end of MIGRATIONS,
never a change of an old one: opening a store runs those it has not seen, in one transaction each, and a store that is
newer than the program is left alone. `tests/store/formats` keeps a store of each format; all of them must open.

    message     one row per message. Its key is the stream and the sequence number in one integer (engine.message).
                header .. bare are the parts that tandem.amqp.stored splits a message into; annotations begin with
                their count in four bytes. With a body_number, its bytes are those of that body: all of them if header
                is null, otherwise what lies behind the first front_bytes of the body's, with this row's before it.
    body        the bytes of a message that several subscriptions hold, how many of them, and to which stream its size
                is counted
    stream      counts per line of messages, so that nothing has to be counted at a start
    queue       descriptions of queues, topics and subscriptions, as JSON
    rule        the rules of subscriptions, as JSON
    hub         descriptions of event hubs, as JSON; the events themselves are in tandem.store.log
    setting     values of the namespace by name: its tier, numbers of events that are reserved, and the progress of
                consumer groups (store.progress)
    session     per session: how many active messages, since when, and the application's state. Its id is spelled as it
                was first sent, and compared without regard to case (engine.session_key); so is that of a message.
    superseded_session_state
                states that sessions had under other spellings of their ids before format 4
    duplicate   message ids within the duplicate window
    garbage     streams of deleted queues whose messages are still to be deleted
    commit_count
                the number of the last commit (store.commit_record)
    *_copy      a second copy of queue, rule, hub and setting, which triggers keep: store.salvage reads it

message, body and session have a checksum of the bytes that clients sent (store.checksums); null in small messages.
"""

from __future__ import annotations

from typing import Final

import apsw

from tandem.errors import StoreError

__all__ = ["APPLICATION_ID", "FORMAT_VERSION", "format_of", "migrate"]

# "Tndm", in the file's header: `file` and `tandem check` know it by that.
APPLICATION_ID: Final = 0x546E646D

_FORMAT_1: Final = """
CREATE TABLE message(
    row INTEGER PRIMARY KEY,
    state INTEGER NOT NULL,
    delivery_count INTEGER NOT NULL,
    enqueued_time_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    due_at_ms INTEGER,
    time_to_live_ms INTEGER,
    session_id TEXT,
    size_bytes INTEGER NOT NULL,
    enqueue_sequence_number INTEGER,
    hop_count INTEGER,
    partition INTEGER,
    dead_letter_source TEXT,
    header BLOB,
    delivery_annotations BLOB,
    message_annotations BLOB,
    bare BLOB NOT NULL
);
CREATE INDEX message_due ON message(row >> 44, due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX message_expiry ON message(row >> 44, expires_at_ms, row) WHERE expires_at_ms IS NOT NULL AND state = 0;
CREATE INDEX message_session ON message(row >> 44, session_id, row) WHERE session_id IS NOT NULL;
CREATE TABLE stream(
    stream INTEGER PRIMARY KEY,
    active INTEGER NOT NULL,
    deferred INTEGER NOT NULL,
    scheduled INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    next_sequence_number INTEGER NOT NULL,
    accessed_at_ms INTEGER NOT NULL
);
CREATE TABLE queue(
    number INTEGER PRIMARY KEY,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
);
CREATE TABLE session(
    stream INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    active INTEGER NOT NULL,
    since INTEGER NOT NULL,
    state BLOB,
    updated_at_ms INTEGER,
    UNIQUE(stream, session_id)
);
CREATE INDEX session_ready ON session(stream, since) WHERE active > 0;
CREATE INDEX session_updated ON session(stream, updated_at_ms) WHERE updated_at_ms IS NOT NULL;
CREATE TABLE duplicate(
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    PRIMARY KEY(queue, key)
) WITHOUT ROWID;
CREATE INDEX duplicate_age ON duplicate(queue, seen_at_ms);
CREATE TABLE garbage(stream INTEGER PRIMARY KEY);
CREATE TABLE setting(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

# Topics: a body that several messages share, rules, and what kind of entity a record describes.
_FORMAT_2: Final = """
ALTER TABLE message ADD COLUMN body_number INTEGER;
CREATE TABLE body(
    number INTEGER PRIMARY KEY,
    copies INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    front_bytes INTEGER NOT NULL,
    header BLOB,
    delivery_annotations BLOB,
    message_annotations BLOB,
    bare BLOB NOT NULL
);
CREATE TABLE rule(
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY(queue, name)
) WITHOUT ROWID;
ALTER TABLE queue ADD COLUMN kind TEXT NOT NULL DEFAULT 'queue';
"""

# Event hubs. Their events are in a log beside the database.
_FORMAT_3: Final = """
CREATE TABLE hub(
    number INTEGER PRIMARY KEY,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
);
"""

# Session ids without regard to case. Spellings of one id become one session: its messages are those of all, it waits
# since the oldest did, and its state is the one that was set last. Other states are put aside, and count no longer.
_FORMAT_4: Final = """
DROP INDEX message_session;
CREATE INDEX message_session ON message(row >> 44, lower(session_id), row) WHERE session_id IS NOT NULL;
DROP INDEX session_ready;
DROP INDEX session_updated;
ALTER TABLE session RENAME TO spelling;
CREATE TABLE session(
    stream INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    active INTEGER NOT NULL,
    since INTEGER NOT NULL,
    state BLOB,
    updated_at_ms INTEGER
);
CREATE UNIQUE INDEX session_id ON session(stream, lower(session_id));
CREATE INDEX session_ready ON session(stream, since) WHERE active > 0;
CREATE INDEX session_updated ON session(stream, updated_at_ms) WHERE updated_at_ms IS NOT NULL;
INSERT INTO session
SELECT stream, session_id, all_active, ifnull(first_since, since), state, updated_at_ms FROM (
    SELECT *, sum(active) OVER one AS all_active, min(since) FILTER (WHERE active > 0) OVER one AS first_since,
        row_number() OVER (
            PARTITION BY stream, lower(session_id) ORDER BY state IS NULL, updated_at_ms DESC, active = 0, since
        ) AS place
    FROM spelling WINDOW one AS (PARTITION BY stream, lower(session_id))
) WHERE place = 1;
CREATE TABLE superseded_session_state(
    stream INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    state BLOB NOT NULL,
    updated_at_ms INTEGER
);
INSERT INTO superseded_session_state
SELECT stream, session_id, state, updated_at_ms FROM spelling
    WHERE state IS NOT NULL AND (stream, session_id) NOT IN (SELECT stream, session_id FROM session);
UPDATE stream SET size_bytes = size_bytes - freed_bytes FROM (
    SELECT stream AS number, sum(length(state)) AS freed_bytes FROM superseded_session_state GROUP BY stream
) WHERE stream = number;
DROP TABLE spelling;
"""

# Checksums of what clients have sent, the number of the last commit, and a second copy of all descriptions: a damaged
# page of one table leaves the other. The triggers delete before they insert: inside of a trigger, SQLite replaces the
# conflict clause of a statement with that of the outer statement.
_FORMAT_5: Final = """
ALTER TABLE message ADD COLUMN checksum INTEGER;
ALTER TABLE body ADD COLUMN checksum INTEGER;
ALTER TABLE session ADD COLUMN checksum INTEGER;
CREATE TABLE commit_count(id INTEGER PRIMARY KEY, commits INTEGER NOT NULL);
INSERT INTO commit_count VALUES (1, 0);
CREATE TABLE queue_copy(
    number INTEGER PRIMARY KEY,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL
);
CREATE TABLE rule_copy(
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY(queue, name)
) WITHOUT ROWID;
CREATE TABLE hub_copy(
    number INTEGER PRIMARY KEY,
    fields TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
);
CREATE TABLE setting_copy(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO queue_copy SELECT number, fields, created_at_ms, updated_at_ms, kind FROM queue;
INSERT INTO rule_copy SELECT * FROM rule;
INSERT INTO hub_copy SELECT * FROM hub;
INSERT INTO setting_copy SELECT * FROM setting;
CREATE TRIGGER queue_put AFTER INSERT ON queue BEGIN
    DELETE FROM queue_copy WHERE number = new.number;
    INSERT INTO queue_copy VALUES (new.number, new.fields, new.created_at_ms, new.updated_at_ms, new.kind);
END;
CREATE TRIGGER queue_dropped AFTER DELETE ON queue BEGIN DELETE FROM queue_copy WHERE number = old.number; END;
CREATE TRIGGER rule_put AFTER INSERT ON rule BEGIN
    DELETE FROM rule_copy WHERE queue = new.queue AND name = new.name;
    INSERT INTO rule_copy VALUES (new.queue, new.name, new.fields, new.created_at_ms);
END;
CREATE TRIGGER rule_dropped AFTER DELETE ON rule BEGIN
    DELETE FROM rule_copy WHERE queue = old.queue AND name = old.name;
END;
CREATE TRIGGER hub_put AFTER INSERT ON hub BEGIN
    DELETE FROM hub_copy WHERE number = new.number;
    INSERT INTO hub_copy VALUES (new.number, new.fields, new.created_at_ms, new.updated_at_ms);
END;
CREATE TRIGGER hub_dropped AFTER DELETE ON hub BEGIN DELETE FROM hub_copy WHERE number = old.number; END;
CREATE TRIGGER setting_put AFTER INSERT ON setting BEGIN
    DELETE FROM setting_copy WHERE name = new.name;
    INSERT INTO setting_copy VALUES (new.name, new.value);
END;
CREATE TRIGGER setting_changed AFTER UPDATE ON setting BEGIN
    DELETE FROM setting_copy WHERE name = old.name OR name = new.name;
    INSERT INTO setting_copy VALUES (new.name, new.value);
END;
CREATE TRIGGER setting_dropped AFTER DELETE ON setting BEGIN DELETE FROM setting_copy WHERE name = old.name; END;
"""

MIGRATIONS: Final = (_FORMAT_1, _FORMAT_2, _FORMAT_3, _FORMAT_4, _FORMAT_5)

FORMAT_VERSION: Final = len(MIGRATIONS)


def format_of(connection: apsw.Connection) -> int:
    """The format of a store, 0 of an empty file. Changes nothing, and raises StoreError if the file is not for us."""
    version: int = connection.pragma("user_version")
    is_ours = connection.pragma("application_id") == APPLICATION_ID
    if not is_ours and (version or connection.execute("SELECT count(*) FROM sqlite_schema").get):
        raise StoreError("the database is not Tandem's: choose another data directory")
    if version > FORMAT_VERSION:
        raise StoreError(
            f"the store has format {version}, this Tandem knows formats up to {FORMAT_VERSION}: use a newer one"
        )
    return version


def migrate(connection: apsw.Connection) -> None:
    """Bring the tables to the present format."""
    for number in range(format_of(connection), FORMAT_VERSION):
        with connection:
            connection.execute(MIGRATIONS[number])
            connection.pragma("user_version", number + 1)
            connection.pragma("application_id", APPLICATION_ID)
