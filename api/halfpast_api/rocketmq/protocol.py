"""The messages of RocketMQ's protocol, made from `protocol.binpb`.

They live in a descriptor pool of their own. So the copy that a RocketMQ client brings
into the same process does not clash with this one, and no version of generated code
binds the version of protobuf. `protocol.pyi` tells type checkers what is here; both
files are made of `protocol.proto` by scripts/grpc-protocol.
"""

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

_FILE = "protocol.proto"


def _load() -> dict[str, Any]:
    """Every message and enum by its name, and every value of an enum by its own."""
    pool = descriptor_pool.DescriptorPool()
    stored = files("halfpast_api.rocketmq").joinpath("protocol.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(stored).file:
        pool.AddSerializedFile(file.SerializeToString())
    ours = pool.FindFileByName(_FILE)
    found: dict[str, Any] = {"DESCRIPTOR": ours}
    for name, enum in ours.enum_types_by_name.items():
        found[name] = EnumTypeWrapper(enum)
        found.update((value.name, value.number) for value in enum.values)
    for name, message in ours.message_types_by_name.items():
        found[name] = message_factory.GetMessageClass(message)
    return found


globals().update(_load())
