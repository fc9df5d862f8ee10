"""The faults a turn can have, in words for people. Data alone.

The first four are what a person on call must tell apart; the others say that it was none of them.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Fault(StrEnum):
    """What was wrong with a turn. Also the words that `toolgraft explain --fault` takes."""

    PROMPT_TOO_WEAK = "prompt_too_weak"
    PARSER_FAILURE = "parser_failure"
    RETRY_NOT_TRIGGERED = "retry_not_triggered"
    STATE_MACHINE_BROKEN = "state_machine_broken"
    UPSTREAM_FAULT = "upstream_fault"
    OWN_SLOWNESS = "own_slowness"
    OUTPUT_LIMIT = "output_limit"
    CLIENT_GONE = "client_gone"
    REQUEST_REJECTED = "request_rejected"
    SHUT_DOWN = "shut_down"
    UNFINISHED = "unfinished"
    HEALTHY = "healthy"


class About(msgspec.Struct, frozen=True):
    """A fault's name for people, and what it means in one sentence."""

    title: str
    meaning: str


ABOUT: dict[Fault, About] = {
    Fault.PROMPT_TOO_WEAK: About(
        "Prompt too weak", "The model did not begin a call although one was wanted: it refused, talked, or said nothing."
    ),
    Fault.PARSER_FAILURE: About(
        "Parser failure", "The model wrote a block and it did not become a call: it left the format, or the parser failed."
    ),
    Fault.RETRY_NOT_TRIGGERED: About(
        "Retry not triggered", "A refusal or a missing call went to the client although another attempt was due."
    ),
    Fault.STATE_MACHINE_BROKEN: About("State machine broken", "Toolgraft, or a stage of your own, broke a promise: this is a bug."),
    Fault.UPSTREAM_FAULT: About("Upstream's fault", "The upstream did not answer, broke off, or answered with an error."),
    Fault.OWN_SLOWNESS: About("Our slowness", "Toolgraft itself took long, or withheld text for long."),
    Fault.OUTPUT_LIMIT: About("Output limit", "The model ran into its output limit before it was done."),
    Fault.CLIENT_GONE: About("Client gone", "The client closed its connection before its answer was complete."),
    Fault.REQUEST_REJECTED: About("Request rejected", "The request was turned away: it was wrong, or there was no room for it."),
    Fault.SHUT_DOWN: About("Shut down", "The turn was closed because the process ended."),
    Fault.UNFINISHED: About(
        "Unfinished", "The log holds no end of this turn: it is still running, or the log begins or ends in its middle."
    ),
    Fault.HEALTHY: About("Healthy", "Nothing was wrong."),
}
