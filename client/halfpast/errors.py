"""What can go wrong, as one tree.

    HalfpastError
    ├── ApiProblem            the server answered, and refused
    │   ├── InvalidRequest    400, 413, 415, 422: mend the request
    │   ├── NotFound          404: no such event, topic or group
    │   ├── Conflict          409: delivered or cancelled already
    │   ├── StaleVersion      412: changed since you last looked
    │   ├── QuotaExceeded     429: slow down
    │   └── StoreFull         507: the server's disk is full, nothing was stored
    ├── OutcomeUnknown        it may have happened or not: ask before you repeat
    ├── ServerUnreachable     no answer, and nothing can have happened
    ├── UnexpectedAnswer      whatever answered is not a Halfpast server
    └── ClientClosed          the call came after `close`

An ApiProblem means that the call had no effect. Its `code` is a stable word to
decide on; `detail` is for people.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that the server refused. `pointer` is a JSON pointer (RFC 6901)."""

    pointer: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The body of an error answer (RFC 9457)."""

    status: int
    code: str
    title: str = ""
    detail: str = ""
    type: str = "about:blank"
    retryable: bool = False
    request_id: str = ""
    errors: tuple[FieldError, ...] = ()
    outcome: str = ""
    retry_after_s: float | None = None


class HalfpastError(Exception):
    """Base of all errors of this SDK."""


class ApiProblem(HalfpastError):
    """The server refused the call, so it had no effect.

    `retryable` says whether the same call can succeed later. Where the SDK could
    repeat it safely it has done so already.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem

    @property
    def status(self) -> int:
        """The HTTP status; for an item of a batch, the status of that item."""
        return self.problem.status

    @property
    def code(self) -> str:
        """The stable word for what is wrong, such as `already_delivered`."""
        return self.problem.code

    @property
    def detail(self) -> str:
        return self.problem.detail

    @property
    def retryable(self) -> bool:
        return self.problem.retryable

    @property
    def retry_after_s(self) -> float | None:
        """How long the server asked to be left alone, where it said so."""
        return self.problem.retry_after_s

    @property
    def request_id(self) -> str:
        """Name this one when you ask whoever runs the server."""
        return self.problem.request_id

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """The fields at fault, where there are any."""
        return self.problem.errors

    def __str__(self) -> str:
        problem = self.problem
        text = problem.detail or problem.title or "the server refused the request"
        fields = "".join(
            f"; {field.pointer or '/'}: {field.detail}"
            for field in problem.errors
            if field.detail not in text
        )
        return f"{text} ({problem.status} {problem.code}){fields}"


class InvalidRequest(ApiProblem):
    """The request itself is wrong. Repeating it as it is cannot help."""


class NotFound(ApiProblem):
    """What the call names does not exist."""


class Conflict(ApiProblem):
    """The thing is in a state that does not allow this: see `code`."""


class StaleVersion(ApiProblem):
    """It was changed since the version you named. Read it again, decide anew."""


class QuotaExceeded(ApiProblem):
    """Your quota is used up. Wait, then go on more slowly."""


class StoreFull(ApiProblem):
    """The server has no room left and stored nothing. Free space there."""


class OutcomeUnknown(HalfpastError):
    """All attempts failed and at least one of them may have taken effect.

    For a publish, call again with `idempotency_key`: that is safe for as long as
    the server remembers the key. Otherwise look the event up first.
    """

    def __init__(
        self, call: str, attempts: int, why: str, idempotency_key: str
    ) -> None:
        super().__init__(call, attempts, why, idempotency_key)
        self.call = call
        self.attempts = attempts
        self.why = why
        self.idempotency_key = idempotency_key

    def __str__(self) -> str:
        return (
            f"{self.call}: the outcome is unknown after {self.attempts} attempt(s): "
            f"{self.why}"
        )


class ServerUnreachable(HalfpastError):
    """No attempt got an answer, and none can have changed anything."""

    def __init__(self, base_url: str, why: str) -> None:
        super().__init__(base_url, why)
        self.base_url = base_url
        self.why = why

    def __str__(self) -> str:
        return f"cannot reach {self.base_url}: {self.why}"


class UnexpectedAnswer(HalfpastError):
    """The answer is not what the API promises: a proxy, or another service."""

    def __init__(self, call: str, status: int, why: str) -> None:
        super().__init__(call, status, why)
        self.call = call
        self.status = status
        self.why = why

    def __str__(self) -> str:
        return f"{self.call}: unexpected answer with status {self.status}: {self.why}"


class ClientClosed(HalfpastError):
    """The client was closed, or not yet opened with `async with`."""

    def __str__(self) -> str:
        return "the client is not open; use it inside 'async with Client(...)'"


def api_problem(problem: Problem) -> ApiProblem:
    """The class that fits the status."""
    return _CLASSES.get(problem.status, ApiProblem)(problem)


_CLASSES: dict[int, type[ApiProblem]] = {
    400: InvalidRequest,
    404: NotFound,
    409: Conflict,
    412: StaleVersion,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: QuotaExceeded,
    507: StoreFull,
}
