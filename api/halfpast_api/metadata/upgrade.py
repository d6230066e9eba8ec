"""Upgrades the metadata database with alembic."""

import io
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, exc

from halfpast_api.metadata.database import reason_of, show
from halfpast_api.metadata.errors import (
    MetadataUnavailable,
    MigrationFailed,
    NewerSchema,
)
from halfpast_api.metadata.schema import REVISION_TABLE


def alembic_config(connection: Connection, scripts: Path) -> Config:
    """Alembic on `connection`, in its open transaction, printing nothing."""
    config = Config(stdout=io.StringIO(), output_buffer=io.StringIO())
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, url: URL, scripts: Path) -> str:
    """To the newest revision, which is given, in the open transaction."""
    config = alembic_config(connection, scripts)
    head = _known_head(connection, url, ScriptDirectory.from_config(config))
    try:
        command.upgrade(config, "head")
    except (exc.SQLAlchemyError, CommandError) as error:
        if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
            raise MetadataUnavailable(reason_of(error)) from error
        raise MigrationFailed(show(url), reason_of(error)) from error
    return head


def _known_head(connection: Connection, url: URL, scripts: ScriptDirectory) -> str:
    """The newest revision we have; NewerSchema if the database has another one."""
    head = scripts.get_current_head()
    assert head is not None, "no revision in migrations/versions"
    known = {script.revision for script in scripts.walk_revisions()}
    options = {"version_table": REVISION_TABLE}
    context = MigrationContext.configure(connection, opts=options)
    for revision in context.get_current_heads():
        if revision not in known:
            raise NewerSchema(show(url), revision, head)
    return head
