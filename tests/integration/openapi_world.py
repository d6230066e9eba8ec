"""Real things for the examples of the description: events, receipts, transactions."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tests.integration.api_server import Api

from halfpast_api.openapi import samples

GROUP, TOPIC, PRODUCERS = "mailer", "reminders", "orders"
DEADLINE_S = 20.0


class World:
    """Makes what an example needs, new each time, on a running API.

    The API must give up on an event that its topic does not take at the first attempt.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._makers: Mapping[str, Callable[[], Awaitable[str]]] = {
            samples.EVENT: self._event,
            samples.DEAD_EVENT: self._dead_event,
            samples.TRANSACTION: self._transaction,
            samples.SCHEDULE: self._schedule,
            samples.OPERATION: self._operation,
            samples.RECEIPT: self._receipt,
            samples.KEY_ID: self._key,
        }
        self._before: Mapping[str, Callable[[], Awaitable[object]]] = {
            "getTopic": self._event,
            "changeTopic": self._event,
            "putTopic": self._event,
            "countDueOfTopic": self._event,
            "listEvents": self._event,
            "popMessages": self._message,
            "pullMessages": self._message,
            "getGroup": self._receipt,
            "getLag": self._receipt,
            "putOffsets": self._receipt,
            "cancelEvents": self._event,
            "rescheduleEvents": self._event,
            "getProducerGroup": self._producer_group,
            "deleteProducerGroup": self._producer_group,
            "putProducerGroup": self._no_producer_group,
            "getEndpoint": self._endpoint,
            "changeEndpoint": self._endpoint,
            "deleteEndpoint": self._endpoint,
            "pauseEndpoint": self._endpoint,
            "resumeEndpoint": self._endpoint,
            "enableEndpoint": self._endpoint,
            "rotateEndpointSecret": self._endpoint,
            "testEndpoint": self._endpoint,
            "listAttempts": self._endpoint,
            "putEndpoint": self._no_endpoint,
            "getNamespace": self._namespace,
            "deleteNamespace": self._namespace,
            "putNamespace": self._no_namespace,
            "getLimits": self._limits,
            "deleteLimits": self._limits,
            "putLimits": self._no_limits,
        }

    async def prepare(self, operation: str, request: str) -> str:
        """The request with the ids of real things in it."""
        if operation in self._before:
            await self._before[operation]()
        for sample, make in self._makers.items():
            if sample in request:
                request = request.replace(sample, await make())
        return request

    async def _event(self) -> str:
        event = await self._api.publish(TOPIC, data=1, delay="PT1H")
        return str(event["id"])

    async def _dead_event(self) -> str:
        topic = "/v1/topics/closing"
        event = await self._api.publish("closing", data=1, delay="PT1H")
        await self._api.patch(topic, {"accepting": False})
        reply = await self._api.post(f"/v1/events/{event['id']}:deliver-now")
        assert reply.status == 200, reply
        await self._until_dead(event["id"])
        await self._api.patch(topic, {"accepting": True})
        return str(event["id"])

    async def _until_dead(self, event_id: str) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                reply = await self._api.get(f"/v1/events/{event_id}")
                if reply.body["state"] == "dead":
                    return
                await asyncio.sleep(0.02)

    async def _message(self) -> None:
        await self._api.publish(TOPIC, data=1)

    async def _receipt(self) -> str:
        await self._message()
        (message,) = await self._api.pop(GROUP, TOPIC, max=1, wait_ms=5000)
        return str(message["receipt"])

    async def _transaction(self) -> str:
        message = {"topic": "order-created", "data": {"order": 17}}
        begin = {"producer_group": PRODUCERS, "messages": [message]}
        reply = await self._api.post("/v1/transactions", begin)
        assert reply.status == 201, reply
        return str(reply.body["id"])

    async def _schedule(self) -> str:
        body = {"topic": "reports", "cron": "@daily", "data": 1}
        reply = await self._api.post("/v1/schedules", body)
        assert reply.status == 201, reply
        return str(reply.body["id"])

    async def _operation(self) -> str:
        body = {"all": True, "dry_run": True}
        reply = await self._api.post("/v1/events:cancel", body)
        assert reply.status == 202, reply
        return str(reply.body["id"])

    async def _producer_group(self) -> None:
        body = {"check_after_ms": 60_000}
        reply = await self._api.put(f"/v1/producer-groups/{PRODUCERS}", body)
        assert reply.status in (200, 201), reply

    async def _no_producer_group(self) -> None:
        await self._api.delete(f"/v1/producer-groups/{PRODUCERS}")

    async def _key(self) -> str:
        body = {"description": "of a test", "scopes": ["publish"]}
        reply = await self._api.post("/v1/keys", body)
        assert reply.status == 201, reply
        return str(reply.body["id"])

    async def _limits(self) -> None:
        path = "/v1/limits/subjects/every-user"
        reply = await self._api.put(path, {"requests_per_s": 50})
        assert reply.status in (200, 201), reply

    async def _no_limits(self) -> None:
        await self._api.delete("/v1/limits/subjects/every-key")

    async def _endpoint(self) -> None:
        body = {"url": "https://crm.example.com/hooks", "topics": [TOPIC]}
        reply = await self._api.put("/v1/endpoints/crm", body)
        assert reply.status in (200, 201), reply

    async def _no_endpoint(self) -> None:
        await self._api.delete("/v1/endpoints/crm")

    async def _namespace(self) -> None:
        reply = await self._api.put("/v1/namespaces/acme", {})
        assert reply.status in (200, 201), reply

    async def _no_namespace(self) -> None:
        await self._api.delete("/v1/namespaces/acme")
