"""Deep JSON in every place where a payload may hold anything: nothing raises, all of it encodes."""

import msgspec
import pytest

from tests.support import streams
from worker.normalize.events import event_fields

PLACES = {
    "custom": [
        '{"error":%s}',
        '{"error":{"message":%s,"code":%s}}',
        '{"choices":%s}',
        '{"choices":[{"error":%s}]}',
        '{"choices":[{"delta":{"content":%s}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":%s}}]}}]}',
        '{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":%s}]}}]}',
    ],
    "anthropic": [
        '{"type":"error","error":%s}',
        '{"type":"message_start","message":{"id":%s,"usage":%s,"content":[%s]}}',
        '{"type":"content_block_start","content_block":{"type":"x","a":%s}}',
        '{"type":"content_block_start","content_block":{"type":"text","citations":[%s]}}',
        '{"type":"content_block_start","content_block":{"type":"tool_use","name":"f","input":%s}}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_details":%s}}',
    ],
    "google": [
        '{"error":%s}',
        '{"candidates":[{"groundingMetadata":%s}]}',
        '{"candidates":[{"content":{"parts":[{"inlineData":%s}]}}]}',
        '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":%s}}}]}}]}',
    ],
    "openai": [
        '{"type":"error","error":%s}',
        '{"type":"response.failed","response":{"a":%s}}',
        '{"type":"response.output_item.added","item":{"type":"x","a":%s}}',
        '{"type":"response.output_text.annotation.added","annotation":%s}',
        '{"type":"response.completed","response":{"output":[{"type":"reasoning","id":%s}]}}',
    ],
}
ENDS = (
    '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
    '{"candidates":[{"finishReason":"STOP"}]}',
    '{"choices":[{"finish_reason":"stop"}]}',
)


@pytest.mark.parametrize("depth", [150, 400, 900, 990, 1100])
@pytest.mark.parametrize("flaw", ["", '"flaw":"\\ud83d",', '"\\ud83d":0,'])
@pytest.mark.parametrize(
    ("provider", "place"), [(name, place) for name, rows in PLACES.items() for place in rows]
)
def test_depth_in_any_place_is_survived(provider: str, place: str, depth: int, flaw: str):
    for opener, closer in (("[", "]"), ('{"a":', "}")):
        deep = opener * depth + "1" + closer * depth
        data = "{" + flaw + place.replace("%s", deep)[1:]
        for end in ENDS:
            run = streams.run(provider, [f"data: {data}\n\ndata: {end}\n\n".encode()])
            msgspec.json.encode([event_fields(event) for event in run.events])
            msgspec.json.encode(run.meta)
