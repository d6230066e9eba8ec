"""Refusals in requests about many things: each in its place, or all told as one."""

from collections.abc import Mapping
from typing import Final

from halfpast_api.problems import (
    FieldProblem,
    Problem,
    Refusal,
    as_refusal,
    problem_of,
)

_ERRORS_MAX: Final = 100


def problem_in_list(error: Exception) -> Problem:
    """The problem of one thing among many. Raises what nobody raised on purpose."""
    refusal = as_refusal(error)
    if refusal is None:
        raise error
    return problem_of(refusal)


def refuse_all(refusals: Mapping[int, Exception], at: str, why: str) -> Exception:
    """One error for a list of which everything is stored or nothing.

    It points to all that is wrong in the list, which is `at` that pointer.
    `refusals` are by index. What nobody raised on purpose is given as it is.
    """
    errors: list[FieldProblem] = []
    for index, error in refusals.items():
        refusal = as_refusal(error)
        if refusal is None:
            return error
        pointer = f"{at}/{index}"
        errors += refusal.under(pointer).errors or [
            FieldProblem(pointer, refusal.detail)
        ]
    first = as_refusal(refusals[min(refusals)])
    assert first is not None
    return Refusal(
        first.code,
        f"nothing was stored, since {why}: {first.detail}",
        errors[:_ERRORS_MAX],
    )
