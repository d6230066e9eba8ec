"""Ids and the like as examples show them. A test puts real ones in their place."""

from typing import Final

EVENT: Final = "01936f1e-8c00-7abc-8def-0123456789ab"
DEAD_EVENT: Final = "01936f1e-8c00-7abc-8def-0123456789de"
MESSAGE: Final = "01936f1e-8c00-7abc-8def-012345670001"
TRANSACTION: Final = "01936f1e-8c00-7abc-8def-012345670000"
PARKED: Final = "01936f1e-8c00-7abc-8def-0123456a0000"
SCHEDULE: Final = "01936f1e-8c00-7abc-8def-01234567cafe"
OPERATION: Final = "01936f1e-8c00-7abc-8def-01234567b01c"
RECEIPT: Final = "AAAAAAAAAABxd2VydHl1aW9wYXNkZmdoamts"
KEY_ID: Final = "k3x9q2mv"
ETAG: Final = '"1"'
