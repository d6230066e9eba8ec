"""Decisions about an open transaction that do not end it: add messages, resume.

Each looks at the state as the log has it and either answers at once, or says that
somebody else is deciding (`Busy`), or gives the record to append (`Command`), having
claimed the transaction.
"""

from dataclasses import dataclass

from halfpast_core_store.broker import Append, Lane, Run
from halfpast_core_store.topics import SYS_TRANS_OP

from .core import Busy, TransactionCore
from .errors import (
    MessagesOutOfOrder,
    TooManyMessages,
    TransactionConflict,
    TransactionParked,
    UnknownTransaction,
)
from .half import EndInfo, added_run, message_id, queue_of, resumed_record
from .status import Status, transaction_text
from .transactions import Added, AddMessages, Resume, TransactionState
from .words import STATE_WORDS


@dataclass(slots=True)
class Command:
    """Append this; it takes effect when it is applied. The claim is ours."""

    request: Append
    claim: bytes


def decide_add(core: TransactionCore, request: AddMessages) -> Added | Busy | Command:
    """Raises what `AddMessages` says, and TooManyMessages."""
    transaction_id = request.transaction_id
    if transaction_id in core.claims:
        return Busy(transaction_id)
    status = open_status(core, transaction_id)
    if status.state == TransactionState.PARKED:
        raise TransactionParked(transaction_text(transaction_id), status.checks)
    count = request.first_index + len(request.records)
    if count <= status.message_count:
        return Added(status.message_count)  # a repetition
    if request.first_index != status.message_count:
        text = transaction_text(transaction_id)
        raise MessagesOutOfOrder(text, status.message_count)
    config = core.config
    size = status.size + sum(map(len, request.records))
    if count > config.message_count_max or size > config.message_size_max:
        raise TooManyMessages(config.message_count_max, config.message_size_max)
    ids = [message_id(transaction_id, n) for n in range(request.first_index, count)]
    assert [record[16:32] for record in request.records] == ids
    core.claims.add(transaction_id)
    run = added_run(
        transaction_id,
        status.group,
        core.now_ms(),
        request.first_index,
        request.records,
    )
    return Command(Append([run], Lane.SEND), transaction_id)


def decide_resume(core: TransactionCore, request: Resume) -> Status | Busy | Command:
    """Raises what `Resume` says."""
    transaction_id = request.transaction_id
    if transaction_id in core.claims:
        return Busy(transaction_id)
    status = open_status(core, transaction_id)
    if status.state != TransactionState.PARKED:
        return status
    core.claims.add(transaction_id)
    info = EndInfo(request.reason, request.by)
    record = resumed_record(
        transaction_id, status.group, status.checks, core.now_ms(), info
    )
    run = Run(SYS_TRANS_OP, queue_of(transaction_id), [record])
    return Command(Append([run], Lane.SYSTEM), transaction_id)


def open_status(core: TransactionCore, transaction_id: bytes) -> Status:
    """Raises UnknownTransaction, TransactionConflict."""
    text = transaction_text(transaction_id)
    told = core.decided.get(transaction_id)
    status = None if told else core.open_status(transaction_id)
    if status is not None:
        return status
    ended = core.ended_status(transaction_id)
    if told is None and ended is None:
        raise UnknownTransaction(text)
    state = told.state if told else ended.state if ended else 0
    raise TransactionConflict(text, STATE_WORDS[state])
