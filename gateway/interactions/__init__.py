"""What commands, buttons and forms do.

Comes in: an `Ask` and its `Answers`. Goes out: prompts, stops, replays, choices, sealed keys, and
texts for one person. `desk` acknowledges and dispatches; each other module answers one kind of
question; `permissions` says who may what; `ports` is what they need of the world. `gateway.app`
puts them together.
"""
