"""Config dataclasses from environment variables."""

from dataclasses import dataclass, field

import pytest

from halfpast_api.environment import BadSetting, configured


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    size: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    share: float = 0.5
    is_on: bool = False
    name: str | None = None


def test_nothing_set_means_defaults() -> None:
    assert configured(Outer, "X_", {"UNRELATED": "1"}) == Outer()


def test_each_field_has_its_variable() -> None:
    environment = {
        "X_INNER_SIZE": "7",
        "X_SHARE": "0.25",
        "X_IS_ON": "true",
        "X_NAME": "n",
    }
    assert configured(Outer, "X_", environment) == Outer(
        inner=Inner(size=7), share=0.25, is_on=True, name="n"
    )


def test_a_wrong_value_is_named() -> None:
    with pytest.raises(BadSetting, match="X_INNER_SIZE='much' cannot be used"):
        configured(Outer, "X_", {"X_INNER_SIZE": "much"})


def test_the_real_configurations_can_be_set() -> None:
    from halfpast_api.config import ApiConfig
    from halfpast_chronos.config import ChronosConfig
    from halfpast_core_store.config import StoreConfig
    from halfpast_txn.config import TxnConfig

    store = configured(StoreConfig, "S_", {"S_LOG_SEGMENT_SIZE": "1048576"})
    assert store.log.segment_size == 1048576
    assert configured(ChronosConfig, "C_", {}) == ChronosConfig()
    api = configured(ApiConfig, "A_", {"A_BODIES_BATCH_MAX": "5"})
    assert api.bodies.batch_max == 5
    # The address of the service has no underscore behind its name.
    environment = {"HALFPAST_TXN": "tcp:h:1", "HALFPAST_TXN_HISTORY_MS": "5"}
    txn = configured(TxnConfig, "HALFPAST_TXN_", environment)
    assert txn == TxnConfig(history_ms=5)
