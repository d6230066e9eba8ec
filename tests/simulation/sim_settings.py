"""Small sizes, so that every border is crossed often."""

from dataclasses import replace

from halfpast_chronos.config import ChronosConfig
from halfpast_core_store.config import LanesConfig, LogConfig, StoreConfig
from halfpast_core_store.topics import USER_TOPIC_ID_MIN
from halfpast_txn.config import TxnConfig

START_NS = 1_800_000_000_000_000_000
SALT = 0x5EED
TOPICS = (USER_TOPIC_ID_MIN, USER_TOPIC_ID_MIN + 1)
QUEUES = 2
GROUP = "readers"
STEPS = 400

STORE = StoreConfig(
    log=LogConfig(
        segment_size=16 * 1024, frame_size=2048, frame_size_max=8192, reserve_size=512
    ),
    lanes=LanesConfig(send_message_thread_pool_nums=2),
)
CHRONOS = ChronosConfig(
    lookahead_ms=400, near_count_max=6, load_count=3, fire_count=4, fire_in_flight=2
)
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
