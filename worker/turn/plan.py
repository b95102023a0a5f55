"""What a turn asks next: the target, and what former attempts taught.

Comes in: the turn, and the classified failure of an attempt. Goes out: the next question, or the
decision to give up. It carries out what `worker.failures.decide` says; it waits for nothing.

Key pools and trimming are not there yet, so those two actions are passed over.
"""

import msgspec

from shared.failures import ProviderError
from shared.turns import Target, TurnRequest
from worker.failures.decide import Action, Decision, Situation, decide
from worker.providers.requests import ModelRequest, model_request


class Plan:
    """The course of one turn through its attempts.

    Args:
        request: the turn.
        may_supersede: whether shown text may be replaced.
    """

    __slots__ = ("_done", "_fallbacks", "_may_supersede", "_request", "_tries", "question")

    def __init__(self, request: TurnRequest, *, may_supersede: bool) -> None:
        self._request = request
        self._may_supersede = may_supersede
        self._fallbacks = list(request.fallbacks)
        self._tries = 1
        self._done: frozenset[Action] = frozenset({Action.TRIM_HISTORY})
        self.question: ModelRequest = model_request(request)

    @property
    def target(self) -> Target:
        """The model that is asked now."""
        return self.question.target

    def after(self, error: ProviderError, *, emitted: bool, jitter: float) -> Decision:
        """Decides what follows a failure, and makes it the question, unless it is giving up."""
        situation = Situation(
            attempt=self._tries,
            emitted=emitted,
            may_supersede=self._may_supersede,
            fallbacks_left=len(self._fallbacks),
            done=self._done,
        )
        decision = decide(error, situation, jitter=jitter)
        if decision.action is not Action.GIVE_UP:
            self._tries += 1
            self._done |= {decision.action}
            self.question = self._changed(decision)
        return decision

    def _changed(self, decision: Decision) -> ModelRequest:
        match decision.action:
            case Action.FALL_BACK:
                return model_request(self._request, self._fallbacks.pop(0))
            case Action.LOWER_MAX_TOKENS if decision.max_tokens is not None:
                sampling = msgspec.structs.replace(
                    self.question.sampling, max_tokens=decision.max_tokens
                )
                return msgspec.structs.replace(
                    self.question, sampling=sampling, output_cap=decision.max_tokens
                )
            case Action.DROP_PARAMETER if decision.parameter is not None:
                without = self.question.without | {decision.parameter}
                return msgspec.structs.replace(self.question, without=without)
            case _:
                return self.question
