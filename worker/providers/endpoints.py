"""Where a provider is reached, and with which key, from settings and environment as mappings.

Comes in: a provider's name, the operator's base URLs, the process's environment. Goes out: an
`Endpoint`. Pure; the worker's composition and replay import it.
"""

import re
from collections.abc import Mapping

from shared.errors import ConfigError
from shared.secrets import Secret
from worker.providers.quirks import PROVIDERS, ProviderRow, resolve
from worker.providers.requests import Endpoint


def server_endpoint(
    provider: str,
    endpoints: Mapping[str, str],
    environ: Mapping[str, str],
    table: Mapping[str, ProviderRow] = PROVIDERS,
) -> Endpoint:
    """The endpoint of a provider with the deployment's own key.

    A key is optional here: some endpoints need none, and a turn may bring its own.

    Raises:
        ConfigError: nobody said where the provider listens.
    """
    row = resolve(provider, table)
    base_url = endpoints.get(provider) or row.base_url
    if base_url is None:
        raise ConfigError(
            f"where does the provider {provider!r} listen? Set "
            f'TURNFLEET_ENDPOINTS={{"{provider}": "https://..."}}'
        )
    key = next(iter(server_keys(provider, environ, table)), None)
    return Endpoint(base_url=base_url, key=key)


def server_keys(
    provider: str,
    environ: Mapping[str, str],
    table: Mapping[str, ProviderRow] = PROVIDERS,
) -> list[Secret]:
    """The deployment's keys of a provider, each once.

    The row's variable holds one (`OPENAI_API_KEY`), its plural a pool (`OPENAI_API_KEYS`), with
    commas or spaces between.
    """
    name = resolve(provider, table).key_env
    if name is None:
        return []
    texts = [environ.get(name, ""), *re.split(r"[,\s]+", environ.get(f"{name}S", ""))]
    return [Secret(text) for text in dict.fromkeys(texts) if text]
