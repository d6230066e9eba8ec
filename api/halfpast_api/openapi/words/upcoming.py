"""What is due, and what is done to many events at once."""

from typing import Final

from halfpast_api.openapi import samples
from halfpast_api.openapi.words.word import Word, Words, id_word, instant

DUE: Final[Words] = {
    "resolution": Word("How long a bucket is.", "1h"),
    "from": instant("When the first bucket begins.", "2027-01-04T00:00:00.000Z"),
    "to": instant("When the last one ends.", "2027-01-05T00:00:00.000Z"),
    "exact": Word("False while they are counted again after an unclean end.", True),
    "pending": Word("How many are scheduled.", 3),
    "count": Word("How many.", 3),
    "buckets": Word("Those that are not empty."),
    "late": Word("What should have been delivered before."),
    "reasons": Word("Why, and how many of each."),
    "topics": Word("By topic."),
    "oldest_due_at": instant("When the earliest of them was due."),
    "due_now": Word("How many of these are due already.", 0),
    "retrying": Word("How many are tried again; counts up to 1,000.", 0),
}

BULK: Final[Words] = {
    "all": Word("Every scheduled event; then give nothing else.", False),
    "dry_run": Word("Count, and change nothing.", True),
    "due_after": instant("Due at this moment or later.", "2027-01-04T00:00:00Z"),
    "due_before": instant("Due before this moment.", "2027-01-05T00:00:00Z"),
    "shift_ms": Word("By how much, in milliseconds; negative is earlier.", 3_600_000),
    "action": Word("`cancel` or `reschedule`.", "cancel"),
    "filter": Word("Which events are meant."),
    "scanned": Word("How many have been looked at.", 10),
    "expected": Word("About how many there are to look at.", 10),
    "matched": Word("How many are meant.", 3),
    "changed": Word("How many of these were changed.", 0),
    "progress": Word("From 0 to 1.", 1.0),
    "finished_at": instant("When it ended."),
    "operations": Word("The operations."),
    "OperationView.id": id_word("Its id.", samples.OPERATION),
    "OperationView.state": Word("`running`, `done`, `cancelled` or `failed`.", "done"),
}
