"""Where the processes of one installation meet."""

from pathlib import Path

from halfpast_api.places import Places


def test_everything_lies_in_the_data_folder() -> None:
    places = Places.below(Path("/d"))
    assert places.broker == "unix:/d/run/broker.sock"
    assert places.chronos == "unix:/d/run/chronos.sock"
    assert places.transactions == "unix:/d/run/txn.sock"
    assert places.metadata == "sqlite:////d/metadata.sqlite"


def test_what_is_named_lies_elsewhere() -> None:
    places = Places.below(
        Path("/d"),
        broker="tcp:b:1",
        chronos="tcp:c:2",
        transactions="tcp:t:3",
        metadata="postgresql://m",
    )
    assert (places.broker, places.chronos) == ("tcp:b:1", "tcp:c:2")
    assert (places.transactions, places.metadata) == ("tcp:t:3", "postgresql://m")


def test_strangers_do_not_reach_the_sockets(tmp_path: Path) -> None:
    Places.below(tmp_path / "d").prepare()
    assert (tmp_path / "d" / "run").stat().st_mode & 0o777 == 0o700
