"""Scenarios and faults as data, and how a request chooses."""

from pathlib import Path

import pytest

from ops.rehearsal.faults import Faults
from ops.rehearsal.scenarios import Cut, Fail, Say, Scenario, beats_of, choose, load_scenarios
from ops.rehearsal.values import Ask
from shared.errors import ConfigError

SCENARIOS = load_scenarios()
PROMISED = {
    "plain",
    "long",
    "slow",
    "cut",
    "cut_clean",
    "stream_error",
    "rate_limit",
    "invalid_key",
    "unknown_model",
    "refusal",
    "reasoning",
    "tool",
    "silent",
}
VENDORS = ("openai", "anthropic", "google")


def test_the_promised_scenarios_are_there():
    assert SCENARIOS.keys() >= PROMISED


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_whole(name: str):
    scenario = SCENARIOS[name]
    assert scenario.about.endswith(".")
    assert bool(scenario.beats) or scenario.fault is not None
    faults = [beat.fault for beat in scenario.beats if isinstance(beat, Fail)]
    for fault in [*faults, *([scenario.fault] if scenario.fault else [])]:
        assert all(Faults().worded(fault, vendor) for vendor in VENDORS)
    # A break ends the playing, so nothing may stand behind it.
    assert not any(isinstance(beat, Cut | Fail) for beat in scenario.beats[:-1])


@pytest.mark.parametrize("name", Faults().names())
@pytest.mark.parametrize("vendor", VENDORS)
def test_every_vendor_words_every_fault(name: str, vendor: str):
    fault = Faults().worded(name, vendor, model="plain", key="sk-1")
    assert fault.message
    assert "{" not in fault.message


def test_a_fault_that_nobody_words_is_a_mistake_of_the_scenario():
    with pytest.raises(ConfigError, match="no fault 'nothing' for openai"):
        Faults().worded("nothing", "openai")


@pytest.mark.parametrize(
    ("model", "prompt", "name", "rate"),
    [
        ("plain", "hi", "plain", 120),
        ("vendor/plain", "hi", "plain", 120),
        ("plain@40", "hi", "plain", 40),
        ("plain@0.5", "hi", "plain", 0.5),
        ("plain", "slow: tell me", "slow", 8),
        ("plain", "slow@99: tell me", "slow", 99),
        ("plain", "Ann: slow: tell me", "slow", 8),
        ("plain", "note: tell me", "plain", 120),
        ("plain", "that was slow: really", "plain", 120),
        ("plain", "slow:tell me", "plain", 120),
    ],
)
def test_model_and_prompt_choose(model: str, prompt: str, name: str, rate: float):
    choice = choose(SCENARIOS, Ask(model=model, prompt=prompt))
    assert choice is not None
    assert (choice.name, choice.tokens_per_s) == (name, rate)


@pytest.mark.parametrize("model", ["gpt-nothing", "", "plain@x", "Plain"])
def test_another_model_is_unknown(model: str):
    assert choose(SCENARIOS, Ask(model=model, prompt="slow: hi")) is None


def test_results_at_the_end_choose_the_second_beats():
    one, two = Say(text="one"), Say(text="two")
    scenario = Scenario(about="x", beats=[one], after_tools=[two])
    assert beats_of(scenario, Ask(model="m", prompt="")) == [one]
    assert beats_of(scenario, Ask(model="m", prompt="", tool_results=("6",))) == [two]
    plain = Scenario(about="x", beats=[one])
    assert beats_of(plain, Ask(model="m", prompt="", tool_results=("6",))) == [one]


def test_a_broken_file_is_named(tmp_path: Path):
    (tmp_path / "bad.toml").write_text('about = "x"\nbeat = 1\n')
    with pytest.raises(ConfigError, match=r"bad\.toml: Object contains unknown field `beat`"):
        load_scenarios(tmp_path)
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        Faults(tmp_path / "bad.toml")


def test_an_empty_folder_is_a_mistake(tmp_path: Path):
    with pytest.raises(ConfigError, match="no scenarios"):
        load_scenarios(tmp_path)
