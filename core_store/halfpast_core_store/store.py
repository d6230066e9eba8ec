"""The store: one log, its projections, and the requests that wait for a sync.

The order of things, which every promise rests on:

1. `submit` admits a request (or refuses it, with nothing changed).
2. `seal` gathers what waits into one frame and gives it its place.
3. `write` puts the frame on disk and syncs; on a thread, one at a time.
4. `complete` applies the frame to the index, then answers the requests.

Synchronous and single-threaded but for `write`; `service.py` and the simulator
drive it. After a failed `write` nothing but `fail` may be called.
"""

from collections.abc import Sequence

from . import keys
from .broker import Append, Appended, Dedup, Lane
from .commit_counts import CommitCounts
from .commit_log import CommitLog
from .config import StoreConfig
from .dedup import DedupTable, dedup_record, same_request
from .errors import FenceLost, LogBehindIndex, StoreFailed, StoreFull, TooEarly
from .events import Events, blocks_of
from .frame import (
    FrameHeader,
    PlacedRun,
    draft_frame,
    frame_length,
    read_runs,
    records_of,
)
from .group_state import Change
from .groups import Groups
from .lanes import Lanes
from .pending import Done, Pending, Sealed, SystemRecords, put_change, request_size
from .ports import Clock, Disk, Index, IndexBatch, Rng
from .queues import Queues
from .registry import Registry
from .roles import Roles
from .topics import (
    SYS_DEDUP,
    SYS_GROUPS,
    SYS_TOPICS,
    USER_TOPIC_ID_MIN,
    family_of_topic,
)

DEAD_SIZE_MAX = 4 * 1024 * 1024
PURGE_COUNT = 200
FROM_START = b""


