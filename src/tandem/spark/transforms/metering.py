"""The cost of operations. Units and bytes are summed first and priced once, so that nothing is rounded on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DecimalType

from tandem.cost.tariff import INBOUND_OPERATIONS, OUTBOUND_OPERATIONS, Rate, Tariff
from tandem.spark.schemas import MONEY

__all__ = ["EXACT_MONEY", "cost_sums", "costs", "totals"]

# A price of one unit, and a number of units: their product has 36 digits, and a decimal holds 38.
_PRICE: Final = DecimalType(18, 12)
_UNITS: Final = DecimalType(18, 0)

# A price of one byte, with a thousand times as many digits behind the point, and a number of bytes.
_PRICE_OF_BYTE: Final = DecimalType(18, 15)
_BYTES: Final = DecimalType(18, 0)

# Both products. Their sum has one digit more, and so the 38 that a decimal holds.
_PRODUCT: Final = DecimalType(37, 15)

# Their sum, before it is rounded: such sums add up to the same cost in whatever portions records come.
EXACT_MONEY: Final = DecimalType(38, 15)

_KEYS: Final = ("namespace", "entity", "entity_kind", "operation", "stage")

_OK: Final = "ok"


def costs(tariff: Tariff, *, window: str = "1 day", lateness: str = "1 hour") -> Callable[[DataFrame], DataFrame]:
    """Sum up units, bytes and cost by window of time, namespace, entity, operation and stage.

    The cost includes bandwidth. In a stream, a window is emitted when no record that is less late than `lateness` can
    change it any more.
    """

    def transform(operations: DataFrame) -> DataFrame:
        summed = operations.withWatermark("time", lateness).transform(cost_sums(tariff, window=window))
        return summed.withColumn("cost", sql.col("cost").cast(MONEY))

    return transform


def cost_sums(tariff: Tariff, *, window: str = "1 day") -> Callable[[DataFrame], DataFrame]:
    """Return the columns of `costs` for a part of the records. The cost is exact: add up the parts, then round."""

    def transform(operations: DataFrame) -> DataFrame:
        counted = operations.groupBy(sql.window("time", window), *_KEYS, "outcome").agg(
            sql.sum("count").alias("operations"),
            sql.sum("bytes").alias("bytes"),
            sql.sum("billable_units").alias("units"),
        )
        price = _if_ok(_price(tariff)).cast(_PRICE)
        price_of_byte = _if_ok(_price_of_byte(tariff)).cast(_PRICE_OF_BYTE)
        cost = (sql.col("units").cast(_UNITS) * price).cast(_PRODUCT)
        bandwidth_cost = (sql.col("bytes").cast(_BYTES) * price_of_byte).cast(_PRODUCT)
        return counted.select(
            sql.col("window.start").alias("from"),
            *_KEYS,
            "outcome",
            "operations",
            "bytes",
            "units",
            (cost + bandwidth_cost).cast(EXACT_MONEY).alias("cost"),
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


def _if_ok(price: Column) -> Column:
    """Return the price of operations that succeeded; others are free."""
    return sql.when(sql.col("outcome") == _OK, price).otherwise(sql.lit(0))


def _price(tariff: Tariff) -> Column:
    """Return the tariff's price of a unit as an expression: the first rate that fits."""
    price = sql.when(sql.col("operation").isin(list(tariff.free_operations)), sql.lit(0).cast(_PRICE))
    for rate in tariff.rates:
        if rate.price_per_unit is not None:
            price = price.when(_fits(rate), sql.lit(rate.price_per_unit).cast(_PRICE))
    return price.otherwise(sql.lit(tariff.price_per_unit).cast(_PRICE))


def _price_of_byte(tariff: Tariff) -> Column:
    """Return the tariff's price of bandwidth as an expression, by the direction of the operation."""
    is_in = sql.col("operation").isin(list(INBOUND_OPERATIONS))
    is_out = sql.col("operation").isin(list(OUTBOUND_OPERATIONS))
    price = sql.when(~is_in & ~is_out, sql.lit(0).cast(_PRICE_OF_BYTE))
    for rate in tariff.rates:
        for is_this_way, one in ((is_in, rate.price_per_byte_in), (is_out, rate.price_per_byte_out)):
            if one is not None:
                price = price.when(is_this_way & _fits(rate), sql.lit(one).cast(_PRICE_OF_BYTE))
    price = price.when(is_in, sql.lit(tariff.price_per_byte_in).cast(_PRICE_OF_BYTE))
    return price.otherwise(sql.lit(tariff.price_per_byte_out).cast(_PRICE_OF_BYTE))


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
