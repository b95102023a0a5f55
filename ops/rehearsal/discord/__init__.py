"""A fake Discord on a socket: the gateway and REST API as far as a bot that answers needs them.

It lives in the product, because `turnfleet up --discord-rehearsal` starts it, and the tests use the
same through `tests/support/discord.py`. It is as strict as Discord where a mistake of ours would
cost a reply: nonces, 2,000 code points, permissions, honest rate limits, resumed sessions. hikari
and discord.py both connect to it unchanged but for the address; the tests hold it to that.

`world` knows people, channels and messages; `limits` the rate limits; `doorman` whom to ban;
`faults` what shall go wrong; `sockets` speaks the gateway protocol with `compression`, `handshakes`
says whom it refuses; `rest` the HTTP API with `webhooks`, `interactions` that of commands, buttons
and forms; `server` joins them and is what others import.

Not played: reactions.
"""
