"""
The answer of a whole response out of the answers of its steps (contract V1, V4, U, P13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from rxchat.errors import Verdict
from rxchat.response import CALLS_LEFT, ENDED_BY, ChatResponse, Part, Usage

__all__ = ["verdict_at_end", "whole_answer"]

NOTHING = ChatResponse()


def verdict_at_end(last: ChatResponse) -> Verdict:
    """
    The verdict of a response that reached its protocol's own end, by its last step (contract P2, T4).
    """
    finish = last.finish_reason
    if last.metadata.get(ENDED_BY) in CALLS_LEFT:
        return Verdict.INCOMPLETE_FINISH
    return Verdict.COMPLETE if finish.complete else Verdict.INCOMPLETE_FINISH


def whole_answer(steps: Sequence[ChatResponse], *, verdict: Verdict | None, usage: Usage | None, response_id: str | None) -> ChatResponse:
    """
    All parts in order, the finish of the last step, the first ids that were said, counts summed; of metadata said twice the later counts.
    """
    last = steps[-1] if steps else NOTHING
    return ChatResponse(
        parts=_joined(steps),
        finish_reason=last.finish_reason,
        finish_reason_raw=last.finish_reason_raw,
        usage=usage,
        model=next((step.model for step in steps if step.model), None),
        response_id=response_id,
        provider_response_id=next((step.provider_response_id for step in steps if step.provider_response_id), None),
        verdict=verdict,
        steps=tuple(steps),
        alternatives=_alternatives(steps, verdict),
        unknown=_summed(step.unknown for step in steps),
        after_finish=sum(step.after_finish for step in steps),
        dropped=sum(step.dropped for step in steps),
        metadata={key: value for step in steps for key, value in step.metadata.items()},
    )


def _alternatives(steps: Iterable[ChatResponse], verdict: Verdict | None) -> tuple[ChatResponse, ...]:
    """
    Each other choice over all steps; where the response ended well, its own finish decides (contract P13).
    """
    choices: dict[int, list[ChatResponse]] = {}
    for step in steps:
        for other in step.alternatives:
            choices.setdefault(other.choice, []).append(other)
    ended = verdict in (Verdict.COMPLETE, Verdict.INCOMPLETE_FINISH)
    return tuple(
        attrs.evolve(others[-1], parts=_joined(others), verdict=verdict_at_end(others[-1]) if ended else verdict)
        for _, others in sorted(choices.items())
    )


def _joined(responses: Iterable[ChatResponse]) -> tuple[Part, ...]:
    return tuple(part for response in responses for part in response.parts)


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for names in counts:
        for name, number in names.items():
            total[name] = total.get(name, 0) + number
    return total
