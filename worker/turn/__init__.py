"""The turn: the three rooms in a row, and the loop that drives them.

Comes in: a `TurnRequest` and the ports of the world. Goes out: segments and one terminal event.
`pipeline` is pure and shared with replay; `runner` waits; nobody here knows httpx or redis.
"""
