"""When a request to stop means 'at once'."""

from halfpast_api.shutdown import REPEAT_S, Asked


def test_an_echo_is_no_second_request() -> None:
    now_s = 100.0
    asked = Asked(lambda: now_s)
    assert not asked.again()
    assert not asked.again()
    now_s += REPEAT_S - 0.01
    assert not asked.again()
    now_s += 0.02
    assert asked.again()
