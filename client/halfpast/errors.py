"""What can go wrong, as one tree.

    HalfpastError
    ├── ApiProblem            the server answered, and refused
    │   ├── InvalidRequest    400, 413, 415, 422: mend the request
    │   ├── Unauthenticated   401: no key, or none that counts
    │   ├── Forbidden         403: the key may not do this
    │   ├── NotFound          404: no such event, topic or group
    │   ├── Conflict          409: delivered or cancelled already
    │   │   ├── TransactionConflict  it has ended otherwise
    │   │   └── TransactionParked    checked back in vain: an operator decides
    │   ├── StaleVersion      412: changed since you last looked
    │   ├── QuotaExceeded     429: slow down
    │   └── StoreFull         507: the server's disk is full, nothing was stored
    ├── OutcomeUnknown        it may have happened or not: ask before you repeat
    │   └── TransactionInDoubt   a check-back will settle it
    ├── ServerUnreachable     no answer, and nothing can have happened
    ├── UnexpectedAnswer      whatever answered is not a Halfpast server
    ├── ClientClosed          the call came after `close`
    ├── BarrierClosed         the local transaction came too late, and must not commit
    ├── InvalidWebhook        a call to us that nobody with the secret has made
    ├── EmbeddedUnavailable   there is no server to start in this process
    └── TransactionMisuse     the program would break the transaction's promise

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
    state: str = ""
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


class Unauthenticated(ApiProblem):
    """The server asks for a key, and this is none, or does not count any more."""


class Forbidden(ApiProblem):
    """The key may not do this; the detail says which scope is missing."""


class NotFound(ApiProblem):
    """What the call names does not exist."""


class Conflict(ApiProblem):
    """The thing is in a state that does not allow this: see `code`."""


class TransactionConflict(Conflict):
    """The transaction has the other outcome, and keeps it: see `state`."""

    @property
    def state(self) -> str:
        """The durable outcome: `committed` or `rolled_back`."""
        return self.problem.state


class TransactionParked(Conflict):
    """Check-backs brought no outcome. An operator resumes them or decides."""


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


class TransactionInDoubt(OutcomeUnknown):
    """The server could not be told how the transaction ended, or it did not answer.

    The messages stay invisible until the server knows: it checks back, and whoever
    answers for the producer group settles it. Or end it again, with the same outcome.
    """

    def __init__(self, transaction: str, call: str, attempts: int, why: str) -> None:
        super().__init__(call, attempts, why, "")
        self.args = (transaction, call, attempts, why)
        self.transaction = transaction

    def __str__(self) -> str:
        return (
            f"{self.call}: transaction {self.transaction} is in doubt until a "
            f"check-back settles it: {self.why}"
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


class InvalidWebhook(HalfpastError):
    """A call to a receiver of webhooks is not from Halfpast, or is an old one that
    somebody repeats: do nothing of what it says."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"this webhook does not count: {self.reason}"


class EmbeddedUnavailable(HalfpastError):
    """`embedded` has no server to start: `reason` is what it lacks."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the server cannot be started in this process: {self.reason}; install it "
            "with all it needs: pip install --force-reinstall halfpast"
        )


class BarrierClosed(HalfpastError):
    """The local transaction must not commit: its transaction is decided already.

    A check-back came first and found nothing, so the messages are rolled back. Let
    this error end your database transaction; then begin a new one.
    """

    def __init__(self, transaction: str) -> None:
        super().__init__(transaction)
        self.transaction = transaction

    def __str__(self) -> str:
        return (
            f"transaction {self.transaction} was decided by a check-back before the "
            "local transaction could commit; do the work again in a new transaction"
        )


class TransactionMisuse(HalfpastError):
    """The call would break the promise of the transaction. `advice`: what to do."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what, advice)
        self.what = what
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}"


def api_problem(problem: Problem) -> ApiProblem:
    """The class that fits the code or the status."""
    kind = _CLASSES_BY_CODE.get(problem.code) or _CLASSES.get(problem.status)
    return (kind or ApiProblem)(problem)


_CLASSES_BY_CODE: dict[str, type[ApiProblem]] = {
    "transaction_conflict": TransactionConflict,
    "transaction_parked": TransactionParked,
    "forbidden": Forbidden,
    "namespace_suspended": Forbidden,
}


_CLASSES: dict[int, type[ApiProblem]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    404: NotFound,
    409: Conflict,
    412: StaleVersion,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: QuotaExceeded,
    507: StoreFull,
}
