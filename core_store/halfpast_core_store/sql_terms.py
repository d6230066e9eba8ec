"""What the parts of a filter expression mean, with three truths: None is unknown.

A property is text, or missing. What it is compared with tells how it counts: as a
number, as TRUE or FALSE, or as text. If it cannot, the comparison is unknown.
"""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from .errors import InvalidFilter

DEPTH_MAX: Final = 32
NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
EXACT_LENGTH_MAX: Final = 18
"""Longer ones count as floating point."""
OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
EQUALITY: Final = ("=", "<>")

Value = str | float | bool | None
Getter = Callable[[str], str | None]
Test = Callable[[Getter], bool | None]
Reading = Callable[[Getter], object]


class Operand(NamedTuple):
    """A property, if it has a name, or else a value that stands there."""

    position: int
    name: str
    value: Value = None

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, int | float) and not self.is_truth

    @property
    def is_truth(self) -> bool:
        return isinstance(self.value, bool)

    @property
    def is_text(self) -> bool:
        return isinstance(self.value, str)

    @property
    def is_null(self) -> bool:
        return not self.name and self.value is None


class Condition(NamedTuple):
    """Something that is true, false or unknown of a message."""

    position: int
    test: Test
    depth: int = 1


Part = Operand | Condition


def condition(part: Part) -> Condition:
    """A part that stands where a condition must. A property alone may be `true`."""
    if isinstance(part, Condition):
        return part
    if part.name or part.is_truth:
        return Condition(part.position, truth_test(reading(part, truth_of)))
    raise InvalidFilter(
        part.position, "a value alone is no condition; compare it with something"
    )


def operand(part: Part) -> Operand:
    """A part that stands where a property or a value must."""
    if isinstance(part, Operand):
        return part
    raise InvalidFilter(part.position, "a condition cannot be compared")


def comparison(left: Operand, sign: str, right: Operand) -> Condition:
    """One of OPERATORS."""
    for side in (left, right):
        if side.is_null:
            raise InvalidFilter(side.position, "say IS NULL or IS NOT NULL")
        if sign not in EQUALITY and (side.is_text or side.is_truth):
            raise InvalidFilter(
                side.position, "only numbers have an order; compare this with = or <>"
            )
    if left.is_number or right.is_number or sign not in EQUALITY:
        wrong = left if left.is_truth else right
        if wrong.is_truth:
            raise InvalidFilter(wrong.position, "this cannot equal a number")
        convert: Callable[[Value], object] = number_of
    elif left.is_truth or right.is_truth:
        convert = truth_of
    else:
        convert = text_of
    first, second = reading(left, convert), reading(right, convert)
    compare = OPERATORS[sign]

    def test(get: Getter) -> bool | None:
        a = first(get)
        if a is None:
            return None
        b = second(get)
        return None if b is None else compare(a, b)

    return Condition(left.position, test)


def between(value: Operand, low: Operand, high: Operand) -> Condition:
    """Both ends count."""
    a, b = low.value, high.value
    if low.is_number and high.is_number:
        assert isinstance(a, int | float)
        assert isinstance(b, int | float)
        if a > b:
            raise InvalidFilter(low.position, "the lower bound is above the upper one")
    return all_of([comparison(value, ">=", low), comparison(value, "<=", high)])


def is_in(value: Operand, elements: Sequence[Operand]) -> Condition:
    """Equal to one of them: numbers and text."""
    for element in elements:
        if not (element.is_text or element.is_number):
            raise InvalidFilter(element.position, "IN takes numbers and text only")
    texts = frozenset(it.value for it in elements if it.is_text)
    numbers = frozenset(it.value for it in elements if it.is_number)
    read_text, read_number = reading(value, text_of), reading(value, number_of)

    def test(get: Getter) -> bool | None:
        text = read_text(get)
        if text in texts:
            return True
        if not numbers:
            return None if text is None else False
        number = read_number(get)
        if number is None:
            return False if texts and text is not None else None
        return number in numbers

    return Condition(value.position, test)


def is_null(value: Operand) -> Condition:
    """Whether there is no such property."""
    name, is_missing = value.name, value.value is None

    def test(get: Getter) -> bool:
        return get(name) is None if name else is_missing

    return Condition(value.position, test)


def text_test(
    value: Operand, holds: Callable[[str, str], bool], part: Operand
) -> Condition:
    """CONTAINS and its like."""
    wanted = part.value
    assert isinstance(wanted, str)
    if not wanted:
        raise InvalidFilter(part.position, "this text is empty")
    read = reading(value, text_of)

    def test(get: Getter) -> bool | None:
        text = read(get)
        return holds(text, wanted) if isinstance(text, str) else None

    return Condition(value.position, test)


def negation(inner: Condition) -> Condition:
    def test(get: Getter) -> bool | None:
        truth = inner.test(get)
        return None if truth is None else not truth

    return nested(test, [inner])


def all_of(inner: Sequence[Condition]) -> Condition:
    """False if one is, true if all are."""
    tests = [it.test for it in inner]

    def test(get: Getter) -> bool | None:
        answer: bool | None = True
        for each in tests:
            truth = each(get)
            if truth is False:
                return False
            if truth is None:
                answer = None
        return answer

    return nested(test, inner)


def any_of(inner: Sequence[Condition]) -> Condition:
    """True if one is, false if all are."""
    tests = [it.test for it in inner]

    def test(get: Getter) -> bool | None:
        answer: bool | None = False
        for each in tests:
            truth = each(get)
            if truth:
                return True
            if truth is None:
                answer = None
        return answer

    return nested(test, inner)


def nested(test: Test, inner: Sequence[Condition]) -> Condition:
    depth = 1 + max(it.depth for it in inner)
    if depth > DEPTH_MAX:
        raise InvalidFilter(inner[0].position, f"more than {DEPTH_MAX} levels deep")
    return Condition(inner[0].position, test, depth)


# --- values ---------------------------------------------------------------------


def reading(source: Operand, convert: Callable[[Value], object]) -> Reading:
    """How to get at the value in each message."""
    name = source.name
    if name:
        return lambda get: convert(get(name))
    value = convert(source.value)
    return lambda _: value


def number_of(value: Value) -> float | None:
    if not isinstance(value, str):
        return None if isinstance(value, bool) else value
    if NUMBER.fullmatch(value) is None:
        return None
    if len(value) <= EXACT_LENGTH_MAX and value.lstrip("+-").isdigit():
        return int(value)
    return float(value)


def truth_of(value: Value) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def text_of(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def truth_test(read: Reading) -> Test:
    def test(get: Getter) -> bool | None:
        truth = read(get)
        return truth if isinstance(truth, bool) else None

    return test
