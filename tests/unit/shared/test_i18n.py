"""Texts by key and language, and that English has every key that the program uses."""

import re
from pathlib import Path

import pytest
from babel.messages.pofile import PoFileError, read_po

from shared.causes import CAUSES, Tip, notice_of
from shared.failures import Fault
from shared.i18n import DEFAULT_LOCALE, LOCALE_DIR, load_texts
from shared.turns import CredentialSource

KEYS = [
    *(f"failure.{cause}" for cause in CAUSES),
    *(f"tip.{tip}" for tip in Tip),
    *(f"fault.{fault}" for fault in Fault),
]


@pytest.fixture(scope="module")
def texts():
    return load_texts()


@pytest.mark.parametrize("key", KEYS)
def test_english_has_a_sentence_for_every_key(texts, key):
    text = texts.text(key)
    assert text != key
    assert text.endswith(".")
    assert len(text) <= 150  # a headline of an embed


@pytest.mark.parametrize("source", CredentialSource)
@pytest.mark.parametrize("cause", CAUSES)
def test_every_notice_can_be_said(texts, cause, source):
    notice = notice_of(cause, source)
    assert all(texts.text(key) != key for key in (notice.headline, *notice.tips, notice.footer))


def test_values_are_put_in_and_not_read_as_a_form(texts):
    assert texts.text("notice.code", "en", code="{x}") == "Code: {x}"


@pytest.mark.parametrize(
    ("n", "text"), [(1, "1 question is before"), (2, "2 questions are before")]
)
def test_a_text_depends_on_its_number(texts, n, text):
    assert texts.count("notice.queued", n, "en-US").startswith(text)


@pytest.mark.parametrize(
    ("locale", "text"),
    [("en", "Stopped."), ("en-US", "Stopped."), ("en_GB", "Stopped."), ("xx", "Stopped."),
     ("", "Stopped."), ("zh-TW", "Stopped."), ("zh-CN", "已停止。"), ("ja", "停止しました。")],
)  # fmt: skip
def test_any_locale_gets_a_text(texts, locale, text):
    assert texts.text("notice.stopped", locale) == text


def test_a_key_that_no_catalog_has_comes_back(texts):
    assert texts.text("no.such.key", "en") == "no.such.key"


def write(folder: Path, locale: str, body: str) -> None:
    path = folder / locale / "LC_MESSAGES" / "turnfleet.po"
    path.parent.mkdir(parents=True)
    path.write_text(body, encoding="utf-8")


def test_a_language_that_lacks_a_text_says_it_in_english(tmp_path):
    write(tmp_path, "en", 'msgid "a"\nmsgstr "one"\n\nmsgid "b"\nmsgstr "two"\n')
    write(tmp_path, "pt_BR", 'msgid "a"\nmsgstr "um"\n\n#, fuzzy\nmsgid "b"\nmsgstr "dois"\n')
    texts = load_texts(tmp_path)
    assert texts.locales == {"en", "pt_BR"}
    assert (texts.text("a", "pt-BR"), texts.text("b", "pt-BR")) == ("um", "two")


def test_a_broken_catalog_stops_the_start(tmp_path):
    write(tmp_path, DEFAULT_LOCALE, "nonsense")
    with pytest.raises(PoFileError):
        load_texts(tmp_path)


def test_a_missing_english_catalog_stops_the_start(tmp_path):
    with pytest.raises(KeyError):
        load_texts(tmp_path)


VALUES = {"name", "names", "code", "n", "provider", "key_id", "span", "used", "share", "tokens",
          "cause", "subject", "guilds", "count", "usual"}  # fmt: skip
"""What may stand in a text: ids, numbers, words of our own, names that somebody here typed."""


def test_no_text_tells_what_upstream_said():
    catalog = (LOCALE_DIR / DEFAULT_LOCALE / "LC_MESSAGES" / "turnfleet.po").read_text("utf-8")
    assert set(re.findall(r"\{(\w*)\}", catalog)) <= VALUES


def catalog(locale: str) -> dict[str, tuple[str, ...]]:
    """The texts of a language by key."""
    with (LOCALE_DIR / locale / "LC_MESSAGES" / "turnfleet.po").open("rb") as file:
        found = [message for message in read_po(file, locale=locale) if message.id]
    return {
        message.id if isinstance(message.id, str) else message.id[0]: (
            (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
        )
        for message in found
    }


WHOLE = ["ja", "zh_CN"]


@pytest.mark.parametrize("locale", WHOLE)
def test_a_language_that_is_whole_has_every_text(locale):
    english, translated = catalog(DEFAULT_LOCALE), catalog(locale)
    assert translated.keys() == english.keys()
    assert all(all(texts) for texts in translated.values())


@pytest.mark.parametrize("locale", WHOLE)
def test_a_translation_keeps_values_and_markup(locale):
    english = catalog(DEFAULT_LOCALE)
    for key, texts in catalog(locale).items():
        wanted = set(re.findall(r"\{\w+\}", english[key][-1]))
        code = re.findall(r"`[^`]*`", english[key][-1])
        for text in texts:
            assert set(re.findall(r"\{\w+\}", text)) == wanted, key
            assert sorted(re.findall(r"`[^`]*`", text)) == sorted(code), key
            assert text.startswith("-# ") == english[key][-1].startswith("-# "), key


@pytest.mark.parametrize("locale", [DEFAULT_LOCALE, *WHOLE])
def test_windows_and_buttons_are_as_short_as_discord_wants_them(locale):
    """45 characters for titles and labels of windows, 80 for buttons (developer docs)."""
    windows = {"form.about", "form.question", "form.error", "form.key_me", "form.key_server",
               "form.key", "form.endpoint"}  # fmt: skip
    for key, (text, *_) in catalog(locale).items():
        if key in windows:
            assert len(text) <= 45, key
        if key.startswith("button."):
            assert len(text) <= 80, key
        if key.startswith(("ask.", "notice.", "form.")):
            assert len(text) <= 200, key
