"""What operations cost. Units are summed first and priced once, so that nothing is rounded on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DecimalType

from tandem.cost.tariff import Rate, Tariff
from tandem.spark.schemas import MONEY

__all__ = ["costs", "totals"]

# A price of one unit, and a number of units: their product has 36 digits, and a decimal holds 38.
_PRICE: Final = DecimalType(18, 12)
_UNITS: Final = DecimalType(18, 0)

_KEYS: Final = ("namespace", "entity", "entity_kind", "operation", "stage")

_OK: Final = "ok"


def costs(tariff: Tariff, *, window: str = "1 day", lateness: str = "1 hour") -> Callable[[DataFrame], DataFrame]:
    """Units and cost by window of time, namespace, entity, operation and stage.

    Of a stream, a window is told when nothing that is less late than `lateness` can change it any more.
    """

    def transform(operations: DataFrame) -> DataFrame:
        counted = (
            operations.withWatermark("time", lateness)
            .groupBy(sql.window("time", window), *_KEYS, "outcome")
            .agg(
                sql.sum("count").alias("operations"),
                sql.sum("bytes").alias("bytes"),
                sql.sum("billable_units").alias("units"),
            )
        )
        price = sql.when(sql.col("outcome") == _OK, _price(tariff)).otherwise(sql.lit(0)).cast(_PRICE)
        return counted.select(
            sql.col("window.start").alias("from"),
            *_KEYS,
            "outcome",
            "operations",
            "bytes",
            "units",
            (sql.col("units").cast(_UNITS) * price).cast(MONEY).alias("cost"),
            sql.lit(tariff.currency).alias("currency"),
        )

    return transform


def totals(*keys: str) -> Callable[[DataFrame], DataFrame]:
    """Costs summed up by fewer keys, such as the stage alone."""

    def transform(priced: DataFrame) -> DataFrame:
        return (
            priced.groupBy(*keys, "currency")
            .agg(
                sql.sum("operations").alias("operations"),
                sql.sum("units").alias("units"),
                sql.sum("cost").cast(MONEY).alias("cost"),
            )
            .orderBy(sql.desc("cost"), *keys)
        )

    return transform


def _price(tariff: Tariff) -> Column:
    """The tariff as an expression: the first rate that fits."""
    price = sql.when(sql.col("operation").isin(list(tariff.free_operations)), sql.lit(0).cast(_PRICE))
    for rate in tariff.rates:
        price = price.when(_fits(rate), sql.lit(rate.price_per_unit).cast(_PRICE))
    return price.otherwise(sql.lit(tariff.price_per_unit).cast(_PRICE))


def _fits(rate: Rate) -> Column:
    fits = sql.lit(True)
    for name in ("namespace", "operation", "stage"):
        wanted = getattr(rate, name)
        if wanted is not None:
            fits = fits & (sql.col(name) == wanted)
    if rate.entity is not None and rate.entity.endswith("*"):
        fits = fits & sql.col("entity").startswith(rate.entity[:-1])
    elif rate.entity is not None:
        fits = fits & (sql.col("entity") == rate.entity)
    return fits
