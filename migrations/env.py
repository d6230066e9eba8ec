"""What alembic runs: the revisions, on one connection, in one transaction.

At start `halfpast_api.metadata.migrate` gives the connection. On the command line
(to write a new revision) the database is named with `-x url=…`.
"""

from alembic import context
from sqlalchemy import Connection

from halfpast_api.metadata.database import migration_engine, parse_url
from halfpast_api.metadata.schema import PREFIX, REVISION_TABLE, metadata
from halfpast_api.push.schema import attempts as attempts  # tables of the same metadata
from halfpast_spark import result_tables


def run() -> None:
    given = context.config.attributes.get("connection")
    if given is not None:
        _run_on(given)
        return
    if context.is_offline_mode():
        raise SystemExit("SQL scripts (--sql) are not supported")
    url = context.get_x_argument(as_dictionary=True).get("url")
    if not isinstance(url, str):
        raise SystemExit("name a database: alembic -x url=sqlite:///scratch.sqlite …")
    with migration_engine(parse_url(url)).begin() as connection:
        _run_on(connection)


def _run_on(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=[metadata, result_tables.metadata],
        version_table=REVISION_TABLE,
        transactional_ddl=True,  # SQLite can, if the driver keeps out of it
        render_as_batch=True,  # SQLite alters a column by copying the table
        include_name=_is_ours,
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def _is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether autogenerate may look at it: a database may be shared."""
    return kind != "table" or (name is not None and name.startswith(PREFIX))


run()
