"""`errors top --watch` outlives a database that is away for a while."""

import pytest

from ops.cli.errors_top import Found, watching
from shared.errors import StoreRejected, StoreUnavailable


async def test_a_database_that_is_away_is_said_and_asked_again(capsys: pytest.CaptureFixture[str]):
    answers: list[Found | Exception] = [[], StoreUnavailable("nobody answers"), [], StoreRejected()]
    seen = 0

    async def ask() -> Found:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def show(_found: Found) -> None:
        nonlocal seen
        seen += 1

    with pytest.raises(StoreRejected):
        await watching(ask, show, pause_s=0)
    assert (seen, capsys.readouterr().err) == (2, "nobody answers; trying again.\n")
