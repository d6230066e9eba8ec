"""Events, results of many things, and problems."""

from typing import Final

from halfpast_api.openapi import samples
from halfpast_api.openapi.parameters import TOPIC_SCHEMA
from halfpast_api.openapi.words.word import (
    DURATION,
    TEXT_MAP,
    Word,
    Words,
    id_word,
    instant,
    number,
)
from halfpast_core_store.record import KEY_SIZE_MAX, TAG_SIZE_MAX

EVENTS: Final[Words] = {
    "data": Word("Any JSON, null too; kept as it came, to the byte.", {"order": 17}),
    "data_base64": Word("Bytes instead of JSON.", "SGFsZnBhc3Q="),
    "data_withheld": Word(
        "There is data, and the caller may not see payloads; else left out.", True
    ),
    "json": Word(
        "MessagePack only: whether `data`, which is bytes there, is JSON text.", True
    ),
    "key": Word(
        f"What the event is about, at most {KEY_SIZE_MAX} bytes. Events with the same "
        "key share a queue, so they keep their order.",
        "customer-42",
    ),
    "tag": Word(
        f"A word that consumers can filter by, at most {TAG_SIZE_MAX} bytes.", "paid"
    ),
    "properties": Word("Headers of your own: text to text.", {"region": "eu"}),
    "EventBody.properties": Word(
        "Headers of your own: text to text.", {"region": "eu"}, given=TEXT_MAP
    ),
    "deliver_at": instant("When it is due; a past time means now."),
    "delay": Word(
        "How long from now, as an ISO 8601 duration of days to seconds.",
        "PT30M",
        given=DURATION,
    ),
    "delay_ms": number("How long from now, in milliseconds.", 1_800_000),
    "topic": Word("The topic.", "reminders", given=TOPIC_SCHEMA),
    "id": id_word("Its id.", samples.EVENT),
    "state": Word("Its state.", "scheduled"),
    "due_in_ms": Word("How long until then, when it was accepted.", 5000),
    "server_time": instant("The server's clock, at acceptance."),
    "version": Word(
        "Counts its changes; the `ETag`. 0 for settings that nobody has given.", 1
    ),
    "created_at": instant("When it was made.", "2026-11-20T10:00:00.123Z"),
    "updated_at": instant("When it was changed last.", "2026-11-20T10:00:00.123Z"),
    "delivered_at": instant("When it was delivered."),
    "cancelled_at": instant("When it was cancelled."),
    "dead_at": instant("When it became a dead letter."),
    "attempts": Word("How often its topic did not take it.", 3),
    "next_attempt_at": instant("When it is tried again."),
    "lateness_ms": Word("How late it was delivered.", 1),
    "timeline": Word("What has happened to it."),
    "at": instant("When."),
    "what": Word("What happened.", "scheduled"),
    "transaction_id": id_word(
        "The transaction that it is part of.", samples.TRANSACTION
    ),
    "schedule_id": id_word("The schedule that made it.", samples.SCHEDULE),
    "occurrence": Word("Which of the schedule's occurrences it is, from 1.", 1),
    "outcome": Word("What came of it.", "cancelled"),
    "events": Word("The events."),
    "atomic": Word("All of them, or none where one is refused.", True),
    "next_page_token": Word("For the next page; null on the last one."),
    "dead_letters": Word("How many its topic did not take; counts up to 1,000.", 0),
    "DeadLetterPageView.dead_letters": Word("The events."),
    "reason": Word("Why.", "closed"),
}

RESULTS: Final[Words] = {
    "results": Word("One for each, in their order."),
    "index": Word("Its place in the request, from 0.", 0),
    "status": Word("The HTTP status that it would have by itself.", 201),
    "AliveView.status": Word("Always `ok`.", "ok"),
    "ReadyView.status": Word("Always `ready`.", "ready"),
    "problem": Word("Why it was refused."),
    "type": Word("A URN with the code.", "urn:halfpast:problem:unknown_topic"),
    "CallView.type": Word("What the call is about.", "transaction.check"),
    "title": Word("The code in words.", "No such topic"),
    "Problem.status": Word("The HTTP status.", 404),
    "detail": Word("What is wrong this time, and what to do.", "it is negative"),
    "code": Word("What programs decide on.", "unknown_topic"),
    "retryable": Word("Whether the same request may succeed later.", False),
    "request_id": Word("What the server's log calls the request.", "65a-18f2-1"),
    "errors": Word("The members at fault."),
    "pointer": Word("A JSON pointer to the member.", "/delay"),
    "Problem.outcome": Word("Of a cancel: `too_late` or `not_found`.", ""),
    "Problem.state": Word("The state that stands against it.", ""),
}
