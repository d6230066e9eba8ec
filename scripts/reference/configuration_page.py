"""All settings as a page, out of the frozen dataclasses that hold them."""

import ast
import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from scripts.reference.tables import code, table

from halfpast_api.config import ApiConfig
from halfpast_api.push.config import PushConfig
from halfpast_chronos.config import ChronosConfig
from halfpast_core_store.config import StoreConfig
from halfpast_txn.config import TxnConfig

SETTINGS: dict[str, tuple[type[Any], str]] = {
    "API": (ApiConfig, "HALFPAST_API_"),
    "Store": (StoreConfig, "HALFPAST_STORE_"),
    "Delay Server": (ChronosConfig, "HALFPAST_CHRONOS_"),
    "Transactions": (TxnConfig, "HALFPAST_TXN_"),
    "Push": (PushConfig, "HALFPAST_PUSH_"),
}
_TEXT = """# Configuration

Everything has a default. What may be tuned is an environment variable, read once at
the start; where there is an option of the [command line](cli.md) too, the option wins.
A value that cannot be is refused at the start, by its name.
"""


def configuration_page() -> str:
    """All variables, by service."""
    parts = [_TEXT]
    for title, (kind, prefix) in SETTINGS.items():
        parts += [f"## {title}", inspect.getdoc(kind) or ""]
        rows = list(_rows(kind, prefix))
        parts.append(table(("Variable", "Type", "Default", "Meaning"), rows))
    return "\n\n".join(parts) + "\n"


def _rows(kind: type[Any], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    types = typing.get_type_hints(kind)
    texts = _texts(kind)
    for field in dataclasses.fields(kind):
        name = prefix + field.name.upper()
        wanted = types[field.name]
        if dataclasses.is_dataclass(wanted):
            yield from _rows(typing.cast(type[Any], wanted), name + "_")
            continue
        yield code(name), _type(wanted), _default(field), texts.get(field.name, "")


def _type(wanted: Any) -> str:
    return getattr(wanted, "__name__", str(wanted)) if wanted else ""


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        return code(str(field.default))
    if field.default_factory is not dataclasses.MISSING:
        return code(str(field.default_factory()))
    return ""


def _texts(kind: type[Any]) -> dict[str, str]:
    """The strings behind the fields."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    (body,) = (it.body for it in tree.body if isinstance(it, ast.ClassDef))
    found: dict[str, str] = {}
    for field, after in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[field.target.id] = inspect.cleandoc(str(after.value.value))
    return found
