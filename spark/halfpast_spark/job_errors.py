"""What can go wrong in the jobs, beside what can in reading (`errors.py`).

AuditError
├── BadSla              it does not say "99.9 % within 50 ms"
├── BadRules            a rules file that cannot be read
├── BadPeriod           windows that do not fit the log, or that end in the future
├── NothingToAudit      no event in what is there
├── SparkMissing        the extra is not installed, or there is no Java
├── BadMaster           a text that names no Spark
├── MasterUnreachable   no Spark at this address
├── SparkFailed         Spark has given up the work
├── ResultsUnavailable  the database does not take or give results
└── StreamConflict      another stream writes under this name, or with other settings

None of them leaves a half-written window behind.
"""

from .errors import AuditError


class BadSla(AuditError):
    """A text that does not say a share and a time."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'{self.text!r} is no SLA: write it as "99.9 % within 50 ms"'


class BadRules(AuditError):
    """The rules of `audit check` (or SLAs of `audit run`) cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class BadPeriod(AuditError):
    """These windows cannot be audited."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class NothingToAudit(AuditError):
    """There is nothing to read at `place`."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class SparkMissing(AuditError):
    """Spark cannot be started here."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class BadMaster(AuditError):
    """A text that names no Spark."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return (
            f"{self.text!r} names no Spark: give local[2] for one on this machine, "
            "spark://HOST:PORT for a standalone cluster, sc://HOST:PORT for Spark "
            "Connect, yarn, or k8s://…"
        )


class SparkFailed(AuditError):
    """Spark has given up; `reason` is the end of what it says."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"Spark has failed: {self.reason}"


class MasterUnreachable(AuditError):
    """Nobody answers as a Spark master at this address."""

    def __init__(self, master: str, reason: str) -> None:
        super().__init__(master, reason)
        self.master = master
        self.reason = reason

    def __str__(self) -> str:
        return f"no Spark at {self.master}: {self.reason}"


class ResultsUnavailable(AuditError):
    """The database of the results is away, or has no tables for them."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"the results cannot be kept in {self.url}: {self.reason}"


class StreamConflict(AuditError):
    """The stream of this name is not ours to go on with."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"stream {self.name!r}: {self.reason}"
