"""Recurring schedules."""

from typing import Final

from halfpast_api.metadata.settings import (
    DESCRIPTION_CHARS_MAX,
)
from halfpast_api.openapi import samples
from halfpast_api.openapi.words.word import (
    DURATION,
    Word,
    Words,
    id_word,
    instant,
    number,
)

SCHEDULES: Final[Words] = {
    "cron": Word(
        "Five fields, six with seconds, or `@daily` and the like.", "30 2 * * MON-FRI"
    ),
    "time_zone": Word("Of the cron expression, an IANA name.", "Europe/Berlin"),
    "interval": Word(
        "How long from one to the next, a second at least.", "PT5M", given=DURATION
    ),
    "interval_ms": number("The same in milliseconds.", 300_000, 1000),
    "exponential": Word("Pauses that grow."),
    "first": Word("The first pause.", "PT1S", given=DURATION),
    "first_ms": number("The first pause, in milliseconds.", 1000, 1),
    "factor": Word("By what each pause is longer than the one before.", 2.0),
    "longest": Word("No pause is longer.", "PT1H", given=DURATION),
    "longest_ms": number("No pause is longer, in milliseconds.", 3_600_000, 1),
    "start_at": instant("Nothing occurs before it.", "2027-01-01T00:00:00Z"),
    "until": instant("Nothing occurs after it.", "2027-12-31T00:00:00Z"),
    "times": Word("How often in all.", 10),
    "jitter": Word("Up to so much later, each time another.", "PT20S", given=DURATION),
    "jitter_ms": number("The same in milliseconds.", 20_000),
    "catch_up": Word(
        "After an outage: one for all that were missed, each of them, or none.",
        "fire_once",
    ),
    "grace_ms": Word("What is less late than this was not missed.", 60_000),
    "description": Word("For people.", "", given={"maxLength": DESCRIPTION_CHARS_MAX}),
    "paused": Word("Whether it holds back until this is false.", False),
    "next_at": instant("When it occurs next."),
    "occurrences": Word("How many messages it has made.", 0),
    "NextView.occurrences": Word("The next times."),
    "last_at": instant("When the latest was due."),
    "last_event_id": id_word("The latest message.", samples.EVENT),
    "skipped_at": instant("The latest that was missed and did not fire."),
    "ended_at": instant("When it ended."),
    "nominal_at": instant("What the rule says, without jitter."),
    "schedules": Word("The schedules."),
    "ScheduleView.id": id_word("Its id.", samples.SCHEDULE),
    "ScheduleView.state": Word("`active`, `paused` or `ended`.", "active"),
    "ScheduleView.reason": Word(
        "Why it ended: `times`, `until`, `never` or `deleted`.", "times"
    ),
    "NextView.id": id_word("The schedule's id.", samples.SCHEDULE),
    "NextView.state": Word("The schedule's state.", "active"),
}
