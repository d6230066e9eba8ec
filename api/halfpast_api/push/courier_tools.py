"""What all couriers of a process share."""

from collections.abc import Callable
from dataclasses import dataclass

from halfpast_api.push.attempt_trace import AttemptTrace
from halfpast_api.push.budget import Budget
from halfpast_api.push.caller import Caller
from halfpast_api.push.config import PushConfig
from halfpast_api.push.recorder import Recorder
from halfpast_api.push.tally import Tally
from halfpast_core_store.broker import Broker


@dataclass(frozen=True, slots=True, kw_only=True)
class CourierTools:
    """`now_ms` is of a clock that only goes forward, `wall_ms` of the one on the wall,
    and `stamp_ms` of the one that receivers go by: the machine's, also where the others
    are virtual. `random` gives numbers from 0 to 1. `disable` is told an endpoint, its
    URL and the reason; `fail` an error that is our own mistake."""

    broker: Broker
    caller: Caller
    recorder: Recorder
    tally: Tally
    budget: Budget
    config: PushConfig
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    stamp_ms: Callable[[], int]
    random: Callable[[], float]
    disable: Callable[[str, str, str], None]
    fail: Callable[[BaseException], None]
    trace: AttemptTrace | None = None
