"""The Secret type hides its value from everything but `reveal`."""

import copy
import pickle

import msgspec
import pytest

from shared.secrets import HIDDEN, Secret

VALUE = "corp-internal-77"


@pytest.mark.parametrize(
    "show", [str, repr, "{}".format, "{0!r}".format, "{0:>20}".format, lambda s: f"{[s]}"]
)
def test_it_shows_nothing(show):
    assert VALUE not in show(Secret(VALUE))
    assert HIDDEN in show(Secret(VALUE))


def test_reveal_gives_the_value():
    assert Secret(VALUE).reveal() == VALUE


@pytest.mark.parametrize("travel", [pickle.dumps, copy.deepcopy, copy.copy])
def test_it_does_not_travel(travel):
    with pytest.raises(TypeError, match="does not travel"):
        travel(Secret(VALUE))


def test_no_encoder_takes_it():
    with pytest.raises(TypeError):
        msgspec.json.encode({"key": Secret(VALUE)})


def test_it_compares_by_value_and_is_no_key():
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE
    assert not Secret("")
    with pytest.raises(TypeError, match="unhashable"):
        {Secret(VALUE): 1}


def test_it_has_no_dict_to_look_into():
    with pytest.raises(TypeError):
        vars(Secret(VALUE))
