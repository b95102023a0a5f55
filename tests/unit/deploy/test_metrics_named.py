"""Metrics, alerts, dashboard and pages say the same names; no label grows without bound."""

import json
import re
from pathlib import Path

import pytest
import yaml

from shared.metrics import EVERY, MAX_VALUES, OTHER, TURNS, Kind, Metrics

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "k8s" / "monitoring"
BY_NAME = {one.name: one for one in EVERY}
SCRAPED = {"pod", "le"}
"""Labels that the scrape or a histogram adds."""
IDS = ("guild", "user", "channel", "turn", "key", "message", "person")


def rules() -> list[dict[str, object]]:
    text = (MONITORING / "turnfleet.rules.yml").read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def queries() -> list[tuple[str, str]]:
    """(where, expression) for every expression of alerts and dashboard."""
    board = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    shown = [
        (panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]
    ]
    return [*((str(rule["alert"]), str(rule["expr"])) for rule in rules()), *shown]


def metric_of(word: str) -> str:
    """The metric of a series: a histogram has `_bucket`, `_sum` and `_count`."""
    base = re.sub(r"_(bucket|sum|count)$", "", word)
    found = BY_NAME.get(base)
    return base if found is not None and found.kind is Kind.HISTOGRAM else word


@pytest.mark.parametrize(("where", "query"), queries(), ids=[where for where, _ in queries()])
def test_a_query_names_metrics_and_labels_that_exist(where: str, query: str):
    words = re.findall(r"turnfleet_\w+", query)
    assert words
    metrics = [BY_NAME[metric_of(word)] for word in words]
    known = {label for metric in metrics for label in metric.labels} | SCRAPED
    asked = re.findall(r"(?:by|on) \(([^)]*)\)", query)
    asked += re.findall(r"[{,]\s*(\w+)=", query)
    named = {label.strip() for group in asked for label in group.split(",")}
    assert named <= known, named - known
    assert query.count("(") == query.count(")")


@pytest.mark.parametrize("metric", EVERY, ids=lambda one: one.name)
def test_a_metric_is_looked_at_by_an_alert_or_the_dashboard(metric):
    assert any(
        metric_of(word) == metric.name
        for _, query in queries()
        for word in re.findall(r"turnfleet_\w+", query)
    )


def test_the_rules_of_the_operator_are_the_rules_of_the_file():
    text = (MONITORING / "prometheusrule.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["spec"]["groups"][0]["rules"] == rules()


def test_the_page_lists_every_metric_as_it_is():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(turnfleet_\w+)` \| (\w+) \|", page, re.MULTILINE))
    assert listed == {one.name: one.kind for one in EVERY}
    for one in EVERY:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{one.name}`"))
        assert one.says in row
        assert re.findall(r"`(\w+)`", row)[1:] == list(one.labels)


def test_each_alert_has_its_page():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (Turnfleet\w+)$", page, re.MULTILINE)
    assert headings == [rule["alert"] for rule in rules()]


@pytest.mark.parametrize("metric", EVERY, ids=lambda one: one.name)
def test_no_label_is_the_id_of_somebody(metric):
    assert not [label for label in metric.labels if label.startswith(IDS)]


def test_a_label_has_few_values_whatever_is_counted():
    metrics = Metrics("worker")
    for number in range(10 * MAX_VALUES):
        metrics.add(TURNS, provider="p", model=f"model-{number}", outcome="done")
    lines = [
        line
        for line in metrics.text().decode().splitlines()
        if line.startswith("turnfleet_turns_total{")
    ]
    assert len(lines) == MAX_VALUES + 1
    others = [line for line in lines if f'model="{OTHER}"' in line]
    assert others[0].endswith(f" {9.0 * MAX_VALUES}")


@pytest.mark.parametrize("role", ["gateway", "worker", "recorder"])
def test_a_process_shows_what_is_its_own(role: str):
    shown = set(re.findall(r"^# TYPE (\w+)", Metrics(role).text().decode(), re.MULTILINE))
    own = {one.name for one in EVERY if role in one.by}
    assert own <= shown
    assert not {one.name for one in EVERY if role not in one.by} & shown
