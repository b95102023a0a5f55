"""What a turn asks next: the target, and what former attempts and tool rounds taught.

Comes in: the turn, the rounds that were completed, and the classified failure of an attempt. Goes
out: the next question, or the decision to give up. It carries out what `worker.failures.decide`
says; it waits for nothing.

A completed round is never asked again: its tools ran, and a failure in a later round leaves it in
the history. The next attempt shows its text once more, under its own number.
"""

import msgspec

from shared.failures import ProviderError
from shared.turns import Target, TurnRequest
from worker.failures.decide import Action, Decision, Situation, decide
from worker.providers.requests import ModelRequest, model_request
from worker.turn.rounds import Round
from worker.turn.trimming import trimmed


class Plan:
    """The course of one turn through its attempts.

    Args:
        request: the turn.
        may_supersede: whether shown text may be replaced.

    Attributes:
        question: what is asked now.
        tried: ids of keys of the asked provider that failed in this turn.
        rounds: the completed rounds, in order.
    """

    __slots__ = (
        "_done",
        "_fallbacks",
        "_may_supersede",
        "_messages",
        "_request",
        "_tries",
        "question",
        "rounds",
        "tried",
    )

    def __init__(self, request: TurnRequest, *, may_supersede: bool) -> None:
        self._request = request
        self._may_supersede = may_supersede
        self._fallbacks = list(request.fallbacks)
        self._tries = 1
        self._done: frozenset[Action] = frozenset()
        self._messages = list(request.messages)
        self.question: ModelRequest = model_request(request)
        self.rounds: list[Round] = []
        self.tried: frozenset[str] = frozenset()

    @property
    def target(self) -> Target:
        """The model that is asked now."""
        return self.question.target

    def add_rounds(self, *rounds: Round) -> None:
        """Makes the next question from completed rounds."""
        self.rounds.extend(rounds)
        added = [message for one in rounds for message in one.messages]
        self._messages = [*self._messages, *added]
        self.question = msgspec.structs.replace(self.question, messages=self._messages)

    def after(
        self,
        error: ProviderError,
        *,
        emitted: bool,
        jitter: float,
        key_id: str | None = None,
        other_keys: int = 0,
    ) -> Decision:
        """Decides what follows a failure, and makes it the question, unless it is giving up.

        Args:
            error: the classified failure.
            emitted: the attempt has shown text.
            jitter: a random number from 0 to 1.
            key_id: the key that it used.
            other_keys: keys of the pool that could be used instead.
        """
        shorter = trimmed(self._messages)
        untrimmable = frozenset({Action.TRIM_HISTORY} if shorter is None else ())
        situation = Situation(
            attempt=self._tries,
            emitted=emitted,
            may_supersede=self._may_supersede,
            keys_left=other_keys,
            fallbacks_left=len(self._fallbacks),
            without=self.question.without,
            done=self._done | untrimmable,
        )
        decision = decide(error, situation, jitter=jitter)
        if decision.action is not Action.GIVE_UP:
            self._tries += 1
            self._done |= {decision.action}
            if decision.action is Action.TRIM_HISTORY and shorter is not None:
                self._messages = shorter
            if decision.action is Action.ROTATE_KEY and key_id is not None:
                self.tried |= {key_id}
            changed = self._changed(decision)
            self.question = msgspec.structs.replace(changed, messages=self._messages)
        return decision

    def _changed(self, decision: Decision) -> ModelRequest:
        match decision.action:
            case Action.FALL_BACK:
                self.tried = frozenset()
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
