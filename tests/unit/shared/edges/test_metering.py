"""What is counted of turns and reports."""

from shared.edges.metering import count_report, count_turn
from shared.failures import ErrorReport, Fault, ReportCategory, Severity
from shared.metrics import Metrics
from shared.summaries import TurnSummary
from shared.turns import TurnState, Usage

SUMMARY = TurnSummary(
    turn_id="m1",
    attempt=1,
    ended_ms=0,
    state=TurnState.DONE,
    user_id=4711,
    channel_id=4712,
    guild_id=4713,
    provider="openai",
    model="gpt",
    usage=Usage(input=100, output=50, cost=0.25),
    queued_ms=500,
    first_byte_ms=1_000,
    first_segment_ms=1_500,
    elapsed_ms=6_000,
)


def lines(metrics: Metrics) -> set[str]:
    return {line for line in metrics.text().decode().splitlines() if not line.startswith("#")}


def test_a_turn_is_counted_in_every_way():
    metrics = Metrics("worker")
    count_turn(metrics, SUMMARY)
    shown = lines(metrics)
    of = '{model="gpt",provider="openai"}'
    assert 'turnfleet_turns_total{model="gpt",outcome="done",provider="openai"} 1.0' in shown
    assert "turnfleet_queue_wait_seconds_sum 0.5" in shown
    assert f"turnfleet_first_byte_seconds_sum{of} 1.0" in shown
    assert f"turnfleet_ttfs_seconds_sum{of} 2.0" in shown
    assert f"turnfleet_turn_duration_seconds_sum{of} 6.0" in shown
    assert f"turnfleet_output_tokens_per_second_sum{of} 10.0" in shown
    assert f"turnfleet_cost_usd_total{of} 0.25" in shown
    tokens = 'turnfleet_tokens_total{direction="%s",model="gpt",provider="openai"} %s'
    assert tokens % ("input", "100.0") in shown
    assert tokens % ("output", "50.0") in shown


def test_nobody_is_named():
    metrics = Metrics("worker")
    count_turn(metrics, SUMMARY)
    text = metrics.text().decode()
    assert not [name for name in ("m1", "4711", "4712", "4713") if f'"{name}"' in text]


def test_what_is_unknown_is_not_observed():
    metrics = Metrics("worker")
    count_turn(
        metrics,
        TurnSummary(
            turn_id="m1",
            attempt=1,
            ended_ms=0,
            state=TurnState.FAILED,
            user_id=1,
            channel_id=1,
            provider="p",
            model="m",
        ),
    )
    shown = lines(metrics)
    assert 'turnfleet_turns_total{model="m",outcome="failed",provider="p"} 1.0' in shown
    assert "turnfleet_queue_wait_seconds_count 0.0" in shown
    assert not [line for line in shown if line.startswith("turnfleet_ttfs_seconds_count")]


def test_a_report_is_counted_with_what_was_removed_from_it():
    metrics = Metrics("gateway")
    count_report(metrics)(
        ErrorReport(
            id="r",
            created_ms=0,
            severity=Severity.ERROR,
            category=ReportCategory.DELIVERY,
            error_type="not_sent",
            stage="gateway",
            fault=Fault.DISCORD,
            message="",
            metadata={"redactions": {"key": 2}},
        )
    )
    shown = lines(metrics)
    assert (
        'turnfleet_errors_total{category="delivery",error_type="not_sent",provider="other",'
        'stage="gateway"} 1.0'
    ) in shown
    assert 'turnfleet_redactions_total{kind="key"} 2.0' in shown
