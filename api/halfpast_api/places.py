"""Where the processes of one installation keep data, and where they meet."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """A data folder and what lies in it unless it is told to lie elsewhere.

    `broker`, `chronos`, `transactions` and `push` are addresses: unix:/path or
    tcp:host:port. `metadata` is a database URL.
    """

    data: Path
    broker: str
    chronos: str
    transactions: str
    push: str
    metadata: str

    @classmethod
    def below(
        cls,
        data: Path,
        *,
        broker: str | None = None,
        chronos: str | None = None,
        transactions: str | None = None,
        push: str | None = None,
        metadata: str | None = None,
    ) -> Self:
        """Everything that is not named lies in the data folder."""
        data = data.absolute()
        return cls(
            data=data,
            broker=broker or f"unix:{data}/run/broker.sock",
            chronos=chronos or f"unix:{data}/run/chronos.sock",
            transactions=transactions or f"unix:{data}/run/txn.sock",
            push=push or f"unix:{data}/run/push.sock",
            metadata=metadata or f"sqlite:///{data}/metadata.sqlite",
        )

    def prepare(self) -> None:
        """Make the folders. Only this user may enter the one with the sockets."""
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / "run").mkdir(mode=0o700, exist_ok=True)
