"""docs/settings.md is what `Settings` and the source of the processes say."""

import msgspec
import pytest

from shared.config import Settings
from shared.secret_files import SECRET_SETTINGS
from shared.secret_settings import HOLDERS
from tests.support.settings_page import (
    ALIKE,
    EVERYBODY,
    HERE,
    PAGE,
    SAME,
    THROUGH_SHARED,
    in_source,
    page,
    readers,
    reasons_of_settings,
    shown_default,
    variable,
)

FIELDS = {field.name: field for field in msgspec.structs.fields(Settings)}
IN_FILES = {name for name in FIELDS if variable(name) in SECRET_SETTINGS}


def test_the_page_of_settings_is_what_the_source_says():
    fresh = "write it anew: python -m tests.support.settings_page"
    assert PAGE.read_text(encoding="utf-8") == page(), fresh


def test_every_setting_has_its_reason():
    assert set(FIELDS) - set(reasons_of_settings()) == set()


@pytest.mark.parametrize("name", FIELDS)
def test_somebody_reads_the_setting(name: str):
    assert readers(name)


def test_what_a_search_finds_is_not_said_by_hand():
    assert set(THROUGH_SHARED) | set(SAME) | set(ALIKE) | set(HERE) <= set(FIELDS)
    some = {name: set(said) for name, said in THROUGH_SHARED.items() if said is not EVERYBODY}
    assert not {name for name, said in some.items() if said & in_source(name)}


@pytest.mark.parametrize("name", sorted(IN_FILES | set(HOLDERS)))
def test_no_secret_has_a_value_on_the_page(name: str):
    assert shown_default(FIELDS[name]) in {"unset", "`{}`"}


def test_the_page_knows_nothing_of_the_machine_that_made_it():
    assert Settings().data_dir not in page()
