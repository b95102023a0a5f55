"""The one way from a question to an HTTP request, whatever the target speaks.

Comes in: a `ModelRequest` and an `Endpoint`. Goes out: an `HttpRequest`. Pure; turn, edges and
replay import it. A new format is one builder and one row here.
"""

from collections.abc import Callable, Mapping

import msgspec

from shared.redaction import clean
from shared.turns import Api
from worker.normalize.history import RULES, TargetRules, sanitize_messages_for_target
from worker.providers.anthropic_request import anthropic_request
from worker.providers.bodies import refuses_images
from worker.providers.google_request import google_request
from worker.providers.openai_chat_request import openai_chat_request
from worker.providers.openai_responses_request import openai_responses_request
from worker.providers.quirks import PROVIDERS, ProviderRow, resolve
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest

Builder = Callable[[ModelRequest, Endpoint, ProviderRow], HttpRequest]

BUILDERS: Mapping[Api, Builder] = {
    Api.ANTHROPIC: anthropic_request,
    Api.OPENAI_CHAT: openai_chat_request,
    Api.OPENAI_RESPONSES: openai_responses_request,
    Api.GOOGLE: google_request,
}


def api_of(requested: Api, row: ProviderRow) -> Api:
    """The format of a target: its own choice, else its provider's."""
    return row.api if requested is Api.AUTO else requested


def _reads_images(request: ModelRequest, row: ProviderRow) -> bool:
    was_refused = refuses_images(request.without)
    return request.reads_images and row.quirks.reads_images and not was_refused


def build_request(
    request: ModelRequest,
    endpoint: Endpoint,
    table: Mapping[str, ProviderRow] = PROVIDERS,
) -> HttpRequest:
    """Fits the history to the target and builds the request.

    `table` holds the providers; a test or a deployment may add rows.
    """
    row = resolve(request.target.provider, table)
    api = api_of(request.target.api, row)
    fitted = msgspec.structs.replace(
        request,
        messages=sanitize_messages_for_target(
            request.messages,
            request.target.provider,
            request.target.model,
            foreign_thinking=request.foreign_thinking,
            vision=_reads_images(request, row),
            rules=RULES.get(row.id_rule or api.value, TargetRules()),
        ),
        system=request.system and clean(request.system),
    )
    return BUILDERS[api](fitted, endpoint, row)
