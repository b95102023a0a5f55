"""Which channel a thread belongs to, as Discord's interactions say it."""

from datetime import UTC, datetime, timedelta

import hikari
import pytest

from gateway.edges.discord_interactions import parent_of

THREAD = hikari.ThreadMetadata(
    is_archived=False,
    auto_archive_duration=timedelta(days=1),
    archive_timestamp=datetime.now(UTC),
    is_locked=False,
    is_invitable=False,
    created_at=None,
)


@pytest.mark.parametrize(
    ("parent", "metadata", "expected"),
    [
        pytest.param(5, THREAD, 5, id="a thread"),
        pytest.param(5, None, None, id="a channel in a category"),
        pytest.param(None, None, None, id="a direct message"),
    ],
)
def test_only_a_thread_has_a_parent(
    parent: int | None, metadata: hikari.ThreadMetadata | None, expected: int | None
):
    channel = hikari.InteractionChannel(
        app=hikari.RESTApp(),  # type: ignore[arg-type]  # it is asked for nothing
        id=hikari.Snowflake(7),
        name="general",
        type=hikari.ChannelType.GUILD_TEXT,
        permissions=hikari.Permissions.NONE,
        parent_id=None if parent is None else hikari.Snowflake(parent),
        thread_metadata=metadata,
    )
    assert parent_of(channel) == expected
