"""The worked example of core_store/README.md is what the code writes."""

import re
from pathlib import Path

from halfpast_core_store.frame import draft_frame, seal_frame
from halfpast_core_store.record import Family, RecordKind, encode_record

LINE = re.compile(r"^ +\d+  ((?:[0-9a-f]{2} ?){16})$", re.MULTILINE)


def test_the_frame_in_the_readme_is_a_real_one(repository_root: Path) -> None:
    text = (repository_root / "core_store" / "README.md").read_text(encoding="utf-8")
    shown = bytes.fromhex("".join(LINE.findall(text)))
    record = encode_record(
        RecordKind.NORMAL,
        topic_id=1024,
        queue_id=2,
        event_id=bytes.fromhex("0199d2f0c00070008000000000004000"),
        born_ms=1_760_000_000_000,
        body=b"hi",
    )
    draft = draft_frame(
        [(1024, 2, 7, [record])],
        position=4096,
        stored_ms=1_760_000_000_001,
        epoch=3,
        flags=Family.MESSAGES,
    )
    assert shown == b"".join(seal_frame(draft, salt=0))


def test_every_module_is_in_the_reading_order(repository_root: Path) -> None:
    folder = repository_root / "core_store"
    text = (folder / "README.md").read_text(encoding="utf-8")
    modules = {path.name for path in (folder / "halfpast_core_store").glob("*.py")}
    missing = {
        name
        for name in modules - {"__init__.py", "config.py"}
        if f"`{name}`" not in text and not name.startswith("rpc")
    }
    assert not missing
