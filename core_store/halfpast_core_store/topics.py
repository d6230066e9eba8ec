"""System topics: their names and fixed ids. Ids of users' topics begin behind them."""

from .record import Family

SYS_TOPICS = 1
SYS_SCHEDULE = 2
SYS_FIRED = 3
SYS_GROUPS = 4
SYS_DEDUP = 5
SYS_TRANS_HALF = 6
SYS_TRANS_OP = 7
TRANS_CHECK_MAX_TIME = 8
USER_TOPIC_ID_MIN = 1024
GROUP_ID_MIN = 1

SYSTEM_TOPICS: dict[str, int] = {
    "SYS_TOPICS": SYS_TOPICS,
    "SYS_SCHEDULE": SYS_SCHEDULE,
    "SYS_FIRED": SYS_FIRED,
    "SYS_GROUPS": SYS_GROUPS,
    "SYS_DEDUP": SYS_DEDUP,
    "SYS_TRANS_HALF": SYS_TRANS_HALF,
    "SYS_TRANS_OP": SYS_TRANS_OP,
    "TRANS_CHECK_MAX_TIME": TRANS_CHECK_MAX_TIME,
}

FAMILY_OF_TOPIC: dict[int, int] = {
    SYS_TOPICS: Family.REGISTRY,
    SYS_SCHEDULE: Family.TIMERS,
    SYS_FIRED: Family.TIMERS,
    SYS_GROUPS: Family.GROUPS,
    SYS_DEDUP: Family.DEDUP,
    SYS_TRANS_HALF: Family.TRANSACTIONS,
    SYS_TRANS_OP: Family.TRANSACTIONS,
    TRANS_CHECK_MAX_TIME: Family.TRANSACTIONS,
}

NAME_CHARACTERS = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_%-"
)
NAME_LENGTH_MAX = 127
DEAD_LETTER_PREFIX = "%DLQ%"


def valid_name(name: str) -> bool:
    """Whether this may be the name of a topic or group: a table look-up."""
    return 0 < len(name) <= NAME_LENGTH_MAX and NAME_CHARACTERS.issuperset(name)


def reserved_name(name: str) -> bool:
    """Names that only Halfpast itself may publish to."""
    return name.startswith(("SYS_", "TRANS_", "%"))


def dead_letter_topic(group: str) -> str:
    """Where a consumer group's poison messages go. One per group."""
    return (DEAD_LETTER_PREFIX + group)[:NAME_LENGTH_MAX]


def family_of_topic(topic_id: int) -> int:
    """Who has to look at the records of a topic."""
    return FAMILY_OF_TOPIC.get(topic_id, Family.MESSAGES)
