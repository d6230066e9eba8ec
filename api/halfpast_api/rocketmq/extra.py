"""Whether what the front needs is installed."""

from importlib.util import find_spec

_NEEDED = ("grpc", "google.protobuf")


class ExtraMissing(Exception):
    """The extra `[grpc]` is not installed."""

    def __str__(self) -> str:
        return (
            "RocketMQ clients are served by the extra [grpc], which is not installed: "
            "pip install 'halfpast[grpc]', or leave --grpc out"
        )


def is_installed() -> bool:
    """Whether the front can be imported."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:  # of `google`, perhaps
        return False


def require() -> None:
    """Raise ExtraMissing unless it is installed."""
    if not is_installed():
        raise ExtraMissing
