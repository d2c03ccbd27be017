"""The data pipeline on Spark: hubs and queues as data sources, and jobs that read what the bus did.

    from tandem.spark import session
    spark = session("orders")
    spark.read.format("eventhubs").option("eventHub", "orders").load().show()

given_options options hub_choice positions connection    what a user says
offsets places read_hubs pushdown             which events that means
transport bulk amqp_transport reaching        how they are read
source sink servicebus messages typed_properties refused_stream    what Spark sees: `eventhubs` and `servicebus`
lag causes                                    what Spark says: its progress and its errors
java spark_session                            a ready SparkSession, also on a machine without Java
transforms jobs report                        what is made of the records
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandem.spark.spark_session import session

__all__ = ["session"]


def __getattr__(name: str) -> object:
    # Spark is imported when it is wanted, and not by everything that lies in this package.
    if name == "session":
        from tandem.spark.spark_session import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
