"""What outages did: when entities failed over and came back, what took the detour, and how messages arrived.

The states come from what paired clients told. A client knows only of itself, so that the outage of an entity is all
overlapping failovers of its clients together: from the first that failed to the last that returned.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

__all__ = [
    "arrivals",
    "backlog_changes",
    "backlog_depth",
    "backlog_queue_changes",
    "backlog_queues",
    "outages",
    "pings",
]

_ENTITY: Final = ("primary", "entity")
_QUEUE: Final = ("namespace", "entity")
_BACKLOG_QUEUES: Final = "%/x-servicebus-transfer/%"

# Later than any moment that is known: an outage that is not over.
_NEVER: Final = "9999-12-31 00:00:00"


def outages(events: DataFrame) -> DataFrame:
    """One row for each outage of an entity.

    The times are those of `tandem.pairing.outage_times`. Null stands for something that has not happened yet.
    """
    merged = _merged(_failovers(events))
    by_entity = Window.partitionBy(*_ENTITY).orderBy("failing_at")
    numbered = merged.select(
        "*",
        sql.row_number().over(by_entity).alias("outage"),
        # What comes before the next outage belongs to this one: a backlog is drained after the return.
        sql.coalesce(sql.lead("failing_at").over(by_entity), _moment(_NEVER)).alias("until"),
    )
    counted = _counted(numbered, events)
    return counted.select(
        *_ENTITY,
        "outage",
        "clients",
        "failing_at",
        "failed_over_at",
        "restored_at",
        "drained_at",
        _seconds("failing_at", "failed_over_at").alias("seconds_to_detect"),
        _seconds("failed_over_at", "restored_at").alias("seconds_to_restore"),
        _seconds("restored_at", "drained_at").alias("seconds_to_drain"),
        "pings",
        "diverted",
        "syphoned",
    )


def pings(events: DataFrame) -> DataFrame:
    """Every question whether the primary is back, and its answer."""
    asked = events.where(sql.col("event") == "ping")
    return asked.select("time", *_ENTITY, "client", "outcome")


def backlog_depth(events: DataFrame) -> DataFrame:
    """How many messages of an entity were on the detour, after each second in which that changed."""
    return _running(backlog_changes(events), _ENTITY)


def backlog_changes(events: DataFrame) -> DataFrame:
    """By how much that changed in each second. Changes of parts of the events add up."""
    change = _count_of("diverted") - _count_of("syphoned")
    return (
        events.where(sql.col("event").isin("diverted", "syphoned"))
        .groupBy(*_ENTITY, sql.date_trunc("second", "time").alias("time"))
        .agg(sql.sum(change).alias("change"))
    )


def backlog_queues(operations: DataFrame) -> DataFrame:
    """How many messages each backlog queue held, by what the broker counted: sent to it, and completed."""
    return _running(backlog_queue_changes(operations), _QUEUE)


def backlog_queue_changes(operations: DataFrame) -> DataFrame:
    """By how much that changed in each second. Changes of parts of the operations add up."""
    came = sql.when(sql.col("operation") == "send", sql.col("count"))
    went = sql.when(sql.col("operation") == "complete", sql.col("count"))
    return (
        operations.where(sql.col("entity").like(_BACKLOG_QUEUES) & (sql.col("outcome") == "ok"))
        .groupBy(*_QUEUE, "time")
        .agg(sql.sum(sql.coalesce(came, sql.lit(0)) - sql.coalesce(went, sql.lit(0))).alias("change"))
        .where(sql.col("change") != 0)
    )


def arrivals(sent: DataFrame, received: DataFrame, *, late_after_s: float = 60.0) -> DataFrame:
    """How messages arrived, by entity: lost, twice, out of order, late.

    Both have `entity`, `messageId` and `number`, rising in the order of the sends; `time` is when it was sent, or
    received. A message is out of order if one with a higher number came before it, and late by its first arrival.
    """
    by_message = Window.partitionBy("entity", "messageId").orderBy("time", "number")
    first = received.withColumn("copy", sql.row_number().over(by_message)).where(sql.col("copy") == 1)
    before = Window.partitionBy("entity").orderBy("time", "number").rowsBetween(Window.unboundedPreceding, -1)
    first = first.select(
        "entity",
        "messageId",
        sql.col("time").alias("received_at"),
        sql.coalesce(sql.max("number").over(before) > sql.col("number"), sql.lit(False)).alias("is_out_of_order"),
    )
    copies = received.groupBy("entity").agg(sql.count("*").alias("received"))
    waited_s = sql.col("received_at").cast("double") - sql.col("time").cast("double")
    judged = (
        sent.join(first, ["entity", "messageId"], "left")
        .groupBy("entity")
        .agg(
            sql.count("*").alias("sent"),
            sql.count("received_at").alias("arrived"),
            sql.count_if("is_out_of_order").alias("out_of_order"),
            sql.count_if(waited_s > late_after_s).alias("late"),
            sql.max(waited_s).alias("longest_s"),
        )
    )
    every = judged.join(copies, "entity", "left").fillna(0, ["received"])
    return every.select(
        "entity",
        "sent",
        "received",
        (sql.col("sent") - sql.col("arrived")).alias("lost"),
        (sql.col("received") - sql.col("arrived")).alias("duplicates"),
        "out_of_order",
        "late",
        "longest_s",
    ).orderBy("entity")


# --- steps ----------------------------------------------------------------------------------------------------------


def _failovers(events: DataFrame) -> DataFrame:
    """One row for each failover of each client: since when it failed, and when it returned."""
    of_client = Window.partitionBy(*_ENTITY, "client").orderBy("time", "partition", "sequenceNumber")
    until_now = of_client.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    from_now = of_client.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    states = events.where(sql.col("event").isin("failing", "failed-over", "restored"))
    seen = states.select(
        *_ENTITY,
        "client",
        "event",
        "time",
        sql.last(_time_of("failing"), ignorenulls=True).over(until_now).alias("failing_at"),
        sql.last(_time_of("restored"), ignorenulls=True).over(until_now).alias("before"),
        sql.first(_time_of("restored"), ignorenulls=True).over(from_now).alias("restored_at"),
    )
    # With a failover interval of nothing there is no failing: what is older than the last return is another story.
    is_own = sql.col("failing_at") >= sql.coalesce(sql.col("before"), sql.col("failing_at"))
    return seen.where(sql.col("event") == "failed-over").select(
        *_ENTITY,
        "client",
        sql.coalesce(sql.when(is_own, sql.col("failing_at")), sql.col("time")).alias("failing_at"),
        sql.col("time").alias("failed_over_at"),
        "restored_at",
    )


def _merged(failovers: DataFrame) -> DataFrame:
    """Failovers that overlap, of several clients, as one outage of the entity."""
    in_order = Window.partitionBy(*_ENTITY).orderBy("failing_at", "failed_over_at", "client")
    end = sql.coalesce(sql.col("restored_at"), _moment(_NEVER))
    latest_before = sql.max(end).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    is_new = sql.coalesce(sql.col("failing_at") > latest_before, sql.lit(True))
    islands = failovers.withColumn("is_new", is_new.cast("int")).withColumn(
        "island", sql.sum("is_new").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    return islands.groupBy(*_ENTITY, "island").agg(
        sql.count_distinct("client").alias("clients"),
        sql.min("failing_at").alias("failing_at"),
        sql.min("failed_over_at").alias("failed_over_at"),
        sql.when(sql.count("restored_at") == sql.count("*"), sql.max("restored_at")).alias("restored_at"),
    )


def _counted(numbered: DataFrame, events: DataFrame) -> DataFrame:
    """Outages with what happened in them."""
    happened = events.select(*_ENTITY, "event", "time", "count")
    keys = [*_ENTITY, "outage", "clients", "failing_at", "failed_over_at", "restored_at"]
    is_inside = (sql.col("time") >= sql.col("failing_at")) & (sql.col("time") < sql.col("until"))
    return (
        numbered.join(happened, list(_ENTITY), "left")
        .where(is_inside)
        .groupBy(*keys)
        .agg(
            sql.count_if(sql.col("event") == "ping").alias("pings"),
            sql.sum(_count_of("diverted")).alias("diverted"),
            sql.sum(_count_of("syphoned")).alias("syphoned"),
            sql.max(_time_of("syphoned")).alias("last_syphoned_at"),
        )
        # What was diverted and has not come back yet is still to be drained.
        .withColumn("drained_at", sql.when(sql.col("syphoned") >= sql.col("diverted"), sql.col("last_syphoned_at")))
    )


def _running(changes: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    so_far = Window.partitionBy(*keys).orderBy("time").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return changes.select("time", *keys, sql.sum("change").over(so_far).alias("depth"))


def _time_of(event: str) -> Column:
    return sql.when(sql.col("event") == event, sql.col("time"))


def _count_of(event: str) -> Column:
    return sql.when(sql.col("event") == event, sql.coalesce(sql.col("count"), sql.lit(1))).otherwise(sql.lit(0))


def _moment(text: str) -> Column:
    return sql.to_timestamp(sql.lit(text))


def _seconds(start: str, end: str) -> Column:
    """With milliseconds. A drain that ended before the last client had returned took no time beyond that."""
    difference = sql.col(end).cast("double") - sql.col(start).cast("double")
    # Of a null and a number, the number would be the greatest.
    return sql.when(difference.isNotNull(), sql.round(sql.greatest(difference, sql.lit(0.0)), 3))
