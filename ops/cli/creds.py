"""`turnfleet creds`: sealed credentials, stored so that only workers can read them.

Comes in: keys on stdin, references. Goes out: boxes in the fleet's Redis. Only `rotate` needs the
private keys; `add` needs the public one (`TURNFLEET_SEALING_KEY`), or makes a pair where there is
none.
"""

import asyncio
import getpass
import sys
import time
from typing import Annotated, Final

import msgspec
import typer
from nacl.public import PrivateKey, PublicKey

from ops.cli.exits import NotFound
from ops.cli.output import Output, OutputFormat, print_records, say
from ops.cli.session import Fleet, fleet
from shared.config import Settings
from shared.edges.credentials import (
    CredentialStore,
    StoredCredential,
    load_opening_keys,
    opening_keys_path,
    save_opening_keys,
)
from shared.errors import ConfigError
from shared.sealed import CredentialRef, key_id, public_key_of, seal, unseal
from shared.secrets import Secret
from shared.turns import CredentialSource

LIST_COLUMNS: Final = ("ref", "version", "state", "key_id", "endpoint", "changed_ms")
AUDIT_COLUMNS: Final = ("at_ms", "word", "ref", "version", "key_id", "actor")
MAX_AUDIT: Final = 10_000

app = typer.Typer(help="Sealed credentials of servers and people.", no_args_is_help=True)

Ref = Annotated[str, typer.Argument(help="scope:owner:provider:slot, as `list` shows it.")]


@app.command("add")
def add(
    provider: Annotated[str, typer.Argument(help="A provider's name.")],
    owner: Annotated[int, typer.Option(min=0, help="The guild's id, or the user's.")],
    scope: Annotated[CredentialSource, typer.Option(help="Whose key.")] = CredentialSource.SERVER,
    slot: Annotated[str, typer.Option(help="Tells several keys of one owner apart.")] = "main",
    endpoint: Annotated[str, typer.Option(help="The one address that it may go to.")] = "",
) -> None:
    """Seals a key that is read from stdin, and stores it; an older one is replaced.

    The key is never an argument: arguments stand in the list of processes.
    """
    ref = CredentialRef.parsed(f"{scope}:{owner}:{provider}:{slot}")
    is_terminal = sys.stdin.isatty()
    text = getpass.getpass("key: ") if is_terminal else sys.stdin.readline()
    stored = asyncio.run(_add(ref, Secret(text.strip()), endpoint))
    say(f"Stored {ref}, version {stored.version}, key {stored.key_id}.")


@app.command("list")
def list_(output: Output = OutputFormat.TABLE) -> None:
    """Lists the credentials; no key can be shown."""
    print_records(
        [
            {
                "ref": str(one.ref),
                "version": one.version,
                "state": "revoked" if one.is_revoked else "active",
                "key_id": one.key_id,
                "endpoint": one.endpoint,
                "changed_ms": one.changed_ms,
            }
            for one in asyncio.run(_all())
        ],
        LIST_COLUMNS,
        output,
        empty="No credentials are stored.",
    )


@app.command("revoke")
def revoke(ref: Ref) -> None:
    """Takes a credential back: its box is erased, and turns that name it fail from now on."""
    asyncio.run(_revoke(CredentialRef.parsed(ref)))
    say(f"Revoked {ref}.")


@app.command("lend")
def lend(
    ref: Ref,
    guild: Annotated[int, typer.Option(min=1, help="The guild that may use it.")],
    back: Annotated[bool, typer.Option("--back", help="Ends it.")] = False,
) -> None:
    """Lets a guild use a supporter's credential where it has none of its own."""
    asyncio.run(_lend(CredentialRef.parsed(ref), guild, is_lent=not back))
    say(f"{'No longer lent' if back else 'Lent'}: {ref} to guild {guild}.")


