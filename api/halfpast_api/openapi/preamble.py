"""What holds for all calls, in Markdown."""

from typing import Final

TEXT: Final = """\
**Answers.** A 2xx means that what it answers is durable. A 4xx means that nothing has
happened, and says what to mend. A 5xx or a time-out means *unknown*: look first, or
repeat the request with the same `Idempotency-Key`, which never stores it twice.

**Problems** are `application/problem+json` (RFC 9457) with a `code` to decide on,
`retryable`, a `request_id`, and pointers to the members at fault.

**Times.** `deliver_at` is RFC 3339 with an offset; `delay` is an ISO 8601 duration of
days to seconds. Answers are in UTC, to the millisecond.

**Formats.** Bodies are JSON, or MessagePack with the same members (`Content-Type` and
`Accept`: `application/msgpack`); there `data` is bytes, and `json` tells whether it
holds JSON text. Members that are not known are refused.

**Lists** come in pages: give `next_page_token` back as `page_token`.

**Versions.** `ETag` goes back as `If-Match`; what has changed meanwhile is a 412.
"""
