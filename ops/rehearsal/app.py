"""The HTTP surface of the rehearsal provider: doors of four vendors, and its own log.

Comes in: requests over HTTP. Goes out: streams, vendors' errors, `GET /rehearsal/log`,
`DELETE /rehearsal/log`, `GET /rehearsal/scenarios`, `GET /v1/models`. `ops.rehearsal.server`
runs it.
"""

import time
from collections import Counter
from collections.abc import Callable

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ops.rehearsal.faults import Faults
from ops.rehearsal.judges.anthropic import AnthropicJudge
from ops.rehearsal.judges.chat_dialects import DIALECTS, REHEARSAL
from ops.rehearsal.judges.google import GoogleJudge
from ops.rehearsal.judges.openai_chat import ChatJudge
from ops.rehearsal.judges.openai_responses import ResponsesJudge
from ops.rehearsal.log import MAX_BODY_BYTES, Entry, RehearsalLog
from ops.rehearsal.performance import Performance
from ops.rehearsal.player import Pace, Playback
from ops.rehearsal.scenarios import Choice, Scenario, beats_of, choose
from ops.rehearsal.tokens import PromptCache, count_tokens
from ops.rehearsal.values import Ask, Count, Facts, Fault, Judge, Voice
from ops.rehearsal.voices.anthropic import AnthropicVoice
from ops.rehearsal.voices.google import GoogleVoice
from ops.rehearsal.voices.openai_chat import ChatVoice
from ops.rehearsal.voices.openai_responses import ResponsesVoice

MAX_REQUEST_BYTES = 20 * 1024 * 1024
"""A request above this is refused, as vendors do (Google 20 MB inline, Anthropic 32 MB)."""

NOT_STREAMED = Fault(
    status=400,
    message="Only streamed answers are rehearsed: set `stream` to true.",
    type="invalid_request_error",
)
"""The one refusal that is ours; vendors answer such requests whole, turnfleet never asks so."""

VoiceMaker = Callable[[Ask, int, Facts], Voice]


class Provider:
    """The state of a running rehearsal: scenarios, faults, prompt cache, log."""

    def __init__(self, scenarios: dict[str, Scenario], faults: Faults) -> None:
        self.scenarios = scenarios
        self.log = RehearsalLog()
        self._faults = faults
        self._cache = PromptCache()
        self._met: Counter[tuple[str, str]] = Counter()

    async def answer(self, request: Request, judge: Judge, voice: VoiceMaker) -> ASGIApp:
        """Judges a request and chooses its answer."""
        entry = self.log.open(request.url.path, time.monotonic(), time.time())
        entry.outcome = "refused"
        facts = Facts(
            headers=dict(request.headers),
            query=dict(request.query_params),
            model=request.path_params.get("model"),
        )
        key = judge.key(facts)
        ask = self._judged(await request.body(), facts, judge, entry, key)
        if isinstance(ask, Fault):
            return _refused(ask, judge, entry)
        entry.model = ask.model
        if not ask.is_streamed:
            return _refused(NOT_STREAMED, judge, entry)
        choice = choose(self.scenarios, ask)
        if choice is None:
            fault = self._faults.worded("unknown_model", judge.vendor, model=ask.model)
            return _refused(fault, judge, entry)
        entry.scenario = choice.name
        if (name := self._fault_of(choice, ask)) is not None:
            fault = self._faults.worded(name, judge.vendor, model=ask.model, key=key or "")
            return _refused(fault, judge, entry)
        return self._playback(ask, choice, voice(ask, entry.number, facts), judge, entry, key or "")

    def _judged(
        self, body: bytes, facts: Facts, judge: Judge, entry: Entry, key: str | None
    ) -> Ask | Fault:
        if key is None:
            return self._faults.worded("missing_key", judge.vendor)
        if "invalid" in key:
            return self._faults.worded("invalid_key", judge.vendor, key=key)
        if len(body) > MAX_REQUEST_BYTES:
            return self._faults.worded("too_large", judge.vendor)
        try:
            decoded = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return self._faults.worded("bad_json", judge.vendor)
        if len(body) <= MAX_BODY_BYTES:
            entry.body = msgspec.Raw(body)
        return judge.read(decoded, facts)

    def _fault_of(self, choice: Choice, ask: Ask) -> str | None:
        scenario = choice.scenario
        if scenario.fault is None or scenario.fault_times is None:
            return scenario.fault
        met = (choice.name, ask.prompt)
        self._met[met] += 1
        return scenario.fault if self._met[met] <= scenario.fault_times else None

    def _playback(
        self, ask: Ask, choice: Choice, voice: Voice, judge: Judge, entry: Entry, key: str
    ) -> Playback:
        cached, written = self._cache.admit(key, ask)
        prompt = sum(count_tokens(block) for block in ask.blocks)
        count = Count(prompt=prompt, cached=cached, cache_written=written, output=0, reasoning=0)
        entry.prompt_tokens, entry.cached_tokens = prompt, cached
        entry.outcome = "running"

        def told(ended: Count) -> None:
            entry.told_output_tokens = ended.output

        performance = Performance(
            beats_of(choice.scenario, ask),
            ask,
            voice,
            count,
            faults=self._faults,
            vendor=judge.vendor,
            on_told=told,
        )
        pace = Pace(choice.tokens_per_s, choice.scenario.first_token_s)
        return Playback(performance.steps(), voice.media_type, pace, entry)


