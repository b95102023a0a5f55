"""Endpoints from settings and environment."""

import pytest

from shared.errors import ConfigError
from worker.providers.endpoints import server_endpoint, server_keys


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


def test_the_plural_of_the_variable_holds_a_pool():
    environ = {"OPENAI_API_KEY": "sk-1", "OPENAI_API_KEYS": "sk-2, sk-1 sk-3,"}
    assert [key.reveal() for key in server_keys("openai", environ)] == ["sk-1", "sk-2", "sk-3"]
    endpoint = server_endpoint("openai", {}, {"OPENAI_API_KEYS": "sk-2,sk-3"})
    assert endpoint.key is not None
    assert endpoint.key.reveal() == "sk-2"


def test_a_provider_without_a_variable_has_no_keys():
    assert server_keys("ollama", {"OLLAMA_API_KEYS": "x"}) == []
