"""`halfpast audit prune`: results that need not be kept any longer."""

from pathlib import Path

from halfpast_api.audits.show import open_results
from halfpast_api.audits.spans import span_ms
from halfpast_spark.retention import Pruned, RetentionConfig, prune


def prune_results(
    data: Path, metadata: str | None, *, keep: str, keep_rows: int
) -> Pruned:
    """Raises AuditError, ValueError."""
    config = RetentionConfig(keep_ms=span_ms(keep), rows_max=keep_rows)
    return prune(open_results(data, metadata), config)
