"""Discord's JSON, as its developer docs have it.

Comes in: records of the world. Goes out: dictionaries. Snowflakes are strings, times ISO 8601, and
every field is there that a strict client asks for.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from ops.rehearsal.discord.world import FORUM, THREAD, Channel, Guild, Message, User, World

Json = dict[str, object]

_MEMBER: Json = {
    "roles": [],
    "joined_at": "2020-01-01T00:00:00.000000+00:00",
    "deaf": False,
    "mute": False,
    "flags": 0,
    "nick": None,
    "avatar": None,
    "premium_since": None,
    "pending": False,
    "communication_disabled_until": None,
}


def user_json(user: User) -> Json:
    """A user object."""
    return {
        "id": str(user.id),
        "username": user.name,
        "discriminator": "0",
        "global_name": user.name,
        "avatar": None,
        "bot": user.is_bot,
        "system": False,
        "public_flags": 0,
    }


def own_user_json(user: User) -> Json:
    """The bot's own user object."""
    return {
        **user_json(user),
        "mfa_enabled": True,
        "verified": True,
        "email": None,
        "flags": 0,
        "locale": "en-US",
        "banner": None,
        "accent_color": None,
    }


def channel_json(channel: Channel, world: World) -> Json:
    """A channel object."""
    last = channel.last_message_id
    common: Json = {
        "id": str(channel.id),
        "last_message_id": None if last is None else str(last),
        "flags": 0,
    }
    if channel.recipient is not None:
        return {**common, "type": 1, "recipients": [user_json(world.users[channel.recipient])]}
    return {
        **common,
        "type": channel.kind,
        "guild_id": str(channel.guild_id),
        "name": channel.name,
        "position": 0,
        "permission_overwrites": [],
        "nsfw": channel.is_age_restricted,
        "topic": None,
        "rate_limit_per_user": 0,
        "parent_id": None if channel.parent_id is None else str(channel.parent_id),
        **_kind_json(channel),
    }


def _kind_json(channel: Channel) -> Json:
    """What only threads and forums have."""
    if channel.kind == FORUM:
        return {
            "available_tags": [],
            "default_reaction_emoji": None,
            "default_sort_order": None,
            "default_forum_layout": 0,
            "default_thread_rate_limit_per_user": 0,
            "default_auto_archive_duration": 1440,
        }
    if channel.kind != THREAD:
        return {}
    return {
        "owner_id": str(channel.guild_id),
        "message_count": 0,
        "member_count": 1,
        "total_message_sent": 0,
        "applied_tags": [],
        "thread_metadata": {
            "archived": channel.is_archived,
            "auto_archive_duration": 1440,
            "archive_timestamp": "2020-01-01T00:00:00.000000+00:00",
            "locked": channel.is_locked,
            "invitable": True,
            "create_timestamp": "2022-01-10T00:00:00.000000+00:00",
        },
    }


def message_json(message: Message, world: World, *, hide_content: bool = False) -> Json:
    """A message object, with what it answers to.

    Args:
        message: the message.
        world: where its people are.
        hide_content: the bot has no right to the text (no message content intent).
    """
    replied = world.messages[message.channel_id].get(message.reply_to or 0)
    payload: Json = {
        "id": str(message.id),
        "channel_id": str(message.channel_id),
        "author": user_json(world.users[message.author_id]),
        "content": "" if hide_content else message.content,
        "timestamp": _moment(message.created_s),
        "edited_timestamp": None if message.edited_s is None else _moment(message.edited_s),
        "tts": False,
        "mention_everyone": False,
        "mentions": [user_json(world.users[user_id]) for user_id in message.mentions],
        "mention_roles": [],
        "attachments": [
            *message.attachments,
            *(_file_json(message.id, name) for name in message.files),
        ],
        "embeds": [],
        "components": numbered(message.components),
        "pinned": False,
        "type": 0 if message.reply_to is None else 19,
        "flags": 0,
    }
    if message.nonce is not None:
        payload["nonce"] = message.nonce
    if message.shown_name is not None:
        payload["webhook_id"] = str(message.author_id)
        payload["application_id"] = str(world.owners.get(message.author_id, 0))
        author = user_json(world.users[message.author_id])
        payload["author"] = {**author, "username": message.shown_name, "global_name": None}
    if message.reply_to is not None:
        payload["message_reference"] = {
            "type": 0,
            "message_id": str(message.reply_to),
            "channel_id": str(message.channel_id),
        }
        payload["referenced_message"] = replied and message_json(replied, world)
    return payload


def numbered(rows: Sequence[dict[str, object]]) -> list[Json]:
    """Components with the ids that Discord gives to those that have none."""
    found: list[Json] = []
    for row in rows:
        parts = row.get("components")
        below = numbered(parts) if isinstance(parts, list) else None
        number = sum(1 + len(_parts(one)) for one in found) + 1
        found.append({"id": number, **row, **({} if below is None else {"components": below})})
    return found


def _parts(row: Json) -> list[object]:
    parts = row.get("components")
    return list(parts) if isinstance(parts, list) else []


def member_json(guild_id: int, user_id: int, world: World) -> Json:
    """A member object without its user, as `MESSAGE_CREATE` has it."""
    roles = world.roles.get((guild_id, user_id), ())
    return {**_MEMBER, "roles": [str(role) for role in roles]}


def guild_json(guild: Guild, world: World, bot: User) -> Json:
    """A guild as `GUILD_CREATE` sends it."""
    return {
        "id": str(guild.id),
        "name": guild.name,
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "banner": None,
        "description": None,
        "features": [],
        "owner_id": str(bot.id),
        "application_id": None,
        "region": "deprecated",
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 1,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "public_updates_channel_id": None,
        "vanity_url_code": None,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "preferred_locale": "en-US",
        "nsfw_level": 0,
        "premium_progress_bar_enabled": False,
        "safety_alerts_channel_id": None,
        "joined_at": "2020-01-01T00:00:00.000000+00:00",
        "large": False,
        "unavailable": False,
        "member_count": 2,
        "roles": [_everyone_json(guild)],
        "emojis": [],
        "stickers": [],
        "members": [{**_MEMBER, "user": user_json(bot)}],
        "channels": [
            channel_json(channel, world)
            for channel in _open(guild, world)
            if channel.kind != THREAD
        ],
        "threads": [
            channel_json(channel, world)
            for channel in _open(guild, world)
            if channel.kind == THREAD
        ],
        "presences": [],
        "voice_states": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }


def application_json(bot: User) -> Json:
    """The bot's application object."""
    return {
        "id": str(bot.id),
        "name": bot.name,
        "icon": None,
        "description": "",
        "summary": "",
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "00" * 32,
        "flags": 0,
        "team": None,
        "owner": user_json(bot),
    }


def _open(guild: Guild, world: World) -> list[Channel]:
    channels = (world.channels[key] for key in guild.channels)
    return [channel for channel in channels if not channel.is_deleted]


def _everyone_json(guild: Guild) -> Json:
    return {
        "id": str(guild.id),
        "name": "@everyone",
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": 0,
        "permissions": "1071698660929",
        "managed": False,
        "mentionable": False,
        "flags": 0,
    }


def _file_json(message_id: int, name: str) -> Json:
    return {
        "id": str(message_id),
        "filename": name,
        "size": 1,
        "url": f"http://127.0.0.1/{name}",
        "proxy_url": f"http://127.0.0.1/{name}",
        "content_type": "application/octet-stream",
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
