"""What the worker's composition knows of its environment."""

from worker.app import provider_keys
from worker.providers.quirks import CUSTOM, PROVIDERS


def test_every_variable_of_a_key_is_known_to_the_logs_and_reports():
    rows = (*PROVIDERS.values(), CUSTOM)
    names = {row.key_env for row in rows if row.key_env is not None}
    environ = {name: f"key of {name}" for name in names}
    assert {key.reveal() for key in provider_keys(environ)} == set(environ.values())


def test_so_is_every_key_of_a_pool():
    keys = provider_keys({"CUSTOM_API_KEYS": "one-key,another-key", "CUSTOM_API_KEY": "third-key"})
    assert {key.reveal() for key in keys} == {"one-key", "another-key", "third-key"}
