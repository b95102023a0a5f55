"""The console in a real browser, over real processes: clicked, typed into, and looked at.

Pictures of every page, light, dark and as wide as a phone, lie in `artefacts/browser`.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from shared.turns import TurnState
from tests.browser.conftest import EVIL, GUILDS, Stage
from tests.support.console import LIMIT_MS, LIMIT_S, console, picture
from tests.support.servers import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="package")]

PHONE = 390
LOOKS = {"light": ("light", 1180), "dark": ("dark", 1180), "phone": ("light", PHONE)}
PAGES = {
    "now": "/",
    "causes": "/causes?all=1",
    "errors": "/errors",
    "turns": "/turns",
    "workers": "/workers",
    "channels": "/channels",
    "channel": "/channels/100",
}
expect.set_options(timeout=LIMIT_MS / 2)


async def press(page: Page, key: str) -> None:
    """A key, when the page's script is there to hear it."""
    await page.wait_for_load_state()
    await page.keyboard.press(key)


async def addresses(page: Page) -> dict[str, str]:
    """Every page, with a cause, an error and a turn as links lead there."""
    found = dict(PAGES)
    for name, start, path in (
        ("cause", "/causes", "/causes/"),
        ("error", "/errors", "/errors/"),
        ("turn", "/turns?cause=invalid_key", "/turns/"),
    ):
        await page.goto(start)
        link = page.locator(f'tbody a[href^="{path}"]').first
        found[name] = await link.get_attribute("href") or ""
    return found


@pytest.mark.parametrize("look", LOOKS)
async def test_every_page_is_whole_in_every_look(stage: Stage, look: str):
    scheme, width = LOOKS[look]
    async with stage.visit(scheme=scheme, width=width) as page:
        for name, path in (await addresses(page)).items():
            await page.goto(path)
            await expect(page.locator("h1")).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert "obeyed" not in await page.title()
            assert "\u202e" not in await page.content()
            path_of_picture = await picture(page, f"{name}-{look}")
            assert path_of_picture.stat().st_size > 5_000
            ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == ("rgb(21, 24, 27)" if scheme == "dark" else "rgb(251, 251, 250)")


async def test_a_turn_is_sent_and_watched_by_keys_alone(stage: Stage):
    async with stage.visit() as page:
        await page.goto("/channels")
        await page.get_by_role("link", name="Open a new channel").press("Enter")
        await expect(page.get_by_role("textbox", name="Say")).to_be_focused()
        await page.keyboard.type("hello *there*")
        await page.keyboard.press("Enter")
        await expect(page.locator(".talk")).to_contain_text("nothing leaves this machine")
        await expect(page.locator("article.person em")).to_have_text("there")
        await expect(page.get_by_role("textbox", name="Say")).to_have_value("")
        await picture(page, "talk")
        await page.keyboard.press("Tab")
        await page.locator("article.person a").click()
        await expect(page.locator("h1")).to_contain_text("done")
        await expect(page.locator("svg.timeline")).to_be_visible()


async def test_from_the_first_page_to_the_repair_in_three_clicks(stage: Stage):
    async with stage.visit() as page:
        await page.goto("/")
        await page.get_by_role("link", name="invalid_key").first.click()
        await expect(page.locator(".lead")).to_have_text(
            "The provider does not accept the API key."
        )
        for guild in GUILDS:
            await expect(page.get_by_role("link", name=f"guild {guild}")).to_be_visible()
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        command = page.locator(".steps code").last
        await command.click()
        copied = await page.evaluate("navigator.clipboard.readText()")
        name = page.url.rpartition("/")[2][:12]
        assert copied == f"turnfleet turns replay --cause {name} --dry-run"
        await page.get_by_role("link", name=f"guild {GUILDS[0]}").click()
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_failed_turn_is_found_resolved_and_replayed(stage: Stage):
    async with stage.visit() as page:
        await page.goto("/")
        await press(page, "/")
        await page.keyboard.type("unknown_model")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(r"/errors\?.*text=unknown_model"))
        await press(page, "j")
        await expect(page.locator("tbody tr").first).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_contain_text("model_not_found")
        await page.locator("dd a[href^='/turns/']").first.click()
        turn_id = (await page.locator("h1").inner_text()).split()[0]
        await page.get_by_label("another model").fill("plain")
        await page.get_by_role("button", name="Replay").dblclick()
        await expect(page).to_have_url(re.compile(re.escape(f"/turns/{turn_id}.2")))
        async with asyncio.timeout(LIMIT_S):
            while await stage.home.records.state(f"{turn_id}.2") is not TurnState.DONE:
                await asyncio.sleep(0.1)
        await page.reload()
        await expect(page.locator("h1")).to_contain_text("done")
        assert await stage.home.records.state(f"{turn_id}.3") is None
        await page.locator("dd a", has_text=turn_id).first.click()
        await expect(page.get_by_text("Not now: already replayed.")).to_be_visible()


