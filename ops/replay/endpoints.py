"""Where the configured provider is reached, as the worker will see it.

Comes in: settings and environment. Goes out: facts for `turnfleet doctor`; no key.
"""

from collections.abc import Mapping

import msgspec

from shared.config import Settings
from worker.providers.endpoints import server_endpoint
from worker.providers.quirks import resolve


class ProviderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker would reach its provider. `key_env` is the variable that holds the key."""

    base_url: str
    key_env: str | None
    has_key: bool


def provider_facts(settings: Settings, environ: Mapping[str, str]) -> ProviderFacts:
    """The endpoint and whether there is a key for it.

    Raises:
        ConfigError: the provider is unknown, or nobody said where it listens.
    """
    row = resolve(settings.provider)
    endpoint = server_endpoint(settings.provider, settings.endpoints, environ)
    return ProviderFacts(
        base_url=endpoint.base_url,
        key_env=row.key_env,
        has_key=endpoint.key is not None or row.default_key is not None,
    )
