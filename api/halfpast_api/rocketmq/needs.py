"""What the front takes from the API in whose process it runs. No gRPC here."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from halfpast_api.access.reception import Reception
from halfpast_api.access.spaces import Spaces
from halfpast_api.config import ApiConfig
from halfpast_api.limits.limiter import Limiter
from halfpast_api.load.shedder import Shedder
from halfpast_api.publish import Source

if TYPE_CHECKING:  # brings OpenTelemetry, which need not be there
    from halfpast_api.tracing.tracing import Tracing


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontNeeds:
    """The same that HTTP requests are answered with."""

    spaces: Spaces
    reception: Reception
    limiter: Limiter
    shedder: Shedder
    source: Source
    config: ApiConfig
    tracing: "Tracing | None" = None
