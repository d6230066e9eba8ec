"""The Delay Server of one simulated world, without its event loop.

The real core, the real rules for claims (`standing.py`) and the parts that
`service.py` gives the core; what that, `firer.py`, `decider.py`, `control_watch.py` and
`bulk_service.py` do on a loop is done here a step at a time. Between two steps the
process may die or lose its connection.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from tests.simulation.sim_connection import Connection, Done
from tests.simulation.sim_follower import SEEN_MAX, SimWaiters
from tests.simulation.sim_releases import Releases

from halfpast_chronos import keys
from halfpast_chronos.bulk import BulkSlice
from halfpast_chronos.bulk_records import BulkRecords
from halfpast_chronos.core import DelayCore, Firing
from halfpast_chronos.decisions import Busy, Command
from halfpast_chronos.operations import Operations
from halfpast_chronos.recurring import Recurring
from halfpast_chronos.standing import ROLE, Standing
from halfpast_chronos.topic_controls import TopicControl
from halfpast_core_store.broker import Append, Appended, Broker, Follow, FollowedFrame
from halfpast_core_store.errors import CoreError, FenceLost, RequestTooLarge
from halfpast_core_store.follow import follow
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import Family
from halfpast_core_store.rpc_errors import UNSURE, Unavailable

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

Reply = Callable[[Any], None]
"""Takes what was decided, or the CoreError that refused it."""


class DelayProcess:
    """One process. `World.make_core`, `make_slice` and others let a test plant a
    bug."""

    make_slice: type[BulkSlice] = BulkSlice

    def __init__(self, world: "World", index: MemoryIndex) -> None:
        self._world = world
        self._random = world.random
        self.index = index
        self.core: DelayCore = world.make_core(
            index, world.clock, world.chronos, is_controlled=True
        )
        self.recurring: Recurring = world.make_recurring(self.core)
        self._bulk_records: BulkRecords = world.make_bulk_records(self.core)
        self.operations = Operations(self.core)
        self.waiters = SimWaiters()
        no_broker = cast("Broker", None)  # `Connection` appends
        self.standing = Standing(self.core, no_broker, self.waiters, self._fail)
        self.standing.lost = True
        self.connection = Connection(world)
        self.controls: dict[int, TopicControl] = {}
        self._met: set[int] = set()
        self.look_at_settings()
        self.releases = Releases(world, self)
        self._role_end = 0
        self._was_live = False
        self._in_flight = 0
        self._slice: tuple[BulkSlice, int] | None = None
        self._changed_max = 3
        self._applied_count = 0  # records of the frame at hand
        self._seen: list[FollowedFrame] = []

    @property
    def live(self) -> bool:
        return self.standing.live

    def _fail(self, error: BaseException) -> None:
        raise error

    # --- its loop -----------------------------------------------------------------

    def step(self) -> None:
        """What its loop would do next: take answers, follow, fire what is due."""
        standing, connection = self.standing, self.connection
        connection.deliver()
        ready, self.waiters.ready = self.waiters.ready, []
        for call in ready:
            call()
        if connection.was_cut or not connection.is_up:
            connection.was_cut = False
            standing.lose()
        if not connection.is_up:
            connection.is_up = self._random.random() < 0.5
        elif standing.lost:
            self._take_role()
        else:
            self._follow()
            self._meet_strangers()
            if standing.live:
                self.core.horizon.load(self.core.now_ms())
                self._fire()
                self._advance_bulk()

    def send(self, request: Append, done: Done) -> None:
        request.fence_role, request.fence_token = ROLE, self.standing.token
        self.connection.append(request, done)

    def _take_role(self) -> None:
        self.standing.live = False
        self.core.measures = False
        self.standing.token, self._role_end = self._world.store.acquire(ROLE)
        self.standing.lost = False

    # --- following ----------------------------------------------------------------

    def _follow(self) -> None:
        """Apply some of what is new, perhaps stopping amid a frame."""
        if self._seen and self._random.random() < 0.1:
            self.core.apply(self._seen, 0)  # two followed at once: passed over
        for frame in self._followed(2000):
            if not self._apply(frame, whole=False):
                return
        standing = self.standing
        if not standing.live and self.core.position >= self._role_end:
            for claim in sorted(self.core.claims):
                standing.give_up(claim)
            self.core.measures = True
            standing.live = self._was_live = True

    def _followed(self, size_max: int) -> list[FollowedFrame]:
        request = Follow(self.core.position, Family.TIMERS, size_max=size_max)
        followed = follow(self._world.store.log, request)
        if not followed.frames:
            self.core.apply([], followed.next_position)
        return followed.frames

    def _apply(self, frame: FollowedFrame, *, whole: bool) -> bool:
        """Apply a frame in slices; perhaps not all of them now."""
        while frame.position >= self.core.position:
            start = self._applied_count
            count = self._random.choice((1, 1, 2, 40))
            stop = min(start + count, len(frame.records))
            released = self.core.apply_slice(frame, start, stop)
            self._applied_count = stop if stop < len(frame.records) else 0
            for claim in released:
                self.waiters.wake(claim)
            if self._applied_count and not whole and self._random.random() < 0.7:
                return False
        self._seen = [*self._seen, frame][-SEEN_MAX:]
        return True

    def catch_up(self) -> None:
        """Apply all that is durable. Raises Unavailable without a connection."""
        if not self.connection.is_up:
            raise Unavailable("broker", "no connection")
        while self.core.position < self._world.store.log.durable_end:
            for frame in self._followed(1 << 20):
                self._apply(frame, whole=True)

    # --- what topics may release ----------------------------------------------------

    def look_at_settings(self) -> None:
        """Their settings as they are now; those that it has met, apply."""
        self.controls = dict(self._world.settings.controls)
        for topic_id in sorted(self._met):
            self.core.control(topic_id, self.controls[topic_id])

    def _meet_strangers(self) -> None:
        strangers = self.core.horizon.strangers
        if strangers and self._random.random() < 0.7:
            for topic_id in map(keys.timer_topic, strangers):
                self._met.add(topic_id)
                self.core.control(topic_id, self.controls[topic_id])
            strangers.clear()

    # --- firing -------------------------------------------------------------------

    def _fire(self) -> None:
        if self._in_flight >= self._world.chronos.fire_in_flight:
            return
        firing = self.releases.fire()
        if firing is None:
            return
        self._in_flight += 1
        self.send(firing.request, lambda answer: self._fired(firing, answer))

    def _fired(self, firing: Firing, answer: Appended | CoreError) -> None:
        self._in_flight -= 1
        standing = self.standing
        if isinstance(answer, UNSURE):
            standing.lose()
        elif isinstance(answer, FenceLost):
            if not answer.held:
                standing.lose()
            elif standing.is_ours(firing.request):
                raise answer
        elif isinstance(answer, CoreError) and standing.is_ours(firing.request):
            self.core.refused(firing, answer)

    # --- decisions ----------------------------------------------------------------

    def decide(self, decide: Callable[[], Any], reply: Reply) -> None:
        """Decide on the latest state; `reply` is called at most once."""
        try:
            self.catch_up()
            self.standing.check()
            decision = decide()
        except CoreError as error:
            reply(error)
            return
        if isinstance(decision, Busy):
            claim = decision.claim
            self.waiters.then(claim, lambda: self.decide(decide, reply))
        elif isinstance(decision, Command):
            self._see_through(decision, reply)
        else:
            reply(decision)

    def _see_through(self, command: Command, reply: Reply) -> None:
        waiting = len(command.claims)
        durable = False

        def applied() -> None:
            nonlocal waiting
            waiting -= 1
            if durable and not waiting:
                reply(command)

        def done(answer: Appended | CoreError) -> None:
            nonlocal durable
            if isinstance(answer, CoreError):
                self.standing.refused(command.claims, command.request, answer)
                reply(answer)
                return
            durable = True
            if not waiting:
                reply(command)

        for claim in command.claims:
            self.waiters.then(claim, applied)
        self.send(command.request, done)
        if self._world.answer_early:
            reply(command)

    # --- bulk operations ------------------------------------------------------------

    def _advance_bulk(self) -> None:
        """A step of a slice of some operation."""
        if self._slice is None or self._slice[1] != self.standing.token:
            self._slice = self._begin_slice()
        if self._slice is None:
            return
        made, _ = self._slice
        if made.step() and self._random.random() < 0.7:
            return
        self._slice = None
        operation_id = made.progress().operation_id
        if made.changed or made.is_last or self._random.random() < 0.3:
            self._carry_out(made.command(self.operations))
        else:
            self.operations.show(made.progress())
            self.core.release([operation_id])
            self.waiters.wake(operation_id)

    def _begin_slice(self) -> tuple[BulkSlice, int] | None:
        running = self.operations.running()
        if not running:
            return None
        operation = self._random.choice(running)
        if operation.operation_id in self.core.claims:
            return None
        self.core.claims.add(operation.operation_id)
        made = self.make_slice(
            self.core, self._bulk_records, operation, self._changed_max
        )
        return made, self.standing.token

    def _carry_out(self, command: Command) -> None:
        def done(answer: Appended | CoreError) -> None:
            if isinstance(answer, CoreError):
                self.standing.refused(command.claims, command.request, answer)
            if isinstance(answer, RequestTooLarge):
                self._changed_max = max(1, self._changed_max // 2)

        self.send(command.request, done)

    # --- upkeep -------------------------------------------------------------------

    def keep_house(self) -> None:
        """Forget, count again, make the index durable, let the log go."""
        core, chronos = self.core, self._world.chronos
        if not self._was_live:
            return
        if self._random.random() < 0.5:
            core.due_counts.step()
            core.history.step()
        if self._world.forgets_events and self._random.random() < 0.6:
            core.forget(self._random.choice((1, 3, 20)))
            until_ms = core.now_ms() - chronos.history_ms
            self.recurring.forget(until_ms, 5)
            self.operations.forget(until_ms)
        core.horizon.forget_idle()
        position = core.save_position()
        self.index.flush()
        if not self.connection.is_up:
            return
        try:
            self._world.store.hold(ROLE, self.standing.token, position)
        except FenceLost as error:
            if error.held and self.standing.live:
                raise
            self.standing.lose()
