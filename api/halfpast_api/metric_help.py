"""What the metrics of the services behind the API mean, in one sentence each."""

from collections.abc import Mapping
from typing import Final

HELP: Final[Mapping[str, str]] = {
    "log_start_position": "Where in the log the oldest record that is kept begins.",
    "log_durable_position": "Position in the log up to which all is durable.",
    "log_size_bytes": "Bytes of the log's segments on disk.",
    "index_flushed_position": "Position in the log up to which the broker's index "
    "would survive a crash; a new start reads the log from there.",
    "store_writable": "1 if events are taken, 0 while the disk is too full or the "
    "store has failed.",
    "log_frames_total": "Frames that were written to the log, each with one sync.",
    "log_records_total": "Records in those frames.",
    "log_sync_seconds_total": "Time that the thread which writes the log was at work.",
    "log_commit_seconds": "Time to write a frame and sync it.",
    "log_commit_requests": "Requests that shared one frame: the size of group commits.",
    "log_commit_records": "Records in one frame.",
    "lane_waiting_requests": "Requests that wait for the next frame, by lane.",
    "lane_waiting_bytes": "Bytes of those requests.",
    "lane_admitted_total": "Requests that were let into a lane.",
    "lane_refused_total": "Requests that were refused with 503, their lane being full.",
    "group_delivered_total": "Messages that consumer groups took, retries included.",
    "group_settled_total": "Receipts that consumers gave back, by what they said.",
    "group_dead_letters_total": "Messages that became dead letters of their group.",
    "group_lag_messages": "Messages that a group has not taken yet; of the hundred "
    "groups that are furthest behind.",
    "group_in_flight_messages": "Messages that a group has taken and not settled, or "
    "that wait there to be tried again.",
    "groups_lag_messages": "Messages that groups have not taken yet, of all groups.",
    "scheduled_total": "Events that were scheduled.",
    "fired_total": "Scheduled events that were delivered.",
    "cancelled_total": "Scheduled events that were cancelled.",
    "lateness_ms": "From the due time of an event to when its delivery was durable.",
    "lateness_ms_max": "The most that an event was late since the process began.",
    "early_total": "Events delivered before their time. It must stay 0.",
    "timers_in_wheel": "Timers that are loaded, since they are due soon.",
    "timers_claimed": "Timers that are just being fired, cancelled or changed.",
    "delay_server_ready": "1 if events fire and can be cancelled, 0 while the Delay "
    "Server catches up.",
    "delay_applied_position": "Position in the log up to which it knows everything.",
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
    "grpc_calls_total": "Calls of RocketMQ clients, by what they were answered.",
    "grpc_call_seconds_total": "Time that those took, but for receives and streams.",
    "grpc_clients": "RocketMQ clients that have called lately.",
    "grpc_streams": "Telemetry streams that are open.",
    "grpc_polls": "Receives that wait for messages.",
    "grpc_renewals": "Messages kept hidden for push consumers that are at work.",
    "grpc_renewed_total": "How often such a message was hidden anew.",
    "grpc_check_topics": "Topics whose producers here can be asked how transactions "
    "ended.",
    "grpc_checks_sent_total": "Such questions that went to a producer.",
    "grpc_checks_unsent_total": "Such questions for which no producer was there any "
    "more; they are asked again.",
    "txn_service_ready": "1 if transactions can be ended, 0 while it catches up.",
    "txn_applied_position": "Position in the log up to which it knows everything.",
}
"""By name without prefix and labels."""


def help_for(service: str, name: str, words: str) -> str:
    """The text for a metric; its own name in words if nobody has explained it."""
    return HELP.get(name, f"Of the {service} service: {words}.")
