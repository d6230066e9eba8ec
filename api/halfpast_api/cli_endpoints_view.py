"""Endpoints, attempts and dead letters as lines and tables for people."""

from typing import Any

from halfpast_api.cli_output import print_line, print_table

Json = dict[str, Any]


def print_endpoint(endpoint: Json) -> None:
    """Its settings, and how it stands if that is known."""
    retry = endpoint["retry"]
    state = endpoint["state"]
    if endpoint["reason"]:
        state += f"  ({endpoint['reason']})"
    rate = f"{endpoint['rate_per_s']:g}/s" if endpoint["rate_per_s"] else "no limit"
    print_line(f"endpoint     {endpoint['name']}")
    print_line(f"url          {endpoint['url']}")
    print_line(f"topics       {', '.join(endpoint['topics'])}")
    print_line(f"filter       {_filter_text(endpoint['filter'])}")
    print_line(f"state        {state}")
    print_line(f"mode         {endpoint['mode']}, {endpoint['ordering']}")
    print_line(f"rate         {rate}, {endpoint['concurrency']} at once")
    print_line(
        f"attempts     {retry['max_attempts']}, after {_span(retry['initial_ms'])} and "
        f"then twice as long each time, {_span(retry['max_ms'])} at most"
    )
    now = endpoint.get("now")
    if now is None:
        return
    print_line(f"circuit      {now['circuit']}")
    print_line(f"in flight    {now['in_flight']}  ({now['waiting']} wait here)")
    print_line(f"delivered    {now['delivered']:,}")
    print_line(f"failed       {now['failed']:,}  {now['last_error']}".rstrip())
    if now["held_back_until"]:
        print_line(f"held back    until {now['held_back_until']}")


def print_endpoints(endpoints: list[Json]) -> None:
    columns = ["NAME", "STATE", "TOPICS", "MODE", "URL"]
    rows = [
        [it["name"], it["state"], ", ".join(it["topics"]), it["mode"], it["url"]]
        for it in endpoints
    ]
    print_table(columns, rows)


def print_attempts(attempts: list[Json]) -> None:
    columns = ["AT", "STATE", "STATUS", "MS", "TRY", "EVENT", "ERROR", "NEXT"]
    rows = [
        [
            it["at"],
            it["state"] if it["kind"] == "delivery" else it["kind"],
            str(it["status"] or ""),
            str(it["duration_ms"]),
            str(it["attempt"]),
            it["event_id"] or "",
            it["error"],
            it["next_attempt_at"] or "",
        ]
        for it in attempts
    ]
    print_table(columns, rows)


def print_test(found: Json) -> None:
    """What came of a test."""
    what = "delivered" if found["delivered"] else "failed"
    status = f"http {found['status']}" if found["status"] else found["result"]
    print_line(f"{what:<11}{status} after {found['duration_ms']} ms")
    if found["error"]:
        print_line(f"error      {found['error']}")
    if found["response"]:
        print_line(f"response   {found['response']}")


def print_secret(secret: str) -> None:
    """It is not shown again."""
    print_line(f"secret       {secret}   (shown this once)")


def print_dead_letters(letters: list[Json]) -> None:
    columns = ["ID", "TOPIC", "KEY", "DEAD SINCE", "ATTEMPTS", "REASON"]
    rows = [
        [
            it["id"],
            it["topic"],
            it.get("key") or "",
            it.get("dead_at") or "",
            str(it.get("attempts", "")),
            it.get("reason", ""),
        ]
        for it in letters
    ]
    print_table(columns, rows)


def print_dead_counts(counts: list[Json]) -> None:
    columns = ["SOURCE", "NAME", "DEAD LETTERS"]
    rows = [
        [it["source"], it["endpoint"] or it["group"], f"{it['dead_letters']:,}"]
        for it in counts
    ]
    print_table(columns, rows)


def _filter_text(wanted: Json | None) -> str:
    if not wanted:
        return "all events"
    tags: list[str] = wanted.get("tags", [])
    properties: dict[str, list[str]] = wanted.get("properties", {})
    parts = [f"tag {' or '.join(tags)}"] if tags else []
    for name, values in properties.items():
        parts.append(f"{name} = {' or '.join(values)}")
    return ", ".join(parts)


def _span(ms: int) -> str:
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms >= size and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
