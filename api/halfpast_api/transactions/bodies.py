"""What requests about transactions bring."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from halfpast_api.event_body import BatchEventBody

ENDS_MAX: Final = 1000
_REASON_CHARS_MAX: Final = 1000
_BY_CHARS_MAX: Final = 128
OPERATOR: Final = "operator"

StateWord = Literal["committed", "rolled_back"]
CheckState = Literal["committed", "rolled_back", "unknown"]
Reason = Annotated[str, Meta(max_length=_REASON_CHARS_MAX)]
By = Annotated[str, Meta(min_length=1, max_length=_BY_CHARS_MAX)]


class BeginBody(
    msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """A transaction. The times and the number of its check-backs are the producer
    group's where they are left out; `reference` is the producer's own word for it.
    """

    producer_group: str
    messages: list[BatchEventBody]
    check_after_ms: int | None = None
    check_interval_ms: int | None = None
    check_max: int | None = None
    check_required: bool | UnsetType = UNSET
    reference: str | None = None


class BeginBatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """Several transactions, each by itself."""

    transactions: list[BeginBody]


class LooseBeginBatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """The same, to be looked at one by one."""

    transactions: list[Raw]


class AddBody(msgspec.Struct, forbid_unknown_fields=True):
    """More messages. `first_index`: how many the transaction has before them."""

    first_index: int
    messages: list[BatchEventBody]


class NoBody(msgspec.Struct, forbid_unknown_fields=True):
    """A request that may say `{}`."""


class EndBody(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The outcome of one transaction."""

    id: str
    state: StateWord


class EndsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes, each by itself."""

    ends: Annotated[list[EndBody], Meta(min_length=1, max_length=ENDS_MAX)]


class ResumeBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Why an operator has a transaction checked back again, and who that is."""

    reason: Reason = ""
    by: By = OPERATOR


class ForceBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An outcome that an operator gives. The reason is needed."""

    state: StateWord
    reason: Reason = ""
    by: By = OPERATOR


class AnswerBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a producer says of one transaction; `check` is the check-back's number."""

    id: str
    state: CheckState
    check: Annotated[int, Meta(ge=0, le=65_535)] = 0


class AnswersBody(msgspec.Struct, forbid_unknown_fields=True):
    """Answers, each by itself."""

    answers: Annotated[list[AnswerBody], Meta(min_length=1, max_length=ENDS_MAX)]
