"""The command line as a whole: nouns, one line per error, exit codes as documented."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ops.cli.exits import Exit, NotFound, exit_code
from ops.cli.main import NOUNS, app
from ops.cli.session import span
from shared import __version__
from shared.errors import ConfigError, RequestTooLarge, StoreUnavailable, TurnfleetError

DOCS = Path("docs/commands.md")
runner = CliRunner()


def test_the_documented_exit_codes_are_the_ones_in_use():
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(code) for code, name in rows} == {code.name.lower(): code for code in Exit}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), Exit.BAD_INPUT),
        (StoreUnavailable("x"), Exit.BAD_INPUT),
        (RequestTooLarge(), Exit.BAD_INPUT),
        (NotFound("x"), Exit.MISSING),
        (TurnfleetError("x"), Exit.FAILED),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (OSError("x"), Exit.FAILED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_have_their_codes(error: BaseException, code: Exit):
    assert exit_code(error) is code


def test_the_version():
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"turnfleet {__version__}\n")


@pytest.mark.parametrize("noun", ["errors", "turns", "doctor", "up", "recorder", "db"])
def test_each_noun_has_help(noun: str):
    assert noun in NOUNS
    result = runner.invoke(app, [noun, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_help_lists_the_nouns_that_this_build_has():
    result = runner.invoke(app, ["--help"])
    assert "errors" in result.stdout
    assert "What failed, for whom, and why." in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["nonsense"], id="unknown_noun"),
        pytest.param(["errors", "nonsense"], id="unknown_verb"),
        pytest.param(["errors", "list", "--nonsense"], id="unknown_option"),
        pytest.param(["errors", "list", "--since", "yesterday"], id="wrong_span"),
        pytest.param(["errors", "list", "-o", "xml"], id="wrong_format"),
        pytest.param(["errors", "list", "--guild", "x"], id="wrong_id"),
        pytest.param(["errors", "list", "--limit", "0"], id="wrong_limit"),
        pytest.param(["errors", "show", "x"], id="short_id"),
        pytest.param(["turns", "send"], id="no_prompt"),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str], tmp_path: Path):
    env = {"TURNFLEET_DATA_DIR": str(tmp_path)}
    assert runner.invoke(app, arguments, env=env).exit_code == Exit.BAD_INPUT


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (("TURNFLEET_SLOTZ", "1"), "did you mean TURNFLEET_SLOTS"),
        (("TURNFLEET_SLOTS", "many"), "TURNFLEET_SLOTS"),
        (("TURNFLEET_DATABASE_URL", "mysql://u:secret@h/d"), "TURNFLEET_DATABASE_URL"),
        (("TURNFLEET_DATABASE_URL", "postgresql://u:secret@127.0.0.1:9/d"), "nobody answers"),
        (("TURNFLEET_ENDPOINTS", "{"), "TURNFLEET_ENDPOINTS"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(
    setting: tuple[str, str], words: str, tmp_path: Path
):
    env = {"TURNFLEET_DATA_DIR": str(tmp_path), setting[0]: setting[1]}
    result = runner.invoke(app, ["errors", "list"], env=env)
    assert result.exit_code == Exit.BAD_INPUT
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "secret" not in result.stderr


@pytest.mark.parametrize("url", ["redis://127.0.0.1:9", "http://x", "redis://h:port"])
def test_a_wrong_or_silent_redis_is_one_line(url: str, tmp_path: Path):
    env = {"TURNFLEET_DATA_DIR": str(tmp_path), "TURNFLEET_REDIS_URL": url}
    result = runner.invoke(app, ["turns", "list"], env=env)
    assert result.exit_code == Exit.BAD_INPUT
    assert len(result.stderr.splitlines()) == 1


def test_a_closed_pipe_is_no_error(tmp_path: Path):
    pipe = f"{sys.executable} -m ops errors list --help | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", pipe], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("24h", 86_400), ("7D", 604_800), (" 2w ", 1_209_600)],
)
def test_spans_of_time(text: str, seconds: int):
    assert span(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "soon", "5", "-5m", "999999w", "5219w"])
def test_what_is_no_span_of_time_is_said(text: str):
    with pytest.raises(typer.BadParameter):
        span(text)
