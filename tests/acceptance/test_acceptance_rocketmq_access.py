"""RocketMQ's official clients with TLS, credentials and namespaces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.acceptance.rocketmq_clients import (
    LANGUAGES,
    PYTHON,
    ClientRefused,
    RocketmqClient,
    bodies,
)
from tests.acceptance.rocketmq_server import RocketmqServer
from tests.integration.access_server import admin_key

TOPIC, GROUP = "orders", "billing"
UNAUTHORIZED = 40100


class Guarded(NamedTuple):
    """A server that speaks TLS and asks everybody for a key."""

    server: RocketmqServer
    roots: Path

    def key(self, **wanted: Any) -> dict[str, str]:
        """Credentials of a new key, as a client wants them."""
        made = self.server.call("POST", "/v1/keys", {"signing": True, **wanted})
        return {"access_key": made["id"], "secret_key": made["signing_secret"]}

    def client(self, language: str, **how: Any) -> RocketmqClient:
        trusted = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(self.roots)}
        return RocketmqClient(
            language,
            environment=trusted,
            endpoints=self.server.endpoints,
            tls=True,
            **how,
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded") / "data"
    folder.mkdir()
    key = admin_key(folder)
    options = ("--auth", "keys", "--grpc-tls-self-signed")
    with RocketmqServer(folder, *options, mode="dev") as server:
        server.key = key
        server.topic(TOPIC)
        for namespace in ("acme", "other"):
            server.call("PUT", f"/v1/namespaces/{namespace}", {})
        yield Guarded(server, folder / "tls" / "grpc.crt")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_key_that_signs_may_do_what_its_scopes_say(
    guarded: Guarded, language: str
) -> None:
    topic = guarded.server.topic(f"bills-{language}")
    key = guarded.key(scopes=[f"publish:{topic}", f"consume:{topic}"])
    with guarded.client(language, **key) as client:
        client.producer("p", topic)
        client.simple("c", GROUP, topic)
        client.send("p", topic, b"signed")
        assert bodies(client.receive_all("c", 1)) == [b"signed"]
        with pytest.raises(ClientRefused):
            client.publish(TOPIC, b"not mine")
        assert "needs the scope" in client.errors()  # which clients put into their log


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("wrong", ["no key", "another secret", "a revoked key"])
def test_strangers_get_nothing(guarded: Guarded, language: str, wrong: str) -> None:
    key = guarded.key(role="operator")
    if wrong == "no key":
        key = {}
    elif wrong == "another secret":
        key["secret_key"] = guarded.key(role="operator")["secret_key"]
    else:
        guarded.server.call("POST", f"/v1/keys/{key['access_key']}:revoke", {})
    with guarded.client(language, **key) as client:
        with pytest.raises(ClientRefused):
            client.publish(TOPIC, b"let me in")
        # Neither client says more than that it has no route; their logs do.
        assert str(UNAUTHORIZED) in client.errors()


@pytest.mark.parametrize("language", LANGUAGES)
def test_namespaces_keep_topics_of_the_same_name_apart(
    guarded: Guarded, language: str
) -> None:
    wanted = {"role": "operator"}
    acme = guarded.key(**wanted, namespace="acme")
    other = guarded.key(**wanted, namespace="other")
    with (
        guarded.client(language, **acme, namespace="acme") as ours,
        guarded.client(language, **other) as theirs,  # its key says where it is
    ):
        for client, body in ((ours, b"acme"), (theirs, b"other")):
            client.producer("p", language)
            client.send("p", language, body)
        for client, body in ((ours, b"acme"), (theirs, b"other")):
            client.simple("c", GROUP, language)
            assert bodies(client.receive_all("c", 1)) == [body]
    with (
        guarded.client(language, **acme, namespace="other") as intruder,
        pytest.raises(ClientRefused),
    ):
        intruder.publish(language, b"where I may not be")


def test_plaintext_is_not_understood_where_tls_is_spoken(guarded: Guarded) -> None:
    key = guarded.key(role="operator")
    endpoints = guarded.server.endpoints
    how: dict[str, Any] = {"endpoints": endpoints, "timeout_s": 2, **key}
    with RocketmqClient(PYTHON, **how) as client, pytest.raises(ClientRefused):
        client.publish(TOPIC, b"in the clear")
