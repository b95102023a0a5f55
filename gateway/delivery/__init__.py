"""From the out streams to the channels: each reply whole, in order, once.

`ports` says what delivery needs of the world, `pieces` makes texts of events, `courier` carries one
step to a front through refusals and outages, `partition` reads a stream and keeps the order.

Not done yet: merging of pending texts while a rate limit waits, drawn tables and files (their
plain fallback is sent), a preview that is edited while the model writes, answers to interactions.
"""
