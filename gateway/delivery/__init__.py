"""From the out streams to the channels: each reply whole, in order, once.

`ports` says what delivery needs of the world, `pieces` makes pieces of events, `runs` makes one of
several texts, `choice` decides what is shown next, `courier` carries one step to a front through
refusals and outages, `turns` goes step by step, `lanes` and `partition` read a stream and keep the
order.
"""
