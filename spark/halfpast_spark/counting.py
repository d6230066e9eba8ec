"""Aggregates with a condition. Each keeps one number a group, however many rows."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def count_if(condition: Column) -> Column:
    """For how many rows it is true; 0, not null, for none."""
    return F.count(F.when(condition, F.lit(1)))


def min_if(condition: Column, name: str) -> Column:
    return F.min(F.when(condition, F.col(name)))


def max_if(condition: Column, name: str) -> Column:
    return F.max(F.when(condition, F.col(name)))


def one_if(condition: Column) -> Column:
    """What a row adds to a count; nothing also where the condition is unknown."""
    return F.when(condition, F.lit(1)).otherwise(F.lit(0))


def sum_of(amount: Column) -> Column:
    """0, not null, for none."""
    return F.coalesce(F.sum(amount), F.lit(0))
