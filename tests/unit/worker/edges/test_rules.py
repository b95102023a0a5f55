import msgspec
import pytest

from shared.alerts import Alert, AlertKind
from shared.config import Settings
from shared.configuration.loading import Loaded
from shared.configuration.output import OutputAction, OutputRule
from shared.configuration.schema import Configuration
from shared.errors import StoreUnavailable
from shared.i18n import load_texts
from shared.segments import Segment, SegmentKind
from worker.edges.rules import OutputRules, obeyed

WITHHELD = "-# This part was withheld by a rule of this bot."
RULES = (
    OutputRule(name="mail", pattern=r"\w+@\w+", action=OutputAction.REPLACE, replacement="(mail)"),
    OutputRule(name="plan", pattern="secret", action=OutputAction.BLOCK),
    OutputRule(name="watch", pattern="weather", action=OutputAction.REPORT),
    OutputRule(name="void", pattern="^nothing$", action=OutputAction.REPLACE),
    OutputRule(name="long", pattern="x", action=OutputAction.REPLACE, replacement="y" * 200),
)


class Bench:
    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.is_away = False
        self.loaded: Loaded = a_configuration(RULES)
        self.rules = OutputRules(lambda: self.loaded, load_texts(), self.alert)

    async def alert(self, alert: Alert) -> bool:
        if self.is_away:
            raise StoreUnavailable
        self.alerts.append(alert)
        return True

    async def shown(self, text: str, **changes: object) -> Segment:
        segment = Segment(
            turn_id="m1", attempt=1, seq=1, kind=SegmentKind.TEXT, text=text, start=0, end=9
        )
        return await self.rules.of(b"{}")(msgspec.structs.replace(segment, **changes))


def a_configuration(rules: tuple[OutputRule, ...]) -> Loaded:
    return Loaded(settings=Settings(), configuration=Configuration(output_rules=rules))


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain words", "plain words", id="no rule"),
        pytest.param("write to ann@host", "write to (mail)", id="replace"),
        pytest.param("the secret", WITHHELD, id="block"),
        pytest.param("the weather", "the weather", id="report"),
        pytest.param("nothing", WITHHELD, id="nothing is left"),
        pytest.param("x" * 20, WITHHELD, id="longer than a message"),
    ],
)
async def test_a_segment_is_shown_as_the_rules_say(bench: Bench, text: str, shown: str):
    assert (await bench.shown(text)).text == shown


async def test_what_is_blocked_or_reported_raises_an_alert_with_the_turn(bench: Bench):
    for text in ("the secret", "the weather", "ann@host"):
        await bench.shown(text)
    assert [(one.kind, one.subject, one.cause) for one in bench.alerts] == [
        (AlertKind.OUTPUT_RULE, "plan", "m1"),
        (AlertKind.OUTPUT_RULE, "watch", "m1"),
    ]


async def test_a_table_is_withheld_with_its_fallback(bench: Bench):
    found = await bench.shown("|secret|", kind=SegmentKind.TABLE, fallback=("|secret|",))
    assert (found.kind, found.text, found.fallback) == (SegmentKind.TEXT, WITHHELD, ())


async def test_a_table_is_put_otherwise_in_its_fallback_too(bench: Bench):
    found = await bench.shown("|a@b|", kind=SegmentKind.TABLE, fallback=("a@b", "more"))
    assert (found.kind, found.text, found.fallback) == (
        SegmentKind.TABLE,
        "|(mail)|",
        ("(mail)", "more"),
    )


async def test_no_reply_waits_for_an_alert(bench: Bench):
    bench.is_away = True
    assert (await bench.shown("the weather")).text == "the weather"


async def test_a_changed_configuration_holds_from_the_next_segment_on(bench: Bench):
    assert (await bench.shown("the secret")).text == WITHHELD
    bench.loaded = a_configuration(())
    assert (await bench.shown("the secret")).text == "the secret"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("one\n\ntwo", "one\n\ntwo", id="no rule"),
        pytest.param("a plan\n\nthe secret", f"a plan\n\n{WITHHELD}", id="block"),
        pytest.param("a@b\n\n\n\nend", "(mail)\n\n\n\nend", id="replace"),
        pytest.param("-" * 4_100 + "secret", "-" * 4_000 + WITHHELD, id="long"),
        pytest.param("", "", id="empty"),
    ],
)
async def test_thoughts_are_judged_part_by_part(bench: Bench, text: str, shown: str):
    assert await obeyed(bench.rules.of(b"{}"), "m1", text) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("notes.py", "notes.py", id="no rule"),
        pytest.param("ann@host.py", None, id="replace"),
        pytest.param("weather.py", "weather.py", id="report"),
    ],
)
async def test_the_name_of_a_file_is_judged_like_its_text(
    bench: Bench, name: str, shown: str | None
):
    segment = await bench.shown("code", kind=SegmentKind.FILE, filename=name, fallback=("code",))
    assert (segment.filename, segment.text, segment.kind) == (shown, "code", SegmentKind.FILE)
    assert [alert.subject for alert in bench.alerts] == (["watch"] if "weather" in name else [])


async def test_a_file_whose_name_is_blocked_is_withheld(bench: Bench):
    segment = await bench.shown(
        "code", kind=SegmentKind.FILE, filename="secret.py", fallback=("code",)
    )
    assert (segment.kind, segment.text, segment.filename) == (SegmentKind.TEXT, WITHHELD, None)
    assert [alert.subject for alert in bench.alerts] == ["plan"]


async def test_a_picture_whose_name_is_reported_is_shown(bench: Bench):
    segment = await bench.shown(
        "", kind=SegmentKind.FILE, filename="weather.png", picture="p1", fallback=("(a picture)",)
    )
    assert (segment.picture, segment.filename) == ("p1", "weather.png")
