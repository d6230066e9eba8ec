"""The Python SDK as a page, out of the docstrings of what it exports."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import halfpast

_TEXT = """# Python SDK

`pip install halfpast` and `import halfpast`. `Client` is for asyncio, `SyncClient`
has the same calls without `await`.
"""
_GROUPS = {
    "Clients": ("Client", "SyncClient"),
    "Consumers": ("Consumer", "SyncConsumer", "ConsumerOptions", "ConsumerConfig"),
    "Transactions": (
        *("Transaction", "SyncTransaction", "TransactionalProducer"),
        *("SyncTransactionalProducer", "TransactionalProducerOptions"),
        *("TransactionalProducerConfig", "barrier", "barrier_check"),
        *("barrier_table", "purge_barrier", "Barrier"),
    ),
}
_WIDTH = 78
_NONE = inspect.Signature.empty
_MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z]|timedelta|datetime)")
_SKIPPED_MODULES = ("builtins", "enum", "typing")


def sdk_page() -> str:
    """Everything in `halfpast.__all__`."""
    names = list(halfpast.__all__)
    grouped = {name for group in _GROUPS.values() for name in group}
    found = {name: getattr(halfpast, name) for name in names}
    errors = [name for name, it in found.items() if _is_error(it)]
    rest = [it for it in names if it not in grouped and it not in errors]
    parts = [_TEXT]
    for title, group in {**_GROUPS, "Values": rest, "Errors": errors}.items():
        parts.append(f"## {title}")
        for name in group:
            if name in found:
                parts += _entry(name, found[name])
    return "\n\n".join(parts) + "\n"


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"### {name}"
    if inspect.isclass(thing) and issubclass(thing, Exception):
        yield f"*({', '.join(base.__name__ for base in thing.__bases__)})*"
    if not inspect.isclass(thing) or not hasattr(thing, "__members__"):
        yield _signature(name, thing)
    yield _text(thing)
    if inspect.isclass(thing):
        if hasattr(thing, "__members__"):
            members: Any = thing
            yield "\n".join(f"- `{it.name}`: `{it.value!r}`" for it in members)
        else:
            yield from _methods(thing)


def _methods(kind: type) -> Iterator[str]:
    for name, method in inspect.getmembers(kind):
        if name.startswith("_") or not callable(method):
            continue
        if getattr(method, "__module__", "") in _SKIPPED_MODULES:
            continue
        if not str(getattr(method, "__module__", "")).startswith("halfpast"):
            continue
        yield f"#### {kind.__name__}.{name} {{: #{kind.__name__}-{name} }}"
        yield _signature(name, method)
        yield _text(method)


def _signature(name: str, thing: Any) -> str:
    """As a block; each parameter in a line of its own where the line would be long."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [it for it in signature.parameters.values() if it.name != "self"]
    whole = signature.replace(parameters=parameters)
    lead = ("async " if inspect.iscoroutinefunction(thing) else "") + name
    text = lead + _MODULES.sub("", str(whole))
    if len(text) > _WIDTH:
        lone = [
            str(signature.replace(parameters=[it], return_annotation=_NONE))[1:-1]
            for it in parameters
        ]
        end = str(signature.replace(parameters=[]))[2:]
        inner = "".join(f"    {it},\n" for it in _marked(parameters, lone))
        text = lead + _MODULES.sub("", f"(\n{inner}){end}")
    return f"```python\n{text}\n```"


def _marked(parameters: list[inspect.Parameter], lone: list[str]) -> Iterator[str]:
    """With the star before those that are given by name only."""
    is_marked = False
    for parameter, text in zip(parameters, lone, strict=True):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            is_marked = True
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY and not is_marked:
            is_marked = True
            yield "*"
        yield text.removeprefix("*, ")


def _text(thing: Any) -> str:
    return inspect.getdoc(thing) or ""
