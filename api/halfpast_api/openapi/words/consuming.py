"""Messages, and the settings of topics and groups."""

from typing import Final

from halfpast_api.metadata.settings import (
    ATTEMPTS_MAX,
    BACKOFF_MS_MAX,
    DELAY_MS_MAX,
    INVISIBLE_MS_MAX,
    INVISIBLE_MS_MIN,
    PENDING_MAX,
    QUEUES_MAX,
    RELEASE_RATE_MAX,
)
from halfpast_api.openapi import samples
from halfpast_api.openapi.parameters import (
    GROUP_SCHEMA,
    READABLE_TOPIC_SCHEMA,
    TOPIC_SCHEMA,
)
from halfpast_api.openapi.words.word import Word, Words, instant, number
from halfpast_core_store.record import BODY_SIZE_MAX

CONSUMING: Final[Words] = {
    "max": Word("How many at most.", 10),
    "wait_ms": Word("How long to wait for the first one if there is none.", 500),
    "invisible_ms": Word(
        "How long a message that was taken is hidden; what its group says if left out.",
        60_000,
    ),
    "GroupBody.invisible_ms": number(
        "How long a message that was taken is hidden.",
        60_000,
        INVISIBLE_MS_MIN,
        INVISIBLE_MS_MAX,
    ),
    "PopBody.filter": Word(
        "Tags with `||` between them, or an expression; `*` is all.", "paid"
    ),
    "filter_type": Word(
        "What `filter` is: tags (`tag`), or an SQL92 expression over the properties "
        "and the tag as `TAGS` (`sql92`).",
        "tag",
    ),
    "PopBody.topic": Word(
        "The topic; `%DLQ%` and a group for its dead letters.",
        "reminders",
        given=READABLE_TOPIC_SCHEMA,
    ),
    "receipt": Word("What settles the message.", samples.RECEIPT),
    "receipts": Word("Of the messages that are meant.", [samples.RECEIPT]),
    "messages": Word("The messages."),
    "BeginBody.messages": Word("One at least.", given={"minItems": 1}),
    "AddBody.messages": Word("One at least.", given={"minItems": 1}),
    "queue": Word("The queue, from 0.", 0),
    "offset": Word("The place in its queue.", 0),
    "QueueLagView.offset": Word(
        "The next message that the group has not been given.", 3
    ),
    "born_at": instant("When it was accepted.", "2026-11-20T10:00:00.123Z"),
    "stored_at": instant("When it came into its queue."),
    "attempt": Word("Which attempt this is, from 1.", 1),
    "next_offset": Word("Where to go on.", 1),
    "min_offset": Word("The oldest that is kept.", 0),
    "max_offset": Word("The next one to be written.", 1),
    "NackBody.delay_ms": Word(
        "When to offer them again; the back-off if left out.", 5000
    ),
    "NackBody.reason": Word(
        "Why they failed; a dead letter shows it.", "the printer is on fire"
    ),
}

SETTINGS: Final[Words] = {
    "name": Word("Its name.", "orders"),
    "NewTopicBody.name": Word("Its name.", "invoices", given=TOPIC_SCHEMA),
    "queues": number(
        "How many queues it has; they cannot become fewer.", 4, 1, QUEUES_MAX
    ),
    "LagView.queues": Word("Queue by queue."),
    "max_delay_ms": number(
        "The longest delay that is taken.", 1_209_600_000, 0, DELAY_MS_MAX
    ),
    "max_body_bytes": number("The largest body.", 4_194_304, 1, BODY_SIZE_MAX),
    "flush": Word("`async` answers before the disk has the message.", "sync"),
    "accepting": Word("Without it nothing comes in.", True),
    "release_rate_per_s": number(
        "How many scheduled events are released a second; 0 is no limit.",
        0,
        0,
        RELEASE_RATE_MAX,
    ),
    "max_pending": number(
        "How many may be scheduled; 0 is no limit.", 0, 0, PENDING_MAX
    ),
    "queue_offsets": Word("What its queues hold."),
    "release": Word("How the release of what is scheduled stands."),
    "ReleaseView.state": Word(
        "`open`, `paused`, `closed`, `rate_limited`, `draining` or `starting`.", "open"
    ),
    "TopicListView.topics": Word("The topics."),
    "groups": Word("The groups."),
    "group": Word("The group.", "mailer", given=GROUP_SCHEMA),
    "max_attempts": number("After so many it is a dead letter.", 16, 1, ATTEMPTS_MAX),
    "backoff_initial_ms": number(
        "How long a failed message waits at first; then twice as long each time.",
        1000,
        0,
        BACKOFF_MS_MAX,
    ),
    "backoff_max_ms": number("No longer than this.", 300_000, 0, BACKOFF_MS_MAX),
    "lag": Word("Messages that are not settled.", 3),
    "in_flight": Word("How many of these are taken and not settled yet.", 1),
    "held_back": Word(
        "How many of those in flight wait for an earlier one of their key.", 0
    ),
    "ordered": Word(
        "Messages of one key and queue are given one at a time, in order.", False
    ),
    "offsets": Word(
        "Where it is to go on, by queue.",
        {"0": 0},
        given={"propertyNames": {"pattern": "^[0-9]{1,4}$"}},
    ),
    "broker": Word("`ok`, or `read_only` while its disk is full.", "ok"),
    "ReadyView.delay": Word("`ok`.", "ok"),
    "ReadyView.transactions": Word("`ok`.", "ok"),
    "metadata": Word("`ok`, or `stale` while the database is away.", "ok"),
}
