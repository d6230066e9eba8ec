"""Small sizes, so that every border is crossed often."""

from dataclasses import replace
from enum import IntEnum

from halfpast_chronos.config import ChronosConfig
from halfpast_core_store.broker import GroupPolicy
from halfpast_core_store.config import LanesConfig, LogConfig, StoreConfig
from halfpast_core_store.topics import USER_TOPIC_ID_MIN
from halfpast_txn.config import TxnConfig

START_NS = 1_800_000_000_000_000_000
SALT = 0x5EED
TOPICS = (USER_TOPIC_ID_MIN, USER_TOPIC_ID_MIN + 1)
CHOOSY_TOPICS = (USER_TOPIC_ID_MIN + 2, USER_TOPIC_ID_MIN + 3)
"""For timers only: these may be closed, or take small messages only."""
LATE_TOPIC = USER_TOPIC_ID_MIN + 4
"""The broker does not know it before the end of a run."""
ALL_TOPICS = (*TOPICS, *CHOOSY_TOPICS, LATE_TOPIC)
QUEUES = 2
GROUP = "readers"
FOLLOWERS = "followers"
ORDERED = GroupPolicy(attempts_max=1000, ordered=True)
STEPS = 400


class Focus(IntEnum):
    """What a run is about: everything at once would hide what takes many steps."""

    BROKER = 1  # messages, consumers, transactions, and plain timers
    TIMERS = 2  # all that the Delay Server does
    ALL = 3


FOCUS_OF_SEED = (Focus.ALL, Focus.BROKER, Focus.TIMERS, Focus.BROKER, Focus.TIMERS)

STORE = StoreConfig(
    log=LogConfig(
        segment_size=16 * 1024, frame_size=2048, frame_size_max=8192, reserve_size=512
    ),
    lanes=LanesConfig(send_message_thread_pool_nums=2),
)
CHRONOS = ChronosConfig(
    lookahead_ms=400,
    near_count_max=6,
    near_topic_count_max=3,
    load_count=3,
    fire_count=4,
    fire_in_flight=2,
    attempts_max=3,
    retry_initial_ms=20,
    retry_max_ms=60,
    clock_jump_ms=1_000,
    drain_rate_per_s=100,
)
CHRONOS_CONFIGS = (
    CHRONOS,
    replace(CHRONOS, near_topic_count_max=1, near_size_max=300, fire_size=300),
    replace(CHRONOS, near_count_max=1, load_count=1, fire_count=2),
    replace(CHRONOS, near_count_max=40, near_topic_count_max=12, load_count=9),
)
FORGETFUL_HISTORY = {"history_ms": 300, "history_count_max": 6}
# Segments so small, and kept so briefly, that most of the log is gone at the end.
FORGETFUL_STORE = StoreConfig(
    log=LogConfig(
        segment_size=4096,
        frame_size=1024,
        frame_size_max=4096,
        reserve_size=256,
        retention_ms=60,
    ),
    lanes=LanesConfig(send_message_thread_pool_nums=2),
)

ENDS_IN_FLIGHT = 1
FORGETFUL_HISTORY_MS = 300
TXN = TxnConfig(
    lookahead_ms=400,
    near_count_max=6,
    load_count=3,
    young_size_max=4000,
    check_count=3,
    check_in_flight=2,
    end_size=200,
)
FORGETFUL_TXN = replace(TXN, history_ms=FORGETFUL_HISTORY_MS)
