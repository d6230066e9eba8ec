"""All that one page shows, read in one transaction."""

import msgspec
from sqlalchemy import Connection

from halfpast_api.console.audits.coverage import Coverage, newest_end, read_coverage
from halfpast_api.console.audits.end_to_end_section import (
    EndToEndSection,
    read_end_to_end,
)
from halfpast_api.console.audits.figures import ALL
from halfpast_api.console.audits.offenders import Offenders, read_offenders
from halfpast_api.console.audits.on_time_section import OnTimeSection, read_on_time
from halfpast_api.console.audits.scope import Scope, Wish, settle
from halfpast_api.console.audits.transaction_section import (
    TransactionSection,
    read_transactions,
)

WINDOW_MS = 300_000  # where nothing has been audited yet


class Dashboard(msgspec.Struct, kw_only=True):
    """`is_empty`: no window in the scope was audited. `newest_ms`: where the newest
    one ends, if there is any. `now_ms`: when this was read."""

    wish: Wish
    scope: Scope
    now_ms: int
    newest_ms: int | None
    coverage: Coverage
    transactions: TransactionSection
    on_time: OnTimeSection
    end_to_end: EndToEndSection
    offenders: Offenders

    @property
    def is_empty(self) -> bool:
        nothing = not self.transactions.groups and not self.on_time.topics
        return nothing and not self.end_to_end.topics

    @property
    def topics(self) -> list[str]:
        """The names to choose from."""
        names = {it.name for it in self.on_time.topics}
        names |= {it.topic for it in self.end_to_end.topics}
        return sorted(names | {self.scope.topic} - {ALL})

    @property
    def groups(self) -> list[str]:
        names = {it.name for it in self.transactions.groups}
        return sorted(names | {self.scope.group} - {""})


def read_dashboard(connection: Connection, wish: Wish, now_ms: int) -> Dashboard:
    """Raises Refusal for what cannot be shown."""
    coverage = read_coverage(connection)
    newest = coverage.series[0] if coverage.series else WINDOW_MS
    window_ms = wish.window_ms or newest
    newest_ms = newest_end(connection, window_ms)
    scope = settle(wish, window_ms, newest_ms or now_ms, now_ms)
    return Dashboard(
        wish=wish,
        scope=scope,
        now_ms=now_ms,
        newest_ms=newest_ms,
        coverage=coverage,
        transactions=read_transactions(connection, scope),
        on_time=read_on_time(connection, scope),
        end_to_end=read_end_to_end(connection, scope),
        offenders=read_offenders(connection, scope, wish.reason),
    )
