"""Texts by key and language, and that English has every key that the program uses."""

import re
from pathlib import Path

import pytest
from babel.messages.pofile import PoFileError

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


@pytest.mark.parametrize("locale", ["en", "en-US", "en_GB", "xx", "zh-CN", ""])
def test_any_locale_gets_a_text(texts, locale):
    assert texts.text("notice.stopped", locale) == "Stopped."


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


def test_no_text_tells_what_upstream_said():
    catalog = (LOCALE_DIR / DEFAULT_LOCALE / "LC_MESSAGES" / "turnfleet.po").read_text("utf-8")
    assert set(re.findall(r"\{(\w*)\}", catalog)) == {"name", "code", "n"}
