"""The configuration room: `turnfleet.toml`, its check, and what holds in one place of Discord.

`schema` is the file as values, `reading` makes them of a text and says what is wrong and where,
`choices` decides what holds for a prompt. The room opens nothing but the file that `loading` is
asked for; Redis is in `shared.edges.choices`, the watch of the file in
`shared.edges.live_configuration`.
"""
