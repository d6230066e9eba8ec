"""What makes a serving process's pauses short. Called once it serves."""

import gc
import sys

SWITCH_INTERVAL_S = 0.0005
COLLECT_AFTER = 20_000  # objects more than before
COLLECT_OLDER_AFTER = 50


def tune_interpreter() -> None:
    """Hand the GIL over quickly, and keep the collector away from what stays.

    The thread that syncs the log needs the GIL for a moment after each sync. With
    Python's own interval it may wait 5 ms for it while the event loop is busy, which
    is twenty times as long as the sync itself. What has been made until now lives
    as long as the process, so the collector need not look at it again; what
    requests make afterwards is hardly ever cyclic, so it may look more seldom.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, COLLECT_OLDER_AFTER, COLLECT_OLDER_AFTER)
