"""Payloads as webhooks carry them: orders, payments, shipments, reminders.

Their shapes, sizes (60 B to 4 kB), scripts and JSON spellings differ on purpose:
nested lists, unicode raw and escaped, spaces or none, large and tiny numbers. A
store that re-encodes them instead of keeping the bytes is found out.
"""

import json
import random
from typing import NamedTuple

TOPICS = ("orders", "payments", "shipments", "reminders")
NAMES = (
    "Zoë Müller",
    "José Núñez",
    "李小龍",
    "Ольга Иванова",
    "محمد",
    'Ann "AJ" Smith',
    "Søren Å",
)
CITIES = ("Zürich", "São Paulo", "東京", "Kraków", "Reykjavík", "Austin, TX")
ITEMS = ("espresso cup", "Füllfederhalter", "USB-C \\ cable", "🎧 headset", "tea <1kg>")
CARRIERS = ("DHL", "La Poste", "佐川急便", "UPS")


class Payload(NamedTuple):
    """One event to publish. `data` is JSON text and holds `serial`."""

    serial: str
    topic: str
    key: str
    tag: str
    properties: dict[str, str]
    data: bytes


class PayloadMaker:
    """Seeded: the same seed makes the same payloads."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def make(self, topic: str | None = None) -> Payload:
        """The next payload, of `topic`'s shape or of a random one."""
        self._count += 1
        chance = self._random
        topic = topic or chance.choice(TOPICS)
        serial = f"{topic}-{self._count:06d}"
        shape = {
            "orders": self._order,
            "payments": self._payment,
            "shipments": self._shipment,
            "reminders": self._reminder,
        }[topic]
        tag, document = shape(serial)
        return Payload(
            serial=serial,
            topic=topic,
            key=f"customer-{chance.randrange(60)}",
            tag=tag,
            properties={"source": "shop", "trace": f"{chance.getrandbits(64):016x}"},
            data=self._spell(document),
        )

    def _spell(self, document: dict[str, object]) -> bytes:
        spelling = self._random.randrange(3)
        text = json.dumps(
            document,
            ensure_ascii=spelling == 0,
            indent=1 if spelling == 1 else None,
            separators=(",", ":") if spelling == 2 else None,
        )
        return text.encode()

    def _order(self, serial: str) -> tuple[str, dict[str, object]]:
        chance = self._random
        prices = [
            round(chance.uniform(0.5, 900), 2) for _ in range(chance.randint(1, 12))
        ]
        lines = [
            {
                "sku": f"SKU-{chance.randrange(10**6):06d}",
                "title": chance.choice(ITEMS),
                "quantity": chance.randint(1, 9),
                "price": price,
                "options": {"gift": chance.random() < 0.2, "engraving": None},
            }
            for price in prices
        ]
        return chance.choice(("created", "changed")), {
            "serial": serial,
            "type": "order.created",
            "customer": {"name": chance.choice(NAMES), "city": chance.choice(CITIES)},
            "lines": lines,
            "total": round(sum(prices), 2),
            "currency": chance.choice(("EUR", "CHF", "JPY")),
        }

    def _payment(self, serial: str) -> tuple[str, dict[str, object]]:
        chance = self._random
        state = chance.choice(("authorised", "captured", "refused"))
        return state, {
            "serial": serial,
            "id": f"pay_{chance.getrandbits(96):024x}",
            "amount_minor": chance.randint(1, 2**53),
            "rate": chance.uniform(1e-7, 1e-3),
            "state": state,
            "card": {"last4": f"{chance.randrange(10**4):04d}", "holder": None},
            "risk": [chance.random() for _ in range(chance.randint(0, 5))],
        }

    def _shipment(self, serial: str) -> tuple[str, dict[str, object]]:
        chance = self._random
        stops = [
            {"at": f"2026-11-{day:02d}T08:00:00+01:00", "place": chance.choice(CITIES)}
            for day in range(1, chance.randint(2, 20))
        ]
        return "moved", {
            "serial": serial,
            "carrier": chance.choice(CARRIERS),
            "parcel": {"weight_kg": round(chance.uniform(0.1, 30), 3), "stops": stops},
            "note": chance.choice(("", "ring twice", "vor der Tür\nablegen", "\t")),
        }

    def _reminder(self, serial: str) -> tuple[str, dict[str, object]]:
        return "due", {"serial": serial, "text": self._random.choice(NAMES)}
