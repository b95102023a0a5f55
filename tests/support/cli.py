"""Runs `turnfleet` in this process, with settings of its own."""

from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from ops.cli.main import app


class Command:
    """`turnfleet` with the given settings. Call it with arguments; it returns what was printed."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        self.environment = {
            "TURNFLEET_DATA_DIR": str(data_dir),
            **{f"TURNFLEET_{name.upper()}": value for name, value in settings.items()},
        }

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, list(arguments), env=self.environment, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result
