"""Code blocks of Markdown files, with what their info strings say.

```console
$ halfpast list reminders          commands have a prompt; the rest is output
```

```bash no-run="needs Docker"      left out, for a reason
```

```python client="rocketmq"        run with that client, outside of our environment
```
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OPEN = re.compile(r"^( *)```([\w-]*)(.*)$")
_REASON = re.compile(r'no-run="([^"]+)"')
_CLIENT = re.compile(r'client="([^"]+)"')
_PROMPT = "$ "


@dataclass(frozen=True, slots=True)
class Block:
    """One block. `reason`: why it is not run, empty if it is. `client`: somebody
    else's, with which it is run."""

    path: Path
    line: int
    language: str
    text: str
    reason: str = ""
    client: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and what is shown of its output."""

    text: str
    output: str


def blocks_of(path: Path) -> Iterator[Block]:
    """All blocks of a file, in their order."""
    lines = iter(enumerate(path.read_text("utf-8").splitlines(), start=1))
    for number, line in lines:
        opened = _OPEN.match(line)
        if opened is None:
            continue
        indent, language, rest = opened.groups()
        inner: list[str] = []
        for _, text in lines:
            if text.strip() == "```":
                break
            inner.append(text.removeprefix(indent))
        reason, client = _REASON.search(rest), _CLIENT.search(rest)
        text = "\n".join(inner) + "\n"
        yield Block(
            path,
            number,
            language,
            text,
            reason[1] if reason else "",
            client[1] if client else "",
        )


def commands_of(text: str) -> list[Command]:
    """The commands of a block with prompts."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith(_PROMPT):
            found.append(Command(line.removeprefix(_PROMPT), ""))
        elif found:
            last = found.pop()
            found.append(Command(last.text, last.output + line + "\n"))
    return found
