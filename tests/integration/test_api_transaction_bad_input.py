"""Bad input about transactions: refused with a reason, and nothing is stored."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.integration.api_server import Api, Reply, serve
from tests.integration.api_stub import StubServices

from halfpast_api.config import ApiConfig, TransactionLimits
from halfpast_core_store.errors import Overloaded, StoreFailed
from halfpast_core_store.rpc_errors import Unavailable
from halfpast_txn.transactions import EndResult, TransactionState

pytestmark = pytest.mark.asyncio
BEGIN = "/v1/transactions"
ID = "01936f1e-8c00-7abc-8def-012345670000"
ANSWER = "/v1/producer-groups/shop/checks:answer"
NOTHING: list[dict[str, Any]] = [{}]


@pytest_asyncio.fixture
async def services() -> StubServices:
    return StubServices()


@pytest_asyncio.fixture
async def api(services: StubServices, tmp_path: Path) -> AsyncIterator[Api]:
    """Fails the test if anything was stored or decided."""
    config = ApiConfig(port=0, transactions=TransactionLimits(message_size_max=100_000))
    async with serve(*services.all, tmp_path, config) as api:
        yield api
    assert services.appended == []
    assert services.ended == []


def asked(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    some = [{"topic": "orders", "data": 1} | it for it in messages or ({},)]
    return {"producer_group": "shop", "messages": some} | fields


async def refused(api: Api, code: str, body: object, target: str = BEGIN) -> Reply:
    reply = await api.post(target, body)
    assert reply.code == code, reply
    assert reply.status == (413 if code == "transaction_too_large" else 422)
    return reply


async def test_no_messages(api: Api) -> None:
    reply = await refused(api, "no_messages", asked(messages=[]))
    assert reply.pointers == ["/messages"]
    more = asked(messages=[], first_index=1)
    del more["producer_group"]
    await refused(api, "no_messages", more, f"{BEGIN}/{ID}:add")


async def test_too_many_messages(api: Api) -> None:
    reply = await refused(api, "too_many_messages", asked(*NOTHING * 1001))
    assert "1001 messages, and it may have 1000" in reply.body["detail"]
    more = {"first_index": 999, "messages": [{"topic": "orders", "data": 1}] * 2}
    reply = await refused(api, "too_many_messages", more, f"{BEGIN}/{ID}:add")
    assert "1001 messages" in reply.body["detail"]


@pytest.mark.parametrize("form", ["json", "msgpack"])
async def test_far_too_many_messages(api: Api, form: str) -> None:
    body = asked(*[{"data": "x" * 10}] * 60_000)
    packed = getattr(msgspec, form).encode(body)
    headers = {"Content-Type": f"application/{form}"}
    reply = await api.post(BEGIN, packed, headers=headers)
    assert (reply.status, reply.code) == (422, "too_many_messages")
    assert "60000" in reply.body["detail"]
    batch = getattr(msgspec, form).encode({"transactions": [body]})
    reply = await api.post(f"{BEGIN}:batch", batch, headers=headers)
    assert (reply.status, reply.code) == (422, "too_many_messages")


async def test_too_large_in_sum(api: Api) -> None:
    messages = [{"data": "x" * 30_000} for _ in range(4)]
    reply = await refused(api, "transaction_too_large", asked(*messages))
    assert reply.pointers == ["/messages"]
    assert "up to 100000" in reply.body["detail"]
    more = {"first_index": 1, "messages": asked(*messages)["messages"]}
    await refused(api, "transaction_too_large", more, f"{BEGIN}/{ID}:add")


async def test_an_unknown_producer_group_where_checks_are_required(api: Api) -> None:
    reply = await refused(api, "producer_group_required", asked(check_required=True))
    assert reply.pointers == ["/producer_group"]
    assert "PUT /v1/producer-groups/shop" in reply.body["detail"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("check_after_ms", -1),
        ("check_after_ms", 604_800_001),
        ("check_interval_ms", 99),
        ("check_interval_ms", 86_400_001),
        ("check_max", 0),
        ("check_max", 1001),
    ],
)
async def test_policies_that_cannot_be(api: Api, field: str, value: int) -> None:
    reply = await refused(api, "invalid_check_policy", asked(**{field: value}))
    assert reply.pointers == [f"/{field}"]


@pytest.mark.parametrize(
    ("fields", "code", "pointer"),
    [
        ({"producer_group": "a b"}, "invalid_producer_group", "/producer_group"),
        ({"producer_group": 5}, "invalid_request", "/producer_group"),
        ({"messages": {}}, "invalid_request", "/messages"),
        ({"messages": [{"data": 1}]}, "missing_field", "/messages/0/topic"),
        ({"mesages": []}, "unknown_field", "/mesages"),
        ({"check_after_ms": "5"}, "invalid_request", "/check_after_ms"),
        ({"check_required": "yes"}, "invalid_request", "/check_required"),
        ({"reference": "x" * 513}, "invalid_reference", "/reference"),
        ({"id": ID}, "unknown_field", "/id"),
    ],
)
async def test_what_is_no_transaction(
    api: Api, fields: dict[str, Any], code: str, pointer: str
) -> None:
    assert (await refused(api, code, asked(**fields))).pointers == [pointer]


async def test_a_message_that_cannot_be_stored_refuses_the_transaction(
    api: Api,
) -> None:
    reply = await refused(api, "reserved_topic", asked({}, {"topic": "SYS_TRANS_HALF"}))
    assert reply.pointers == ["/messages/1"]
    reply = await refused(
        api, "invalid_time", asked({}, {"delay": "1h"}, {"delay_ms": -1})
    )
    assert reply.pointers == ["/messages/1/delay", "/messages/2/delay_ms"]
    assert "nothing was stored" in reply.body["detail"]


@pytest.mark.parametrize("path", [BEGIN, f"{BEGIN}:batch", f"{BEGIN}:end", ANSWER])
@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", "malformed_json"), (b"{", "malformed_json"), (b"[]", "invalid_request")],
)
async def test_what_is_no_object(api: Api, path: str, body: bytes, code: str) -> None:
    assert (await api.post(path, body)).code == code


async def test_keys_given_twice(api: Api) -> None:
    body = msgspec.json.encode(asked())[:-1] + b',"producer_group":"other"}'
    assert (await api.post(BEGIN, body)).code == "duplicate_key"
    batch = b'{"transactions":[' + body + b"]}"
    (result,) = (await api.post(f"{BEGIN}:batch", batch)).body["results"]
    assert result["problem"]["code"] == "duplicate_key"
    assert result["problem"]["errors"][0]["pointer"] == "/producer_group"


async def test_too_many_transactions(api: Api) -> None:
    batch = {"transactions": [asked()] * 1001}
    reply = await refused(api, "too_many_transactions", batch, f"{BEGIN}:batch")
    assert reply.pointers == ["/transactions"]
    batch = {"transactions": [asked(*NOTHING * 101)] * 100}
    reply = await refused(api, "too_many_messages", batch, f"{BEGIN}:batch")
    assert "10100" in reply.body["detail"]


async def test_a_batch_of_nothing_is_answered_with_nothing(api: Api) -> None:
    reply = await api.post(f"{BEGIN}:batch", {"transactions": []})
    assert (reply.status, reply.body) == (200, {"results": []})


@pytest.mark.parametrize("text", ["5", "x" * 36, ID[:-1], "%00", ID + "0"])
@pytest.mark.parametrize("verb", ["", ":commit", ":rollback", ":add", ":resume"])
async def test_ids_that_are_none(api: Api, text: str, verb: str) -> None:
    method = "POST" if verb else "GET"
    reply = await api.call(method, f"{BEGIN}/{text}{verb}")
    assert (reply.status, reply.code) == (422, "invalid_transaction_id")


@pytest.mark.parametrize(
    ("ends", "pointer"),
    [
        ([], "/ends"),
        ([{"id": ID, "state": "committed"}] * 1001, "/ends"),
        ([{"id": ID, "state": "commited"}], "/ends/0/state"),
        ([{"id": ID, "state": "prepared"}], "/ends/0/state"),
        ([{"id": ID, "state": "committed"}, {"id": ID}], "/ends/1/state"),
        ([{"id": 5, "state": "committed"}], "/ends/0/id"),
    ],
)
async def test_outcomes_that_are_none(api: Api, ends: list[Any], pointer: str) -> None:
    reply = await api.post(f"{BEGIN}:end", {"ends": ends})
    assert (reply.status, reply.pointers) == (422, [pointer])


@pytest.mark.parametrize("body", [{"state": "committed"}, {"ends": []}])
async def test_a_commit_takes_no_body(api: Api, body: dict[str, Any]) -> None:
    reply = await api.post(f"{BEGIN}/{ID}:commit", body)
    assert (reply.status, reply.code) == (422, "unknown_field")


async def test_more_messages_need_their_place(api: Api) -> None:
    messages = [{"topic": "orders", "data": 1}]
    target = f"{BEGIN}/{ID}:add"
    reply = await refused(api, "missing_field", {"messages": messages}, target)
    assert reply.pointers == ["/first_index"]
    for index in (-1, "1", 1.5):
        body = {"first_index": index, "messages": messages}
        reply = await refused(api, "invalid_request", body, target)
        assert reply.pointers == ["/first_index"]
    body = {"first_index": 10**20, "messages": messages}
    await refused(api, "too_many_messages", body, target)


@pytest.mark.parametrize("reason", [None, "", "  \n"])
async def test_an_outcome_by_hand_needs_a_reason(api: Api, reason: str | None) -> None:
    body = {"state": "committed"} | ({} if reason is None else {"reason": reason})
    reply = await refused(api, "reason_required", body, f"{BEGIN}/{ID}:force")
    assert reply.pointers == ["/reason"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"state": "unknown", "reason": "r"}, "/state"),
        ({"reason": "r"}, "/state"),
        ({"state": "committed", "reason": "r" * 1001}, "/reason"),
        ({"state": "committed", "reason": "r", "by": ""}, "/by"),
    ],
)
async def test_an_outcome_by_hand_is_checked(
    api: Api, body: dict[str, Any], pointer: str
) -> None:
    reply = await api.post(f"{BEGIN}/{ID}:force", body)
    assert (reply.status, reply.pointers) == (422, [pointer])


@pytest.mark.parametrize(
    ("answer", "pointer"),
    [
        ({"id": ID}, "/answers/1/state"),
        ({"id": ID, "state": "commit"}, "/answers/1/state"),
        ({"id": ID, "state": "COMMITTED"}, "/answers/1/state"),
        ({"id": ID, "state": "prepared"}, "/answers/1/state"),
        ({"id": ID, "state": None}, "/answers/1/state"),
        ({"id": ID, "state": True}, "/answers/1/state"),
        ({"state": "committed"}, "/answers/1/id"),
        ({"id": "5", "state": "committed"}, "/answers/1/id"),
        ({"id": ID, "state": "committed", "check": -1}, "/answers/1/check"),
        ({"id": ID, "state": "committed", "check": "1"}, "/answers/1/check"),
        ({"id": ID, "state": "committed", "sure": True}, "/answers/1/sure"),
        ("committed", "/answers/1"),
    ],
)
async def test_malformed_answers_to_checks(
    api: Api, answer: object, pointer: str
) -> None:
    """None of the request's answers is taken: the stub would fail on a call."""
    answers = [{"id": ID, "state": "committed"}, answer]
    reply = await refused(api, "malformed_answer", {"answers": answers}, ANSWER)
    assert reply.pointers == [pointer]
    assert "committed, rolled_back or unknown" in reply.body["detail"]


