"""What both ends of a connection share: frames, errors, addresses, tables."""

import asyncio
import struct
from typing import ClassVar, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_core_store.errors import CoreError, OffsetOutOfRange, Overloaded
from halfpast_core_store.rpc import CANCEL, REPLY, REQUEST, FrameProtocol, Method
from halfpast_core_store.rpc_address import TcpAddress, UnixAddress, parse_address
from halfpast_core_store.rpc_errors import (
    BadAddress,
    ConnectionLost,
    ErrorRegistry,
    FrameTooLarge,
    RemoteFailure,
    Unavailable,
)

HELLO = b"HALFPAST" + struct.pack("<HB", 1, 4) + b"test"
FRAME_HEADER = struct.Struct("<IQBB")
FRAME_SIZE_MAX = 1024 * 1024


def frame(kind: int, call_id: int, method: int, payload: bytes) -> bytes:
    return FRAME_HEADER.pack(len(payload) + 10, call_id, kind, method) + payload


class RecordingTransport:
    """Keeps what is written; says what a transport would say."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.reading = True
        self.aborted = False

    def write(self, data: bytes | bytearray) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.aborted = True

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert low < high

    def get_extra_info(self, name: str) -> "RecordingTransport":
        assert name == "socket"
        return self

    family = None  # no kind of socket


class RecordingProtocol(FrameProtocol):
    """Keeps the frames that it is handed."""

    def __init__(self) -> None:
        super().__init__("test", FRAME_SIZE_MAX)
        self.hellos: list[tuple[int, str]] = []
        self.frames: list[tuple[int, int, int, bytes | bytearray]] = []
        self.reasons: list[str] = []
        self.wire = RecordingTransport()
        self.connection_made(cast(asyncio.Transport, self.wire))

    def greeted(self, version: int, service: str) -> None:
        self.hellos.append((version, service))

    def frame_received(
        self, kind: int, call_id: int, method: int, payload: bytes | bytearray
    ) -> None:
        self.frames.append((kind, call_id, method, payload))

    def broken(self, reason: str) -> None:
        self.reasons.append(reason)

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)

    async def feed(self, data: bytes) -> None:
        """As a transport does: at most as much as the protocol has room for."""
        while data and not self.wire.aborted:
            for _ in range(3):  # the protocol stops to let others work
                if not self.wire.reading:
                    await asyncio.sleep(0)
            assert self.wire.reading
            room = memoryview(self.get_buffer(-1))
            count = min(len(room), len(data))
            assert count > 0
            room[:count] = data[:count]
            del room
            data = data[count:]
            self.buffer_updated(count)
        await asyncio.sleep(0)


payloads = st.one_of(
    st.binary(max_size=200),
    st.integers(0, 600_000).map(lambda size: bytes([size % 256]) * size),
)
frames = st.lists(
    st.tuples(
        st.sampled_from([REQUEST, REPLY, CANCEL]),
        st.integers(0, 2**64 - 1),
        st.integers(0, 255),
        payloads,
    ),
    max_size=8,
)


@given(frames, st.lists(st.integers(1, 400_000), max_size=20))
def test_frames_arrive_whole_however_the_bytes_are_cut(
    sent: list[tuple[int, int, int, bytes]], cuts: list[int]
) -> None:
    async def body() -> None:
        protocol = RecordingProtocol()
        data = HELLO + b"".join(frame(*one) for one in sent)
        for cut in cuts:
            await protocol.feed(data[:cut])
            data = data[cut:]
        await protocol.feed(data)
        assert protocol.hellos == [(1, "test")]
        assert protocol.frames == sent  # also that none was overwritten since

    asyncio.run(body())


@pytest.mark.asyncio
async def test_many_small_frames_leave_turns_to_others() -> None:
    protocol = RecordingProtocol()
    data = b"".join(frame(REQUEST, call_id, 1, b"x") for call_id in range(1000))
    room = memoryview(protocol.get_buffer(-1))
    room[: len(HELLO + data)] = HELLO + data
    del room
    protocol.buffer_updated(len(HELLO + data))
    assert 0 < len(protocol.frames) < 1000
    assert not protocol.wire.reading
    for _ in range(20):
        await asyncio.sleep(0)
    assert [call_id for _, call_id, _, _ in protocol.frames] == list(range(1000))
    assert protocol.wire.reading


@pytest.mark.asyncio
async def test_held_frames_wait_for_release() -> None:
    protocol = RecordingProtocol()
    await protocol.feed(HELLO)
    protocol.hold()
    protocol.release()
    protocol.hold()
    await asyncio.sleep(0)
    assert not protocol.wire.reading
    protocol.release()
    await asyncio.sleep(0)
    assert protocol.wire.reading


@pytest.mark.asyncio
async def test_frames_of_one_turn_leave_in_one_write() -> None:
    protocol = RecordingProtocol()
    for call_id in range(5):
        protocol.send(REQUEST, call_id, 7, ["hello"])
    assert protocol.wire.written == []
    await asyncio.sleep(0)
    payload = msgspec.msgpack.encode(["hello"])
    expected = b"".join(frame(REQUEST, call_id, 7, payload) for call_id in range(5))
    assert protocol.wire.written == [expected]


@pytest.mark.asyncio
async def test_what_cannot_be_encoded_leaves_no_trace() -> None:
    protocol = RecordingProtocol()
    protocol.send(REQUEST, 1, 7, "before")
    with pytest.raises(TypeError):
        protocol.send(REQUEST, 2, 7, ["half", object()])
    with pytest.raises(FrameTooLarge) as caught:
        protocol.send(REQUEST, 3, 7, b"x" * FRAME_SIZE_MAX)
    assert caught.value.size > caught.value.size_max == FRAME_SIZE_MAX
    protocol.send(REQUEST, 4, 7, "after")
    await asyncio.sleep(0)
    before = frame(REQUEST, 1, 7, msgspec.msgpack.encode("before"))
    after = frame(REQUEST, 4, 7, msgspec.msgpack.encode("after"))
    assert b"".join(protocol.wire.written) == before + after


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [0, 9, FRAME_SIZE_MAX + 1, 2**32 - 1])
async def test_a_frame_of_a_forbidden_size_is_refused_by_its_header(size: int) -> None:
    protocol = RecordingProtocol()
    await protocol.feed(HELLO + FRAME_HEADER.pack(size, 1, REQUEST, 1))
    assert protocol.wire.aborted
    assert protocol.reasons == [f"a frame of {size} bytes"]
    assert protocol.frames == []


@pytest.mark.asyncio
async def test_memory_follows_what_arrives_not_what_is_promised() -> None:
    protocol = RecordingProtocol()
    await protocol.feed(HELLO + FRAME_HEADER.pack(FRAME_SIZE_MAX, 1, REQUEST, 1))
    assert len(protocol.get_buffer(-1)) < FRAME_SIZE_MAX // 2
    await protocol.feed(b"x" * (FRAME_SIZE_MAX - 10))
    assert protocol.frames == [(REQUEST, 1, 1, b"x" * (FRAME_SIZE_MAX - 10))]


@pytest.mark.asyncio
@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"\0", b"HALFPAST"[:4] + b"?"])
async def test_other_protocols_are_refused_at_the_first_bytes(data: bytes) -> None:
    protocol = RecordingProtocol()
    await protocol.feed(data)
    assert protocol.wire.aborted
    assert protocol.reasons == ["it does not speak this protocol"]


@pytest.mark.asyncio
async def test_nothing_is_sent_on_a_closed_connection() -> None:
    protocol = RecordingProtocol()
    protocol.send(REQUEST, 1, 7, "lost")
    protocol.connection_lost(None)
    protocol.send(REQUEST, 2, 7, "ignored")
    await asyncio.sleep(0)
    assert protocol.wire.written == []
    assert protocol.reasons == ["it was closed"]


class Grumble(CoreError):
    """Takes any arguments."""

    code = "test_grumble"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)


class Nameless(Grumble):
    """Has no code of its own."""


class Fussy(CoreError):
    """Refuses what the wire brings."""

    code = "test_fussy"

    def __init__(self, low: int, high: int) -> None:
        super().__init__(low, high)
        if low > high:
            raise ValueError(low)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=8,
)


def over_the_wire(error: Exception) -> Exception:
    registry = ErrorRegistry()
    wire = registry.to_wire(error)
    assert wire is not None
    return registry.from_wire("method", msgspec.msgpack.encode(wire))


@given(st.lists(plain_values, max_size=4))
def test_errors_arrive_as_they_left(args: list[object]) -> None:
    arrived = over_the_wire(Grumble(*args))
    assert type(arrived) is Grumble
    assert arrived.args == tuple(args)


@pytest.mark.parametrize(
    "error",
    [
        CoreError("plain"),
        OffsetOutOfRange(5, 7, 9),
        Overloaded("send"),
        Unavailable("unix:/x", "it is stopping"),
        ConnectionLost("unix:/x", "reset"),
        RemoteFailure("pop", "KeyError: 1"),
        FrameTooLarge(2, 1),
    ],
)
def test_errors_of_the_tree_keep_class_and_text(error: CoreError) -> None:
    arrived = over_the_wire(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("foreign"),
        Nameless("no code of its own"),
        Grumble(object()),
        Grumble(2**64),
        Grumble("x" * 2_000_000),
    ],
)
def test_errors_that_cannot_be_rebuilt_are_not_sent(error: Exception) -> None:
    assert ErrorRegistry().to_wire(error) is None


def test_a_registry_knows_what_is_below_its_base_and_its_own() -> None:
    registry = ErrorRegistry(Grumble)
    assert registry.to_wire(OffsetOutOfRange(5, 7, 9)) is None
    for error in (Grumble(1), Overloaded("send"), RemoteFailure("pop", "why")):
        wire = registry.to_wire(error)
        arrived = registry.from_wire("pop", msgspec.msgpack.encode(wire))
        assert type(arrived) is type(error)


def test_a_class_that_is_defined_later_is_found() -> None:
    registry = ErrorRegistry()

    class Late(CoreError):
        code: ClassVar[str] = "test_late"

    wire = msgspec.msgpack.encode(registry.to_wire(Late("why")))
    assert type(registry.from_wire("method", wire)) is Late


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",
        b"\x92\xa1\xff\x90",  # a code that is not UTF-8
        msgspec.msgpack.encode(["test_unheard_of", [1]]),
        msgspec.msgpack.encode(["offset_out_of_range", [1]]),
        msgspec.msgpack.encode(["test_fussy", [2, 1]]),
    ],
)
def test_an_error_that_makes_no_sense_here_is_a_remote_failure(payload: bytes) -> None:
    arrived = ErrorRegistry().from_wire("pop", payload)
    assert isinstance(arrived, RemoteFailure)
    assert arrived.method == "pop"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/broker.sock", UnixAddress("/run/broker.sock")),
        ("unix:run/a:b", UnixAddress("run/a:b")),
        ("unix:" + "x" * 107, UnixAddress("x" * 107)),
        ("tcp:localhost:7081", TcpAddress("localhost", 7081)),
        ("tcp:127.0.0.1:0", TcpAddress("127.0.0.1", 0)),
        ("tcp:[::1]:7081", TcpAddress("::1", 7081)),
    ],
)
def test_addresses_are_read_and_written(
    text: str, address: UnixAddress | TcpAddress
) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begin with"),
        ("/run/broker.sock", "begin with"),
        ("http://localhost:80", "begin with"),
        ("unix:", "a path is needed"),
        ("unix:/a\0b", "a path is needed"),
        ("unix:" + "x" * 108, "108 bytes, a unix socket allows 107"),
        ("unix:/" + "é" * 54, "109 bytes"),
        ("tcp:", "is needed"),
        ("tcp:7081", "is needed"),
        ("tcp:::1:7081", "is needed"),
        ("tcp:localhost:", "not a port"),
        ("tcp:localhost:65536", "not a port"),
        ("tcp:localhost:-1", "not a port"),
        ("tcp:localhost:٣", "not a port"),
    ],
)
def test_addresses_that_cannot_be_used_say_why(text: str, reason: str) -> None:
    with pytest.raises(BadAddress, match=reason):
        parse_address(text)


class Nothing(msgspec.Struct):
    pass


@pytest.mark.parametrize("number", [0, 256])
def test_a_method_number_is_a_byte(number: int) -> None:
    with pytest.raises(AssertionError):
        Method("zero", number, Nothing, Nothing)
