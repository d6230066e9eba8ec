"""Waiting for services that start at the same time."""

import sys

import pytest

from halfpast_api.awaited import awaited
from halfpast_api.deathwatch import VARIABLE


class Slow:
    """Answers when it has been asked often enough, and is not there at all before."""

    def __init__(self, *said: bool | type[Exception]) -> None:
        self.said = list(said)

    async def answers(self) -> bool:
        said = self.said.pop(0)
        if isinstance(said, bool):
            return said
        raise said


@pytest.mark.asyncio
async def test_who_is_supervised_waits_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1:2")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    first = Slow(FileNotFoundError, ConnectionRefusedError, False, True)
    second = Slow(TimeoutError, True)
    await awaited(first.answers, second.answers, modules=("colorsys",))
    assert (first.said, second.said) == ([], [])
    assert "colorsys" in sys.modules


@pytest.mark.asyncio
async def test_who_is_started_by_hand_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    never = Slow()
    await awaited(never.answers)