async def test_a_cause_is_resolved_and_its_turns_replayed_once(stage: Stage):
    async with stage.visit() as page:
        await page.goto("/causes")
        await page.get_by_role("table").get_by_role("link", name="invalid_key").click()
        await page.get_by_label("note").fill("new key")
        await page.get_by_role("button", name="Resolve").click()
        await expect(page.locator("h1")).to_contain_text("resolved")
        await expect(page.get_by_text("new key")).to_be_visible()
        await expect(page.locator(".tiles li", has_text="can be replayed")).to_contain_text("3")
        for count, before in ((3, ""), (0, "Before: 3.")):
            await page.get_by_label("another model").fill("plain")
            await page.get_by_role("button", name="Replay").click()
            await expect(page.locator(".lead")).to_contain_text(f"Run again now: {count}.")
            await expect(page.locator(".lead")).to_contain_text(before)
            await picture(page, f"replayed-{count}")
            await page.get_by_role("link", name="Back to the cause").click()
        async with asyncio.timeout(LIMIT_S):
            while len(await stage.home.channel.messages(100)) < 3:
                await asyncio.sleep(0.1)
        assert (await stage.home.channel.messages(100))[0].text == EVIL


async def test_a_filter_stands_in_the_address_and_can_be_cleared(stage: Stage):
    async with stage.visit() as page:
        await page.goto("/turns")
        await press(page, "f")
        await page.get_by_label("cause").fill("context_overflow")
        await page.get_by_label("cause").press("Enter")
        await expect(page).to_have_url(re.compile("cause=context_overflow"))
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.get_by_role("link", name="clear").click()
        await expect(page.locator("tbody tr").nth(3)).to_be_visible()
        for key, title in (("1", "Now"), ("2", "Causes"), ("5", "Workers")):
            await press(page, key)
            await expect(page.locator("h1")).to_have_text(title)


async def test_the_first_page_shows_what_happens_without_a_reload(stage: Stage):
    async with stage.visit() as page:
        await page.goto("/")
        await press(page, "j")
        turn_id = await stage.say("context_overflow", channel=120)
        await expect(page.get_by_role("link", name=turn_id)).to_be_visible()
        await expect(page.locator("tbody tr").first).to_be_focused()  # in the new table, too


async def test_what_is_paused_is_said_with_the_command_that_ends_it(stage: Stage):
    await stage.home.queue.pause("provider:other", 600)
    try:
        async with stage.visit() as page:
            await page.goto("/")
            alarm = page.locator(".alarms li", has_text="provider:other is paused for 9 min")
            await expect(alarm).to_contain_text("turnfleet fleet resume provider:other")
            await picture(page, "now-paused")
    finally:
        await stage.home.queue.resume("provider:other")


async def test_code_a_table_and_a_list_look_about_as_on_discord(stage: Stage):
    await stage.say("long", channel=140, guild=GUILDS[2])
    async with stage.visit() as page:
        await page.goto("/channels/140")
        await expect(page.locator("article.bot pre").first).to_be_visible()
        await expect(page.locator(".talk")).to_contain_text("\u2022 A missing file")
        await picture(page, "talk-long")


async def test_without_scripts_everything_is_there(stage: Stage):
    context = await stage.browser.new_context(base_url=stage.base, java_script_enabled=False)
    page = await context.new_page()
    await page.goto("/channels/130")
    await page.locator("textarea").fill("hello")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("article.person")).to_contain_text("hello")
    await context.close()


async def test_a_console_with_a_token_asks_for_it(stage: Stage, server: RedisServer):
    token = "a-long-token-for-tests"
    async with console(stage.home, server.url, TURNFLEET_CONSOLE_TOKEN=token) as base:
        context = await stage.browser.new_context(base_url=base)
        page = await context.new_page()
        await page.goto("/causes")
        await picture(page, "login")
        for given, title in (("wrong", "Log in"), (token, "Now")):
            await page.get_by_label("token").fill(given)
            await page.keyboard.press("Enter")
            await expect(page.locator("h1")).to_have_text(title)
        await expect(page.get_by_text("read only")).to_be_visible()
        await context.close()


@pytest.mark.parametrize(
    ("host", "token", "says"),
    [
        ("0.0.0.0", None, "TURNFLEET_CONSOLE_TOKEN"),
        ("127.0.0.1", "short", "fewer than"),
        ("192.0.2.1", "long-enough-for-a-token", "cannot listen"),
    ],
)
async def test_a_console_that_would_be_open_does_not_start(
    server: RedisServer, tmp_path: Path, host: str, token: str | None, says: str
):
    environ = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    environ |= {"TURNFLEET_REDIS_URL": server.url, "TURNFLEET_DATA_DIR": str(tmp_path)}
    if token is not None:
        environ["TURNFLEET_CONSOLE_TOKEN"] = token
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ops", "console", "--host", host, "--port", "0"),
        env=environ,
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(LIMIT_S):
        _, err = await process.communicate()
    assert (process.returncode, says in err.decode()) == (2, True), err.decode()
    assert token is None or token not in err.decode()