@app.command("rotate")
def rotate(
    dry_run: Annotated[bool, typer.Option(help="Only say what would be done.")] = False,
) -> None:
    """Makes a new pair of sealing and opening key, and seals every credential anew.

    Workers read the file of opening keys again by themselves; on other machines it must lie first.
    """
    count, public = asyncio.run(_rotate(dry_run=dry_run))
    if dry_run:
        say(f"{count} credentials would be sealed anew.")
        return
    say(f"Sealed {count} credentials anew. The sealing key is now {bytes(public).hex()}")


@app.command("audit")
def audit(
    count: Annotated[int, typer.Option(min=1, max=MAX_AUDIT, help="How many changes.")] = 100,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Shows who changed which credential, the newest first."""
    rows = [msgspec.structs.asdict(change) for change in asyncio.run(_audit(count))]
    print_records(rows, AUDIT_COLUMNS, output, empty="Nothing was changed yet.")


async def _add(ref: CredentialRef, key: Secret, endpoint: str) -> StoredCredential:
    async with fleet() as running:
        store = _store(running)
        before = await store.get(ref)
        version = 1 if before is None else before.version + 1
        public = _sealing_key(running.settings)
        new = StoredCredential(
            ref=ref,
            version=version,
            changed_ms=_now_ms(),
            key_id=key_id(key),
            endpoint=endpoint,
            box=seal(public, ref, version, key, endpoint=endpoint),
        )
        word = "added" if before is None or before.is_revoked else "replaced"
        await store.put(new, word=word, actor=_actor())
        return new


async def _all() -> list[StoredCredential]:
    async with fleet() as running:
        return await _store(running).all()


async def _audit(count: int) -> list[msgspec.Struct]:
    async with fleet() as running:
        return list(await _store(running).audit(count))


async def _revoke(ref: CredentialRef) -> None:
    async with fleet() as running:
        store = _store(running)
        if await store.get(ref) is None:
            raise NotFound(f"no credential {ref}; see: turnfleet creds list")
        await store.revoke(ref, actor=_actor(), now_ms=_now_ms())


async def _lend(ref: CredentialRef, guild_id: int, *, is_lent: bool) -> None:
    async with fleet() as running:
        await _store(running).lend(ref, guild_id, is_lent=is_lent)


async def _rotate(*, dry_run: bool) -> tuple[int, PublicKey]:
    async with fleet() as running:
        store = _store(running)
        path = opening_keys_path(running.settings)
        keys = load_opening_keys(path)
        active = [one for one in await store.all() if not one.is_revoked]
        opened = [(one, unseal(keys, one.box, one.ref, one.version)) for one in active]
        pair = PrivateKey.generate()
        if dry_run:
            return len(active), pair.public_key
        # The file first: no box may exist that nothing opens. Old keys stay for boxes under way.
        save_opening_keys(path, [pair, *keys])
        for one, inside in opened:
            version = one.version + 1
            box = seal(pair.public_key, one.ref, version, inside.key, endpoint=inside.endpoint)
            new = msgspec.structs.replace(one, version=version, changed_ms=_now_ms(), box=box)
            await store.put(new, word="resealed", actor=_actor())
        return len(active), pair.public_key


def _sealing_key(settings: Settings) -> PublicKey:
    """The public key: the setting's, or that of the newest opening key, which may be made now."""
    if settings.sealing_key is not None:
        return public_key_of(settings.sealing_key)
    path = opening_keys_path(settings)
    keys = load_opening_keys(path)
    if not keys:
        if settings.redis_url is not None and settings.opening_keys_file is None:
            raise ConfigError(
                "TURNFLEET_SEALING_KEY is not set, and there is no file of opening keys: make one "
                "with `turnfleet creds rotate`, give it to the workers, set the key that it prints"
            )
        keys = [PrivateKey.generate()]
        save_opening_keys(path, keys)
    return keys[0].public_key


def _store(running: Fleet) -> CredentialStore:
    return CredentialStore(running.redis, running.keys)


def _actor() -> str:
    return f"cli:{getpass.getuser()}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
