"""What errors of the store advise."""

import pytest

from halfpast_core_store.errors import BrokenIndex


@pytest.mark.parametrize(
    ("folder", "lost"),
    [
        ("/d/index", "names of topics and groups"),
        ("/d/chronos", "pending events"),
        ("/d/txn", "open transactions"),
    ],
)
def test_who_moves_an_index_away_is_told_what_that_may_lose(
    folder: str, lost: str
) -> None:
    advice = str(BrokenIndex(folder, "Corruption: bad"))
    assert advice.startswith(f"the index {folder} cannot be opened: Corruption: bad;")
    assert advice.index("restore it from a backup") < advice.index("move it away")
    assert lost in advice[advice.index("move it away") :]
