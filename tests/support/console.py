"""The console as a process, and a real browser that looks at it.

Comes in: a running house. Goes out: the console's address; pages of the system's Chromium. Pictures
of pages lie in `artefacts/browser`, for people.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.support.house import ROOT, House, Process
from tests.support.servers import free_port

LIMIT_S = 60.0
LIMIT_MS = LIMIT_S * 1000
PICTURES = ROOT / "artefacts" / "browser"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@asynccontextmanager
async def console(home: House, url: str, *words: str, **more: str) -> AsyncIterator[str]:
    """A console process with these words and variables; gives its address."""
    port = free_port()
    environ = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    environ |= {"TURNFLEET_REDIS_URL": url, "TURNFLEET_DATA_DIR": str(home.home)} | more
    command = ["ops", "console", *words, "--port", str(port)]
    process = Process(f"console-{port}", command, environ, home.home)
    process.start()
    try:
        base = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=base) as client, asyncio.timeout(LIMIT_S):
            while True:
                try:
                    await client.get("/healthz")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.1)
        yield base
        assert process.stop() == 0
    finally:
        process.kill()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The system's Chromium; playwright brings only the words to drive it."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    async with async_playwright() as drive:
        browser = await drive.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            await browser.close()


async def picture(page: Page, name: str) -> Path:
    """The whole page as it looks now."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.png"
    await page.screenshot(path=path, full_page=True)
    return path
