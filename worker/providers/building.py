"""The one way from a question to an HTTP request, whatever the target speaks.

Comes in: a `ModelRequest` and an `Endpoint`. Goes out: an `HttpRequest`. Pure; turn, edges and
replay import it.
"""

from collections.abc import Callable, Mapping

from shared.turns import Api
from worker.providers.openai_chat_request import openai_chat_request
from worker.providers.quirks import PROVIDERS, ProviderRow, resolve
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest

Builder = Callable[[ModelRequest, Endpoint, ProviderRow], HttpRequest]

BUILDERS: dict[Api, Builder] = {
    Api.OPENAI_CHAT: openai_chat_request,
}


def api_of(request_api: Api, row: ProviderRow) -> Api:
    """The format of a target: its own choice, else its provider's."""
    return row.api if request_api is Api.AUTO else request_api


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
    return BUILDERS[api](request, endpoint, row)
