"""What operators do about transactions in doubt."""

from halfpast_api.console.form import Form
from halfpast_api.console.page_names import path_of
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Redirect, Visit
from halfpast_api.problems import Refusal

_OUTCOMES = {"committed": "Committed by force.", "rolled_back": "Rolled back by force."}
_BY_CHARS_MAX = 128


async def resume_transaction(visit: Visit, form: Form) -> Redirect:
    """POST /console/transactions/{id}:resume"""
    body = {"reason": form.text("reason"), "by": _by(visit)}
    return await _do(
        visit, "resume", body, Said("Resumed: its producer is asked again from now on.")
    )


async def force_transaction(visit: Visit, form: Form) -> Redirect:
    """POST /console/transactions/{id}:force"""
    state = form.text("state")
    if state not in _OUTCOMES:
        raise Refusal("invalid_request", "choose the outcome: commit or roll back")
    if not form.ticked("sure"):
        raise Refusal(
            "invalid_request",
            "tick that you have looked at the producer's own data: an outcome that is "
            "wrong cannot be taken back",
        )
    body = {"state": state, "reason": form.text("reason"), "by": _by(visit)}
    return await _do(visit, "force", body, Said(_OUTCOMES[state], "warn"))


async def _do(visit: Visit, verb: str, body: object, said: Said) -> Redirect:
    transaction_id = visit.parameter
    await visit.send("POST", "transactions", transaction_id, verb=verb, body=body)
    return Redirect(path_of("transactions", transaction_id), said)


def _by(visit: Visit) -> str:
    viewer = visit.viewer
    return "operator" if viewer.is_open else viewer.actor[:_BY_CHARS_MAX]
