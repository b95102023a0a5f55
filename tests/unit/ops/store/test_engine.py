"""URLs of the operators' database: what is taken, and what the refusals say."""

from pathlib import Path

import pytest

from ops.store.engine import database_url, shown
from shared.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "driver", "name"),
    [
        (None, "sqlite+aiosqlite", "sqlite:////data/turnfleet.db"),
        ("sqlite:////srv/x.db", "sqlite+aiosqlite", "sqlite:////srv/x.db"),
        ("sqlite+aiosqlite:////srv/x.db", "sqlite+aiosqlite", "sqlite:////srv/x.db"),
        ("postgresql://u:secret@h/d", "postgresql+asyncpg", "postgresql://u:***@h/d"),
        ("postgres://u:secret@h/d", "postgresql+asyncpg", "postgresql://u:***@h/d"),
    ],
)
def test_urls_get_their_driver_and_hide_their_password(given: str | None, driver: str, name: str):
    url = database_url(given, Path("/data"))
    assert url.drivername == driver
    assert shown(url) == name


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("", id="empty"),
        pytest.param("no url secret", id="no_url"),
        pytest.param("mysql://u:secret@h/d", id="another_database"),
        pytest.param("sqlite://", id="no_file"),
        pytest.param("sqlite:///:memory:", id="memory"),
        pytest.param("postgresql://u:secret@h:port/d", id="no_port"),
    ],
)
def test_a_wrong_url_says_what_to_write_and_shows_no_password(given: str):
    with pytest.raises(ConfigError) as caught:
        database_url(given, Path("/data"))
    assert "write sqlite:" in str(caught.value)
    assert "secret" not in str(caught.value)
