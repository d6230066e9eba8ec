"""What the Delay Server refuses about bulk operations, lists and counts.

DelayError
├── UnknownOperation     no such operation (or it is forgotten already)
├── OperationEnded       it is over, so it cannot be stopped
├── TooManyOperations    so many are running already
└── InvalidPageToken     a page cannot begin there
"""

from .errors import DelayError


class UnknownOperation(DelayError):
    """No operation has this id."""

    code = "unknown_operation"

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation

    def __str__(self) -> str:
        return f"there is no operation {self.operation}"


class OperationEnded(DelayError):
    """The operation ended at `ended_ms` (epoch ms)."""

    code = "operation_ended"

    def __init__(self, operation: str, ended_ms: int) -> None:
        super().__init__(operation, ended_ms)
        self.operation = operation
        self.ended_ms = ended_ms

    def __str__(self) -> str:
        return f"operation {self.operation} has ended already"


class TooManyOperations(DelayError):
    """Wait until one has ended, or stop one."""

    code = "too_many_operations"

    def __init__(self, count_max: int) -> None:
        super().__init__(count_max)
        self.count_max = count_max

    def __str__(self) -> str:
        return f"{self.count_max} operations are running already"


class InvalidPageToken(DelayError):
    """The token is of another list. Begin with the first page."""

    code = "invalid_page_token"

    def __str__(self) -> str:
        return (
            "this page_token belongs to another list; ask with the same filter as for "
            "the page before, or leave page_token out to begin"
        )
