"""A line so small that it has no axes: two paths of an SVG of 120 by 24."""

from collections.abc import Sequence

import msgspec

_WIDTH, _HEIGHT = 120, 22


class Sparkline(msgspec.Struct):
    """Two paths: the line, and what is under it."""

    line: str
    area: str


def sparkline(values: Sequence[float | None]) -> Sparkline | None:
    """None where there is nothing that rises."""
    known = [it for it in values if it is not None]
    if len(known) < 2 or max(known) <= 0:
        return None
    is_flat = min(known) < 0.5 * max(known) or min(known) == max(known)
    low = min(0.0, *known) if is_flat else min(known)
    span = max(known) - low or 1
    lines: list[str] = []
    areas: list[str] = []
    for stretch in _stretches(values):
        points = [
            f"{at * _WIDTH / (len(values) - 1):.1f} "
            f"{1 + _HEIGHT * (1 - (value - low) / span):.1f}"
            for at, value in stretch
        ]
        path = f"M{'L'.join(points)}"
        first, last = points[0].split()[0], points[-1].split()[0]
        lines.append(path)
        areas.append(f"{path}L{last} {_HEIGHT + 2}L{first} {_HEIGHT + 2}Z")
    return Sparkline("".join(lines), "".join(areas))


def _stretches(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    found: list[list[tuple[int, float]]] = [[]]
    for at, value in enumerate(values):
        if value is not None:
            found[-1].append((at, value))
        elif found[-1]:
            found.append([])
    return [it for it in found if len(it) > 1]
