"""Questions as their takers see them, and what their answers do."""

import asyncio
from typing import cast

import pytest
from tests.unit.txn_deciding import Deciding, soon, turns
from tests.unit.txn_line import (
    COMMITTED,
    GROUP,
    ROLLED_BACK,
    Line,
    begin_records,
    delayed_record,
    half_record,
    transaction_id,
)

from halfpast_core_store.broker import Broker, ResolvedTopics, TopicInfo, TopicNames
from halfpast_core_store.errors import Overloaded
from halfpast_core_store.rpc_errors import ConnectionLost
from halfpast_txn import questions as questions_module
from halfpast_txn.check_backs import CheckBacks
from halfpast_txn.check_desk import CheckDesk
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.questions import MESSAGES_MAX, Questions, head_of
from halfpast_txn.transactions import (
    AnswerChecks,
    Check,
    CheckAnswer,
    Ended,
    PollChecks,
    Source,
    TransactionState,
)
from halfpast_txn.transport import Verdict

AT_ONCE = CheckPolicy(0, 100, 5)
ENDPOINT = CheckEndpoint(url="http://orders.test/checks")


class NamesBroker:
    """Knows topics from 1024 on; tells how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.error: Exception | None = None
        self.gate: asyncio.Future[None] | None = None

    async def topics_by_id(self, request: TopicNames) -> ResolvedTopics:
        self.asked.append(request.ids)
        if self.gate is not None:
            await self.gate
        if self.error is not None:
            raise self.error
        return ResolvedTopics(
            [
                TopicInfo(one, f"topic-{one}", 4) if one >= 1024 else None
                for one in request.ids
            ]
        )


class Transport:
    """Answers what it is told to."""

    def __init__(self) -> None:
        self.verdict = Verdict(state=0, cause="timeout")
        self.asked: list[Check] = []

    async def ask(self, endpoint: CheckEndpoint, check: Check) -> Verdict:
        self.asked.append(check)
        return self.verdict

    def counters(self) -> dict[str, float]:
        return {}

    def gauges(self) -> dict[str, float]:
        return {}

    async def close(self) -> None:
        pass


class Rig:
    """Check-backs over a line, and a broker that knows names."""

    def __init__(self, *numbers: int) -> None:
        self.line = Line()
        for number in numbers:
            self.line.begin(number, policy=AT_ONCE, reference=f"order {number}")
        self.line.check_all()
        self.deciding = Deciding(self.line)
        self.desk = CheckDesk(100, self.deciding.loop)
        self.broker = NamesBroker()
        self.transport = Transport()
        self.questions = Questions(self.line.core, cast(Broker, self.broker))
        self.check_backs = CheckBacks(
            self.line.core,
            self.desk,
            self.questions,
            self.transport,
            self.deciding.decider.end,
            self.deciding.catch_up,
            self.deciding.loop,
        )
        for number in numbers:
            self.desk.put(GROUP, transaction_id(number), 1)

    async def poll(self, wait_ms: int = 0, count: int = 100) -> list[Check]:
        request = PollChecks(GROUP, count, wait_ms)
        return (await soon(self.check_backs.poll(request))).checks

    async def answer(self, *answers: CheckAnswer, group: str = GROUP) -> Ended:
        request = AnswerChecks(group, list(answers))
        return await soon(self.check_backs.answer(request))


# --- questions ----------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_question_tells_what_a_producer_needs_to_know() -> None:
    rig = Rig()
    halves = [
        half_record(1, n, topic_id=1024 + n % 2, key=b"k%d" % n, tag=b"\xff")
        for n in range(30)
    ]
    rig.line.begin(1, halves, AT_ONCE, reference="order 4711")
    rig.line.check_all()
    (check,) = await rig.questions.build([(transaction_id(1), 1)])
    assert (check.check, check.group, check.message_count) == (1, GROUP, 30)
    assert (check.reference, check.begun_ms) == ("order 4711", rig.line.now_ms)
    assert len(check.messages) == MESSAGES_MAX
    first, second = check.messages[:2]
    assert (first.topic, first.key, first.tag) == ("topic-1024", "k0", "�")
    assert second.topic == "topic-1025"


@pytest.mark.asyncio
async def test_only_what_still_wants_an_answer_becomes_a_question() -> None:
    rig = Rig(1, 2, 3)
    rig.line.end(1)
    asked = [(transaction_id(n), 1) for n in (1, 2, 9)] + [(transaction_id(3), 7)]
    built = await rig.questions.build(asked)
    assert [check.transaction_id for check in built] == [transaction_id(2)]


@pytest.mark.asyncio
async def test_names_are_asked_for_once_and_not_kept_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(questions_module, "TOPICS_MAX", 3)
    rig = Rig()
    for number in range(1, 8):
        rig.line.begin(number, [half_record(number, topic_id=1023 + number)], AT_ONCE)
    rig.line.check_all()
    every = [(transaction_id(number), 1) for number in range(1, 8)]
    for _ in range(2):
        await rig.questions.build(every[:2])
    assert rig.broker.asked == [[1024, 1025]]
    for question in every:
        (check,) = await rig.questions.build([question])
        assert check.messages[0].topic.startswith("topic-")
    assert len(rig.questions._topics) <= 3  # pyright: ignore[reportPrivateUsage]
    built = await rig.questions.build(every)
    assert [check.messages[0].topic for check in built] == [
        f"topic-{1023 + number}" for number in range(1, 8)
    ]


@pytest.mark.asyncio
async def test_a_topic_that_is_no_more_has_no_name() -> None:
    rig = Rig()
    rig.line.begin(1, [half_record(1, topic_id=7)], AT_ONCE)
    rig.line.check_all()
    (check,) = await rig.questions.build([(transaction_id(1), 1)])
    assert check.messages[0].topic == ""


@pytest.mark.asyncio
async def test_a_large_poll_lets_others_have_their_turn() -> None:
    rig = Rig(*range(100))
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    async def build() -> None:
        await rig.questions.build([(transaction_id(n), 1) for n in range(100)])
        order.append("built")

    await asyncio.gather(build(), other())
    assert order == ["other", "built"]


def test_a_head_is_a_message_without_its_body() -> None:
    head = head_of(half_record(1, 3, key=b"k", tag=b"t", body=bytes(1_000), due_ms=5))
    assert (head.key, head.tag, head.size) == (b"k", b"t", 1_000)
    assert (head.due_ms, head.delay_ms) == (5, 0)
    delayed = head_of(delayed_record(1, 0, 60_000))
    assert (delayed.due_ms, delayed.delay_ms) == (0, 60_000)
    assert delayed.event_id == transaction_id(1)[:-1] + b"\1"


# --- polling -----------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_poll_takes_what_waits() -> None:
    rig = Rig(1, 2, 3)
    assert [c.transaction_id for c in await rig.poll(count=2)] == [
        transaction_id(1),
        transaction_id(2),
    ]
    assert len(await rig.poll()) == 1
    assert await rig.poll() == []


@pytest.mark.asyncio
async def test_a_poll_waits_for_the_first_one() -> None:
    rig = Rig()
    poll = asyncio.create_task(rig.poll(wait_ms=60_000))
    await turns(lambda: rig.desk.has_poller(GROUP))
    rig.line.begin(1, policy=AT_ONCE)
    rig.line.check_all()
    rig.desk.put(GROUP, transaction_id(1), 1)
    (check,) = await poll
    assert check.transaction_id == transaction_id(1)


@pytest.mark.asyncio
async def test_a_poll_waits_on_where_all_was_answered_meanwhile() -> None:
    rig = Rig(1, 2)
    rig.line.end(1)
    poll = asyncio.create_task(rig.poll(wait_ms=60_000, count=1))
    (check,) = await poll
    assert check.transaction_id == transaction_id(2)


@pytest.mark.asyncio
async def test_a_poll_that_fails_or_goes_puts_its_questions_back() -> None:
    # Else they would be lost until the next check-back, in up to ten minutes.
    rig = Rig(1, 2)
    rig.broker.error = ConnectionLost("broker", "test")
    with pytest.raises(ConnectionLost):
        await rig.check_backs.poll(PollChecks(GROUP))
    rig.broker.error = None
    rig.broker.gate = rig.deciding.loop.create_future()
    poll = asyncio.create_task(rig.check_backs.poll(PollChecks(GROUP)))
    await turns(lambda: len(rig.broker.asked) == 2)
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    rig.broker.gate = None
    assert len(await rig.poll()) == 2


@pytest.mark.asyncio
async def test_close_sends_pollers_home() -> None:
    rig = Rig()
    poll = asyncio.create_task(rig.poll(wait_ms=60_000))
    await turns(lambda: rig.desk.has_poller(GROUP))
    rig.check_backs.close()
    assert await poll == []


# --- answers -------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_answers_end_transactions_each_in_its_place() -> None:
    rig = Rig(1, 2, 3)
    ended = await rig.answer(
        CheckAnswer(transaction_id(3), 0, 1),
        CheckAnswer(transaction_id(1), COMMITTED, 1),
        CheckAnswer(transaction_id(9), 0, 1),
        CheckAnswer(transaction_id(2), ROLLED_BACK, 1),
        CheckAnswer(transaction_id(9), COMMITTED, 1),
    )
    assert [(r.code, r.state) for r in ended.results] == [
        ("", TransactionState.PREPARED),
        ("", COMMITTED),
        ("unknown_transaction", 0),
        ("", ROLLED_BACK),
        ("unknown_transaction", 0),
    ]
    assert ended.results[1].source == Source.CHECK
    assert rig.line.core.answers == {transaction_id(3): "unknown"}
    counters = rig.check_backs.counters()
    assert counters['check_answers_total{state="unknown"}'] == 2
    assert counters['check_answers_total{state="committed"}'] == 2


@pytest.mark.asyncio
async def test_unknown_never_ends_a_transaction() -> None:
    rig = Rig(1)
    for _ in range(20):
        ended = await rig.answer(CheckAnswer(transaction_id(1), 0))
        assert ended.results[0].state == TransactionState.PREPARED
    assert rig.deciding.appended == []
    assert not rig.line.core.claims


@pytest.mark.asyncio
async def test_answers_of_another_group_count_for_nothing() -> None:
    rig = Rig(1)
    answers = [CheckAnswer(transaction_id(1), state, 1) for state in (0, 2, 3)]
    ended = await rig.answer(*answers, group="others")
    assert {r.code for r in ended.results} == {"wrong_producer_group"}
    assert rig.line.core.answers == {}
    await rig.answer(CheckAnswer(transaction_id(1), COMMITTED, 1))  # not yet applied
    ended = await rig.answer(*answers, group="others")
    assert {r.code for r in ended.results} == {"wrong_producer_group"}


@pytest.mark.asyncio
@pytest.mark.parametrize("applied", [True, False])
async def test_late_answers_are_told_what_holds(applied: bool) -> None:
    rig = Rig(1)
    await rig.answer(CheckAnswer(transaction_id(1), COMMITTED, 1))
    if applied:
        rig.deciding.follow()
    ended = await rig.answer(
        CheckAnswer(transaction_id(1), COMMITTED, 1),
        CheckAnswer(transaction_id(1), ROLLED_BACK, 1),
        CheckAnswer(transaction_id(1), 0, 1),
    )
    assert [(r.code, r.state) for r in ended.results] == [
        ("", COMMITTED),
        ("transaction_conflict", COMMITTED),
        ("", COMMITTED),
    ]


@pytest.mark.asyncio
async def test_an_answer_about_what_began_a_moment_ago_looks_at_the_log() -> None:
    rig = Rig()
    records = begin_records(1, [half_record(1)], rig.line.now_ms)
    rig.line.append_records(records)
    ended = await rig.answer(CheckAnswer(transaction_id(1), 0))
    assert ended.results[0].state == TransactionState.PREPARED
    assert rig.deciding.catch_ups == 1


# --- calls to endpoints ---------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
async def test_an_endpoints_answer_ends_a_transaction(state: TransactionState) -> None:
    rig = Rig(1)
    rig.transport.verdict = Verdict(state=state)
    await soon(rig.check_backs.ask(ENDPOINT, (transaction_id(1), 1)))
    rig.deciding.follow()
    status = rig.line.status(1)
    assert (status.state, status.source, status.check) == (state, Source.CHECK, 1)


@pytest.mark.asyncio
async def test_what_is_no_answer_is_noted() -> None:
    rig = Rig(1)
    await soon(rig.check_backs.ask(ENDPOINT, (transaction_id(1), 1)))
    assert rig.line.core.answers == {transaction_id(1): "timeout"}
    rig.transport.verdict = Verdict(state=0)
    await soon(rig.check_backs.ask(ENDPOINT, (transaction_id(1), 1)))
    assert rig.line.core.answers == {transaction_id(1): "unknown"}
    assert rig.line.status(1).state == TransactionState.PREPARED


@pytest.mark.asyncio
async def test_what_wants_no_answer_is_not_asked() -> None:
    rig = Rig(1)
    rig.line.end(1)
    await soon(rig.check_backs.ask(ENDPOINT, (transaction_id(1), 1)))
    assert rig.transport.asked == []


@pytest.mark.asyncio
async def test_an_answer_that_was_not_stored_is_asked_for_again() -> None:
    rig = Rig(1)
    rig.transport.verdict = Verdict(state=COMMITTED)
    rig.deciding.held = True
    call = asyncio.create_task(rig.check_backs.ask(ENDPOINT, (transaction_id(1), 1)))
    await turns(lambda: rig.deciding.gates)
    rig.deciding.gates[0].refuse(Overloaded("end-transaction"))
    await soon(call)
    assert rig.line.core.answers == {transaction_id(1): "not stored: overloaded"}
    rig.deciding.claims.live = False
    await soon(rig.check_backs.ask(ENDPOINT, (transaction_id(1), 1)))
    assert rig.line.core.answers == {transaction_id(1): "not stored: unavailable"}
    rig.line.clock.advance(100)
    assert rig.line.check_all() == [(1, 2)]
