"""The client knows every state that the server may tell."""

from halfpast import EventState
from halfpast_api.event_view import STATES, STORED
from halfpast_txn.words import PREPARED, ROLLED_BACK


def test_the_states_are_those_of_the_server() -> None:
    assert {*EventState} == {*STATES, STORED, PREPARED, ROLLED_BACK}