@pytest.mark.parametrize("answers", [[], [{"id": ID, "state": "unknown"}] * 1001])
async def test_no_answers_and_too_many(api: Api, answers: list[Any]) -> None:
    reply = await api.post(ANSWER, {"answers": answers})
    assert (reply.status, reply.pointers) == (422, ["/answers"])


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/v1/producer-groups/a.b/checks", "invalid_producer_group"),
        ("/v1/producer-groups/SYS_a/checks", "reserved_group"),
        ("/v1/producer-groups/shop/checks?max=0", "invalid_parameter"),
        ("/v1/producer-groups/shop/checks?max=1001", "invalid_parameter"),
        ("/v1/producer-groups/shop/checks?wait_ms=30001", "invalid_parameter"),
        ("/v1/producer-groups/shop/checks?wait=5", "invalid_parameter"),
        (f"{BEGIN}?state=open", "invalid_parameter"),
        (f"{BEGIN}?limit=1001", "invalid_parameter"),
        (f"{BEGIN}?page_token=x", "invalid_page_token"),
        (f"{BEGIN}?page_token=_w", "invalid_page_token"),
    ],
)
async def test_bad_queries(api: Api, target: str, code: str) -> None:
    reply = await api.get(target)
    assert (reply.status, reply.code) == (422, code)