class Store:
    """See above. Times are epoch ms by the given clock."""

    def __init__(
        self,
        disk: Disk,
        index: Index,
        clock: Clock,
        rng: Rng,
        config: StoreConfig,
        salt: int,
    ) -> None:
        self.config = config
        self.salt = salt
        self._index = index
        self._clock = clock
        self.log = CommitLog(disk, config.log, salt)
        self.queues = Queues(index, self.log)
        self.registry = Registry(index)
        dead_size_max = min(DEAD_SIZE_MAX, self.log.frame_size_max // 8)
        self.groups = Groups(index, self.queues, salt, dead_size_max)
        self.events = Events(index, self.log)
        self._dedup = DedupTable(index, config.dedup_window_ms)
        self._dedup_waiting: dict[bytes, Pending] = {}
        self.lanes: Lanes[Pending] = Lanes(config.lanes)
        self._roles = Roles(index, rng)
        self._last_stored_ms = 0
        self._in_flight: Sealed | None = None
        self.flushed_position = 0
        self.writable = True
        self._size_min = config.log.frame_size // config.log.frame_requests
        self.commits = CommitCounts()
        # Where the purge of a family goes on; None if it has nothing to do.
        self._purge_queues: bytes | None = FROM_START
        self._purge_events: bytes | None = FROM_START
        self._purge_dedup = FROM_START

    # --- start ----------------------------------------------------------------

    def open(self) -> None:
        """Recover the log and bring the index up to its end.

        Raises CorruptLog or LogBehindIndex; then nothing has been changed.
        """
        applied = self._index.get(keys.APPLIED)
        last_frame, end, stored_ms, epoch = (
            (self.log.start, self.log.start, 0, 0)
            if applied is None
            else keys.PROGRESS.unpack(applied)
        )
        if not self._log_has(last_frame, end):
            log_end = self.log.segments[-1].end if self.log.segments else 0
            raise LogBehindIndex(min(log_end, end), end)
        self.log.epoch = epoch
        self._last_stored_ms = stored_ms
        for header, frame in self.log.recover(last_frame, end):
            if header.position >= end:
                self._replay(header, frame)
        self.log.epoch += 1
        self.flushed_position = end
        self.groups.begin_epoch(self.log.epoch)

    def _log_has(self, last_frame: int, end: int) -> bool:
        if not self.log.segments:
            return end == 0
        return self.log.start <= last_frame and end <= self.log.segments[-1].end

    def _replay(self, header: FrameHeader, frame: bytes) -> None:
        runs = read_runs(frame, header)
        system: SystemRecords = {
            run.topic_id: records_of(frame, run)
            for run in runs
            if run.topic_id < USER_TOPIC_ID_MIN
        }
        batch = self._index.batch()
        self._project(batch, header, runs, system)
        for run in runs:
            for block in blocks_of(records_of(frame, run)):
                batch.put(block, keys.U64.pack(header.position))
        for key, value in self.groups.replay(system.get(SYS_GROUPS, ())):
            put_change(batch, key, value)
        self._index.write(batch)

    # --- requests -------------------------------------------------------------

    def admit(self, lane: int, size: int) -> None:
        """Raise Overloaded, StoreFull or RequestTooLarge if a request of `size`
        bytes may not enter this lane now."""
        if lane == Lane.SEND and not self.writable:
            raise StoreFull(size, "the disk is above its high watermark")
        self.lanes.check(lane, size)
        self.log.check_room(self.lanes.size, size, use_reserve=lane != Lane.SEND)

    def submit(
        self,
        request: Append,
        done: Done,
        changes: Sequence[Change] = (),
        *,
        admitted: bool = False,
    ) -> None:
        """Let a request wait for the next frame. `done` is called once, with the
        answer or the error, when it is durable (or sealed, if that was asked for).

        Raises what `admit` raises, and FenceLost, TooEarly, IdempotencyConflict;
        then nothing has changed and `done` will not be called.
        """
        # A small request counts for more than it is, so that no frame holds so many
        # that laying it out and answering them all takes long.
        size = max(request_size(request), self._size_min)
        if not admitted:
            self.admit(request.lane, size)
        if request.fence_role:
            self._check_fence(request)
        if request.due_max_ms:
            early_ms = request.due_max_ms - self._clock.now_ns() // 1_000_000
            if early_ms > 0:
                raise TooEarly(early_ms)
        pending = Pending(request, size, done, changes)
        if request.dedup is not None:
            if self._replayed(request.dedup, done):
                return
            self._dedup_waiting[request.dedup.key] = pending
        self.lanes.put(request.lane, pending, size)

    def _check_fence(self, request: Append) -> None:
        self._roles.check(request.fence_role, request.fence_token)

    def _replayed(self, asked: Dedup, done: Done) -> bool:
        """Answer a request that was made before; False if it is new."""
        waiting = self._dedup_waiting.get(asked.key)
        if waiting is not None:
            assert waiting.request.dedup is not None
            same_request(waiting.request.dedup, asked)
            waiting.waiters = (*waiting.waiters, done)
            return True
        found = self._dedup.find(asked)
        if found is None:
            return False
        done(Appended(self.log.durable_end, self._last_stored_ms, found))
        return True

    @property
    def busy(self) -> bool:
        """Whether a frame is on its way to the disk."""
        return self._in_flight is not None

    def seal(self) -> Sealed | None:
        """Gather what waits into a frame; None if nothing does or one is on its way."""
        if self._in_flight is not None or not self.lanes:
            return None
        size_max = min(self.config.log.frame_size, self.log.frame_size_max // 2)
        items: list[Pending] = []
        while self.lanes and not items:
            items = [
                item
                for item in self.lanes.take(size_max)
                if not item.request.fence_role or self._still_fenced(item)
            ]
        if not items:
            return None
        try:
            sealed = self._seal(items)
        except Exception as error:
            for item in items:  # they are in no lane and in no frame
                item.fail(StoreFailed(repr(error)))
            raise
        self._in_flight = sealed
        for item in items:
            if not item.request.durable:
                header = sealed.write.draft.header
                item.answer(Appended(header.position, header.stored_ms))
        return sealed

    def _still_fenced(self, item: Pending) -> bool:
        try:
            self._check_fence(item.request)
        except FenceLost as error:
            self._forget_dedup(item)
            item.fail(error)
            return False
        return True

    def _seal(self, items: list[Pending]) -> Sealed:
        gathered: dict[tuple[int, int], list[bytes]] = {}
        due_max_ms = 0
        for item in items:
            request = item.request
            due_max_ms = max(due_max_ms, request.due_max_ms)
            for run in request.runs:
                queue = (run.topic_id, run.queue_id)
                records = gathered.get(queue)
                if records is None:
                    gathered[queue] = list(run.records)
                else:
                    records.extend(run.records)
            if request.dedup is not None:
                gathered.setdefault((SYS_DEDUP, 0), []).append(
                    dedup_record(request.dedup)
                )
        now_ms = self._clock.now_ns() // 1_000_000
        self._last_stored_ms = max(self._last_stored_ms, now_ms, due_max_ms)
        flags = 0
        size = 0
        for (topic_id, _), records in gathered.items():
            flags |= family_of_topic(topic_id)
            size += sum(map(len, records))
        length = frame_length(len(gathered), size)
        draft = draft_frame(
            [
                (topic, queue, self.queues.assign(topic, queue, len(records)), records)
                for (topic, queue), records in gathered.items()
            ],
            position=self.log.next_position(length),
            stored_ms=self._last_stored_ms,
            epoch=self.log.epoch,
            flags=flags,
        )
        system: SystemRecords = {
            topic: records
            for (topic, _), records in gathered.items()
            if topic < USER_TOPIC_ID_MIN
        }
        return Sealed(self.log.admit(draft), items, system)

    def write(self, sealed: Sealed) -> None:
        """Write and sync. Blocks; any thread. An OSError is fatal to the store."""
        self.log.write(sealed.write)

    def complete(self, sealed: Sealed) -> list[int]:
        """The frame is durable: apply it, answer. Gives the topics it touched."""
        assert self._in_flight is sealed
        header = sealed.write.draft.header
        runs = sealed.write.draft.runs
        self.log.complete(sealed.write)
        batch = self._index.batch()
        self._project(batch, header, runs, sealed.system)
        position = keys.U64.pack(header.position)
        for item in sealed.items:
            sends = item.request.lane == Lane.SEND
            for run in item.request.runs:
                # What is sent with one request has one block of ids, so first and last
                # tell all; commits and occurrences of many may travel as one.
                step = max(1, len(run.records) - 1) if sends else 1
                for block in blocks_of(run.records[::step]):
                    batch.put(block, position)
            for key, value in item.changes:
                put_change(batch, key, value)
        self._index.write(batch)
        self._in_flight = None
        self.commits.add(len(sealed.items), header.record_count)
        for item in sealed.items:
            if item.request.dedup is not None:
                self._forget_dedup(item)
            item.stored(header.position, header.stored_ms)
        if not self.lanes:
            self.queues.forget_assigned()
        return [run.topic_id for run in runs]

    def _forget_dedup(self, item: Pending) -> None:
        if item.request.dedup is not None:
            del self._dedup_waiting[item.request.dedup.key]

    def _project(
        self,
        batch: IndexBatch,
        header: FrameHeader,
        runs: Sequence[PlacedRun],
        system: SystemRecords,
    ) -> None:
        self.queues.apply(batch, header, runs)
        self.registry.apply(batch, system.get(SYS_TOPICS, ()))
        self.registry.reserve(
            batch, [run.topic_id for run in runs], system.get(SYS_GROUPS, ())
        )
        self._dedup.apply(batch, system.get(SYS_DEDUP, ()))
        self._roles.apply(batch, header.flags, header.position)
        self._last_stored_ms = max(self._last_stored_ms, header.stored_ms)
        batch.put(
            keys.APPLIED,
            keys.PROGRESS.pack(
                header.position,
                header.position + header.length,
                header.stored_ms,
                header.epoch,
            ),
        )

    def fail(self, error: Exception) -> None:
        """Tell everybody who waits that the outcome is unknown."""
        items = self.lanes.drain()
        if self._in_flight is not None:
            items += self._in_flight.items
        for item in items:
            item.fail(error)

    # --- roles ----------------------------------------------------------------

    def acquire(self, role: str) -> tuple[int, int]:
        """A new fence token for `role`, and the end of all that its former holder
        can have written. That one's waiting appends are refused.

        Who comes for the first time holds the whole log, and that is flushed: were
        it forgotten, the log might be deleted before where the role has come to.
        """
        token = self._roles.acquire(role)
        if not self._roles.holds(role):
            self._roles.hold(role, token, self.log.start)
            self._index.flush()
        return token, self.log.tail

    def hold(self, role: str, token: int, position: int) -> None:
        """Keep the log from `position` on for this role. Raises FenceLost."""
        self._roles.hold(role, token, position)

    # --- upkeep ---------------------------------------------------------------

    def flush(self, applied: int) -> None:
        """Flush the index, which reflects the log up to `applied`. Blocks; any
        thread, beside everything else."""
        self._index.flush()
        self.flushed_position = max(self.flushed_position, applied)

    def housekeep(self) -> bool:
        """Retention, the high watermark, old index entries: a small bite of each.
        Gives whether all is tidy; if not, call again soon. The files of segments
        that went are deleted by `log.delete_forgotten`."""
        now_ns = self._clock.now_ns()
        # The last applied frame lies before that position, if only just; it stays,
        # since by it a new start knows that the log belongs to the index.
        keep_from = min(self.flushed_position - 1, self._roles.keep_from())
        gone = self.log.expired(now_ns // 1_000_000, keep_from)
        self.log.forget(gone)
        self.writable = not self.log.nearly_full()
        if gone:
            self._purge_queues = self._purge_events = FROM_START
        if self._purge_queues is not None:
            self._purge_queues = self.queues.purge(self._purge_queues, PURGE_COUNT)
        if self._purge_events is not None:
            self._purge_events = self.events.purge(self._purge_events, PURGE_COUNT)
        self._purge_dedup, many = self._dedup.purge(
            self._purge_dedup, now_ns, PURGE_COUNT
        )
        return self._purge_queues is None and self._purge_events is None and not many

    def close(self) -> None:
        self.log.close()
