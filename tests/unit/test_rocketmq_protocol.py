"""The protocol: as clients speak it."""

import pytest
from google.protobuf import descriptor_pool

from halfpast_api.rocketmq import protocol as wire


def test_another_copy_in_the_same_process_does_not_clash() -> None:
    """A client brings its own, into the pool that everybody shares."""
    shared = descriptor_pool.Default()
    with pytest.raises(KeyError):
        shared.FindMessageTypeByName(wire.Message.DESCRIPTOR.full_name)


def test_the_service_has_the_name_that_clients_call() -> None:
    service = wire.DESCRIPTOR.services_by_name["MessagingService"]
    assert service.full_name == "apache.rocketmq.v2.MessagingService"


@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        (wire.Status(code=wire.Code.OK, message="m"), b"\x08\xa0\x9c\x01\x12\x01m"),
        (wire.Resource(resource_namespace="n", name="t"), b"\n\x01n\x12\x01t"),
        (
            wire.AckMessageEntry(message_id="i", receipt_handle="r"),
            b"\n\x01i\x12\x01r",
        ),
        (
            wire.SendResultEntry(offset=7, recall_handle="h"),
            b" \x07*\x01h",
        ),
        (
            wire.SystemProperties(
                message_type=wire.MessageType.FIFO, message_group="g"
            ),
            b"0\x02\x8a\x01\x01g",
        ),
        (
            wire.TelemetryCommand(
                recover_orphaned_transaction_command=(
                    wire.RecoverOrphanedTransactionCommand(transaction_id="t")
                )
            ),
            b"*\x03\x12\x01t",
        ),
        (wire.ReceiveMessageRequest(auto_renew=True, attempt_id="a"), b"0\x01B\x01a"),
    ],
)
def test_messages_are_on_the_wire_as_clients_have_them(
    message: wire.Message, encoded: bytes
) -> None:
    """By hand, from the numbers of the published protocol."""
    assert message.SerializeToString() == encoded


def test_what_we_do_not_know_is_skipped() -> None:
    """Newer clients send more."""
    known = wire.Resource(name="t").SerializeToString()
    unknown = b"\xfa\x01\x03new"  # field 31
    assert wire.Resource.FromString(known + unknown).name == "t"