# --- what the services say ----------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Overloaded("end_transaction", 1500), 503, "overloaded"),
        (Unavailable("txn", "catching up"), 503, "unavailable"),
        (StoreFailed("fsync"), 503, "store_failed"),
        (ConnectionResetError("gone"), 503, "connection_lost"),
    ],
)
async def test_an_error_of_the_services_is_told(
    api: Api, services: StubServices, error: Exception, status: int, code: str
) -> None:
    services.error = error
    for target, body in (
        (BEGIN, asked()),
        (f"{BEGIN}:batch", {"transactions": [asked()]}),
        (f"{BEGIN}/{ID}:commit", {}),
        (f"{BEGIN}:end", {"ends": [{"id": ID, "state": "committed"}]}),
    ):
        reply = await api.post(target, body)
        assert (reply.status, reply.code) == (status, code)
        assert int(reply.headers["Retry-After"]) >= 1


async def test_a_result_that_was_not_stored_is_an_error_as_well(
    tmp_path: Path, services: StubServices
) -> None:
    services.end_result = EndResult("overloaded", "the end_transaction lane is full")
    async with serve(*services.all, tmp_path) as api:
        reply = await api.post(f"{BEGIN}/{ID}:commit")
        assert (reply.status, reply.code) == (503, "overloaded")
        assert reply.headers["Retry-After"] == "1"
        ends = [{"id": ID, "state": "committed"}] * 2
        results = (await api.post(f"{BEGIN}:end", {"ends": ends})).body["results"]
        assert [it["status"] for it in results] == [503, 503]
        assert {it["problem"]["retryable"] for it in results} == {True}


async def test_only_a_transaction_s_own_events_wait_for_it(
    api: Api, services: StubServices
) -> None:
    """An event that nobody knows, while the transaction service is away: who knows."""
    event = f"/v1/events/{ID[:-1]}1"
    assert (await api.get(event)).code == "unknown_event"
    services.error = Unavailable("txn", "gone")
    assert (await api.get(event)).code == "unavailable"


async def test_the_state_of_an_outcome_is_a_word(
    tmp_path: Path, services: StubServices
) -> None:
    services.end_result = EndResult(
        state=TransactionState.ROLLED_BACK, decided_ms=1000, source=3, checks=4
    )
    async with serve(*services.all, tmp_path) as api:
        reply = await api.post(
            f"{BEGIN}/{ID}:force", {"state": "rolled_back", "reason": " r "}
        )
    assert reply.body == {
        "id": ID,
        "state": "rolled_back",
        "decided_at": "1970-01-01T00:00:01.000Z",
        "source": "operator",
        "checks": 4,
    }
    (end,) = services.ended
    assert (end.reason, end.by) == ("r", "operator")
