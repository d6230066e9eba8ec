"""Which Spark a text names, and whether it answers."""

import socket

import pytest

from halfpast_spark.job_errors import BadMaster, MasterUnreachable
from halfpast_spark.masters import Master, MasterKind, need_answer, parse_master


@pytest.mark.parametrize(
    ("text", "kind", "addresses"),
    [
        ("local", MasterKind.LOCAL, ()),
        ("local[2]", MasterKind.LOCAL, ()),
        ("local[*]", MasterKind.LOCAL, ()),
        ("local[*, 3]", MasterKind.LOCAL, ()),
        ("yarn", MasterKind.OTHER, ()),
        ("k8s://https://host:443", MasterKind.OTHER, ()),
        ("spark://host:7077", MasterKind.STANDALONE, (("host", 7077),)),
        ("spark://a:1,b:2", MasterKind.STANDALONE, (("a", 1), ("b", 2))),
        ("spark://[::1]:7077", MasterKind.STANDALONE, (("::1", 7077),)),
        ("sc://host", MasterKind.CONNECT, (("host", 15002),)),
        ("sc://host:1234/;token=abc", MasterKind.CONNECT, (("host", 1234),)),
    ],
)
def test_masters(
    text: str, kind: MasterKind, addresses: tuple[tuple[str, int], ...]
) -> None:
    assert parse_master(text) == Master(text, kind, addresses)


@pytest.mark.parametrize(
    "text",
    [
        *("", "localhost", "local[two]", "spark://host", "spark://", "spark://h:0"),
        *("sc://", "http://host:80", "spark://h:99999", "k8s://"),
    ],
)
def test_what_names_no_spark(text: str) -> None:
    with pytest.raises(BadMaster, match=r"local\[2\]"):
        parse_master(text)


def test_one_address_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        need_answer(parse_master(f"sc://127.0.0.1:{port}"))
        need_answer(parse_master(f"spark://127.0.0.1:1,127.0.0.1:{port}"))
        need_answer(parse_master("local[2]"))


def test_nobody_answers() -> None:
    with pytest.raises(MasterUnreachable, match=r"127\.0\.0\.1:1: Connection refused"):
        need_answer(parse_master("spark://127.0.0.1:1"))
