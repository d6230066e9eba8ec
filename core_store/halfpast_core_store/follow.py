"""Reading the log in its own order: how projections outside the store stay true."""

from .broker import Follow, Followed, FollowedFrame
from .commit_log import CommitLog
from .errors import OffsetOutOfRange
from .frame import HEADER_SIZE, LENGTH, RUN, RUN_SIZE, FrameHeader
from .topics import USER_TOPIC_ID_MIN, family_of_topic

FRAMES_MAX = 20_000


def follow(log: CommitLog, request: Follow) -> Followed:
    """Durable records of the wanted families from a position on.

    `position` 0 means the log's start. Reads headers of the frames in between, not
    their bodies. Raises OffsetOutOfRange if that part of the log is not kept.
    """
    position = request.position or log.start
    if position < log.start or position > log.durable_end:
        raise OffsetOutOfRange(position, log.start, log.durable_end)
    frames: list[FollowedFrame] = []
    size = 0
    for hops, header in enumerate(log.frames_from(position)):
        if size >= request.size_max or hops >= FRAMES_MAX:
            return Followed(frames, header.position, log.durable_end)
        if not header.flags & request.families:
            continue
        records = wanted_records(log, header, request.families)
        if records:
            size += sum(map(len, records))
            end = header.position + header.length
            frames.append(
                FollowedFrame(header.position, end, header.stored_ms, records)
            )
    return Followed(frames, log.durable_end, log.durable_end)


def wanted_records(log: CommitLog, header: FrameHeader, families: int) -> list[bytes]:
    """The records of a frame's system topics that belong to these families."""
    directory_end = HEADER_SIZE + RUN_SIZE * header.run_count
    directory = log.read_part(header.position, HEADER_SIZE, directory_end)
    at = directory_end
    records: list[bytes] = []
    for topic_id, _queue, _zero, _count, size, _offset in RUN.iter_unpack(directory):
        wanted = family_of_topic(topic_id) & families
        if wanted and topic_id < USER_TOPIC_ID_MIN:
            split_records(log.read_part(header.position, at, at + size), records)
        at += size
    return records


def split_records(data: bytes, records: list[bytes]) -> None:
    """Cut a run's bytes into its records."""
    at = 0
    unpack = LENGTH.unpack_from
    while at < len(data):
        end = at + unpack(data, at)[0]
        records.append(data[at:end])
        at = end