def _refused(fault: Fault, judge: Judge, entry: Entry) -> Response:
    entry.status = fault.status
    entry.ended_monotonic_s = time.monotonic()
    return Response(
        judge.error_body(fault),
        status_code=fault.status,
        media_type="application/json",
        headers=fault.headers,
    )


def _chat(ask: Ask, number: int, facts: Facts) -> Voice:
    return ChatVoice(ask.model, number, int(time.time()), wants_usage=ask.wants_usage)


def _responses(ask: Ask, number: int, facts: Facts) -> Voice:
    return ResponsesVoice(ask.model, number, int(time.time()))


def _anthropic(ask: Ask, number: int, facts: Facts) -> Voice:
    return AnthropicVoice(ask.model, number)


def _google(ask: Ask, number: int, facts: Facts) -> Voice:
    return GoogleVoice(ask.model, number, is_sse=facts.query.get("alt") == "sse")


# With and without the version: a base URL may hold it or not. Every dialect has its own path.
DOORS: tuple[tuple[tuple[str, ...], Judge, VoiceMaker], ...] = (
    (("/chat/completions", "/v1/chat/completions"), ChatJudge(REHEARSAL), _chat),
    *(((f"/{dialect.name}/chat/completions",), ChatJudge(dialect), _chat) for dialect in DIALECTS),
    (("/responses", "/v1/responses"), ResponsesJudge(), _responses),
    (("/v1/messages",), AnthropicJudge(), _anthropic),
    (
        (
            "/models/{model:path}:streamGenerateContent",
            "/v1/models/{model:path}:streamGenerateContent",
            "/v1beta/models/{model:path}:streamGenerateContent",
        ),
        GoogleJudge(),
        _google,
    ),
)


def build_app(provider: Provider) -> Starlette:
    """The ASGI application over a provider."""

    def door(path: str, judge: Judge, voice: VoiceMaker) -> Route:
        async def enter(request: Request) -> ASGIApp:
            return await provider.answer(request, judge, voice)

        return Route(path, enter, methods=["POST"])

    async def show_log(request: Request) -> Response:
        if request.method == "DELETE":
            provider.log.clear()
        return Response(provider.log.as_json(), media_type="application/json")

    async def show_scenarios(request: Request) -> Response:
        about = {name: scenario.about for name, scenario in provider.scenarios.items()}
        return Response(msgspec.json.encode(about), media_type="application/json")

    async def show_models(request: Request) -> Response:
        models = [{"id": name, "object": "model"} for name in provider.scenarios]
        body = {"object": "list", "data": models}
        return Response(msgspec.json.encode(body), media_type="application/json")

    doors = [door(path, judge, voice) for paths, judge, voice in DOORS for path in paths]
    return Starlette(
        routes=[
            *doors,
            Route("/v1/models", show_models),
            Route("/rehearsal/log", show_log, methods=["GET", "DELETE"]),
            Route("/rehearsal/scenarios", show_scenarios),
        ]
    )
