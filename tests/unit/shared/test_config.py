import msgspec
import pytest

from shared.config import NOT_SETTINGS, Settings, data_dir, load_settings, settings_from
from shared.errors import ConfigError


def test_without_variables_every_setting_has_its_default():
    assert load_settings({"PATH": "/bin", "HOME": "/root"}) == Settings()


def test_an_empty_variable_sets_nothing():
    fields = (field.name for field in msgspec.structs.fields(Settings))
    assert load_settings({f"TURNFLEET_{field.upper()}": "" for field in fields}) == Settings()


def test_settings_are_read_by_their_type():
    settings = load_settings(
        {
            "TURNFLEET_SLOTS": "7",
            "TURNFLEET_DRAIN_S": "2.5",
            "TURNFLEET_ALLOW_UNSAFE_REDIS": "true",
            "TURNFLEET_ENDPOINTS": '{"openai": "https://host/v1"}',
            "TURNFLEET_LOG_MAX_STRING_CHARS": "100",
        }
    )
    assert settings.slots == 7
    assert settings.drain_s == 2.5
    assert settings.allow_unsafe_redis is True
    assert settings.endpoints == {"openai": "https://host/v1"}
    assert settings.log_max_string_chars == 100


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"TURNFLEET_SLOT": "7"}, "TURNFLEET_SLOT: did you mean TURNFLEET_SLOTS?"),
        ({"TURNFLEET_XYZZY": "7"}, "TURNFLEET_XYZZY: remove it"),
        ({"TURNFLEET_SLOTS": "many"}, "TURNFLEET_SLOTS"),
        ({"TURNFLEET_ENDPOINTS": "http://host"}, "TURNFLEET_ENDPOINTS is no JSON object"),
        ({"TURNFLEET_ENDPOINTS": "[1]"}, "TURNFLEET_ENDPOINTS"),
        ({"TURNFLEET_ALLOW_UNSAFE_REDIS": "perhaps"}, "TURNFLEET_ALLOW_UNSAFE_REDIS"),
        ({"TURNFLEET_GUILD_WEIGHTS": '{"1": 0}'}, "TURNFLEET_GUILD_WEIGHTS"),
        ({"TURNFLEET_LANE": "server"}, "TURNFLEET_LANE"),
    ],
    ids=["near", "unknown", "number", "no json", "no object", "no boolean", "weight", "lane"],
)
def test_a_wrong_setting_is_named(environ, message):
    with pytest.raises(ConfigError) as caught:
        load_settings(environ)
    assert message in str(caught.value)


@pytest.mark.parametrize("shards", [4, 0, "4", "auto"])
def test_a_number_of_shards_may_be_written_as_a_number(shards):
    """In the file it was one before `auto` came."""
    assert settings_from({"discord_shards": shards}).discord_shards == shards


@pytest.mark.parametrize("prefix", NOT_SETTINGS)
def test_variables_of_tests_are_no_settings(prefix):
    assert load_settings({f"{prefix}X": "1"}) == Settings()


def test_the_data_directory_is_made_for_its_owner_only(tmp_path):
    settings = msgspec.structs.replace(Settings(), data_dir=str(tmp_path / "a" / "b"))
    path = data_dir(settings)
    assert path.is_dir()
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_data_directory_that_cannot_be_made_says_what_to_do(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("x")
    settings = msgspec.structs.replace(Settings(), data_dir=str(blocker / "dir"))
    with pytest.raises(ConfigError, match=r"TURNFLEET_DATA_DIR=.*name a directory"):
        data_dir(settings)
