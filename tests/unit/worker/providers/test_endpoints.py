"""Endpoints from settings and environment."""

import pytest

from shared.errors import ConfigError
from worker.providers.endpoints import server_endpoint


def test_a_known_provider_has_its_address_and_key():
    endpoint = server_endpoint("openrouter", {}, {"OPENROUTER_API_KEY": "or-1"})
    assert endpoint.base_url == "https://openrouter.ai/api/v1"
    assert endpoint.key is not None
    assert endpoint.key.reveal() == "or-1"


def test_the_operators_address_wins():
    endpoint = server_endpoint("openai", {"openai": "https://proxy.example/v1"}, {})
    assert endpoint.base_url == "https://proxy.example/v1"
    assert endpoint.key is None


def test_a_local_server_needs_no_key():
    assert server_endpoint("ollama", {}, {}).key is None


def test_a_custom_endpoint_without_an_address_says_which_setting_is_missing():
    with pytest.raises(ConfigError, match=r'TURNFLEET_ENDPOINTS=\{"my-box"'):
        server_endpoint("my-box", {}, {})
