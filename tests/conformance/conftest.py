"""The frame of the conformance suite: `--area`, an error without a corpus, and a count per file.

`--every-cut` (`make conformance`) cuts every case at every place; without it long cases are cut at
some places only, so that the suite stays part of the everyday tests.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Generator

import pytest

from tests.support import corpus

Results = defaultdict[str, defaultdict[str, set[str]]]
RESULTS = pytest.StashKey[Results]()
"""Per corpus file and outcome the names of cases; a case that failed in one test has failed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--area`, which may be given several times or as a list with commas."""
    parser.addoption(
        "--area",
        action="append",
        default=[],
        help="run only the cases of these areas, for example --area sse,usage",
    )
    parser.addoption(
        "--every-cut", action="store_true", help="cut every case in two at every place"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuses a directory that holds no file of the corpus."""
    if config.getoption("--every-cut", default=False):
        os.environ[corpus.EVERY_CUT] = "1"
    config.stash[RESULTS] = Results(lambda: defaultdict(set))
    if corpus.is_empty():
        raise pytest.UsageError(
            f"no corpus in {corpus.CORPUS}: set TURNFLEET_CORPUS to a directory that has at least "
            f"one of {', '.join(corpus.FILES)}"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the cases of areas that were not asked for."""
    chosen = {word for text in config.getoption("--area", default=[]) for word in text.split(",")}
    if not chosen:
        return
    kept = [item for item in items if (case := _case_of(item)) is None or case.area in chosen]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.CallInfo[None] | object, None]:
    """Books the outcome of a case under its file."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[union-attr]  # pluggy's own result type
    case = _case_of(item)
    if case is not None and (report.when == "call" or report.outcome != "passed"):
        item.config.stash[RESULTS][case.file][report.outcome].add(case.name)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Ends the run with a line per corpus file, and the names of the cases that failed."""
    results = config.stash.get(RESULTS, None)
    if not results:
        return
    terminalreporter.section("conformance")
    for file, by_outcome in sorted(results.items()):
        failed, skipped = by_outcome["failed"], by_outcome["skipped"]
        passed = by_outcome["passed"] - failed
        counts = Counter(passed=len(passed), failed=len(failed), skipped=len(skipped))
        terminalreporter.line(f"{file}: " + ", ".join(f"{n} {word}" for word, n in counts.items()))
        for name in sorted(failed):
            terminalreporter.line(f"  failed: {name}")


def _case_of(item: pytest.Item) -> corpus.Case | corpus.Recording | None:
    spec = getattr(item, "callspec", None)
    case = spec.params.get("case") if spec is not None else None
    return case if isinstance(case, corpus.Case | corpus.Recording) else None
