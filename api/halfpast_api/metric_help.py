"""What the metrics of the services behind the API mean, in one sentence each."""

from collections.abc import Mapping
from typing import Final

HELP: Final[Mapping[str, str]] = {
    "timers_pending": "Timers that wait to fire, in all topics.",
    "timers_counted": "1 if that is exact, 0 while they are counted again.",
    "events_finished": "Delivered and cancelled events that can be looked up.",
    "operations_running": "Changes of many events at once that are under way.",
    "transactions_begun_total": "Transactions that were begun.",
    "transactions_ended_total": "Outcomes, and whether the producer gave them, "
    "a check-back brought them or an operator forced them.",
    "transactions_parked_total": "Transactions given up after their last check-back, "
    "for an operator to decide.",
    "transactions_open": "Transactions without an outcome, parked ones included.",
    "transactions_parked": "Transactions that wait for an operator.",
    "transactions_claimed": "Transactions that are just being decided about.",
    "checks_total": "Check-backs, by the way they went; nobody: no producer was there.",
    "check_answers_total": "What check-backs brought; unknown: no explicit answer.",
    "checks_waiting": "Check-backs that wait to be taken by a producer.",
    "checks_dropped_total": "Check-backs that nobody took before too many waited.",
    "check_calls_total": "Check-backs by HTTP, by what came of the call.",
    "check_calls_in_flight": "Check-backs by HTTP that wait for their answer.",
    "check_endpoint_circuit": "0: called; 1: tried again; 2: fails, so left alone.",
    "push_attempts_total": "Calls to endpoints, by what came of them.",
    "push_attempt_seconds": "Time of a call to an endpoint, from the look-up of its "
    "name to the answer.",
    "push_dead_total": "Messages given up after their last attempt.",
    "push_filtered_total": "Messages that an endpoint's filter did not want.",
    "push_disabled_total": "How often an endpoint answered 410 and was disabled.",
    "push_attempts_unrecorded_total": "Attempts that were made and could not be kept "
    "for people to look at.",
    "push_endpoints": "Endpoints that are enabled.",
    "push_in_flight": "Calls to endpoints that are under way.",
    "push_waiting": "Messages held for endpoints that wait for their turn.",
    "push_held_bytes": "Bytes of all messages held for endpoints.",
    "push_endpoint_circuit": "0: called; 1: tried again; 2: fails, so left alone.",
    "failed_attempts_total": "How often a topic has not taken a message that was due.",
    "dead_total": "Scheduled events that have become dead letters.",
    "redriven_total": "Dead letters that were scheduled again.",
    "clock_jumps_total": "How often the wall clock was set by a minute or more.",
    "clock_jump_draining": "1 while what is due since such a jump is fired slowly.",
    "occurred_total": "Messages that recurring schedules have made.",
    "loop_stalls_total": "How often the Delay Server's event loop stood still for so "
    "many milliseconds or more.",
    "loop_stall_ms_max": "The longest that the Delay Server's event loop stood still.",
    "loop_stall_busy_ms_max": "The most of such a standstill that was computing.",
    "txn_service_ready": "1 if transactions can be ended, 0 while it catches up.",
    "txn_applied_position": "Position in the log up to which it knows everything.",
}
"""By name without prefix and labels."""


def help_for(service: str, name: str, words: str) -> str:
    """The text for a metric; its own name in words if nobody has explained it."""
    return HELP.get(name, f"Of the {service} service: {words}.")
