"""The embedded policy of agents, which picks one of the calls that a request's tools allow.

`options` lists the candidates, `features` has the policy's view of each, and `kind` makes it one of
the embedded policies (`precis.rehearsal`). It is not specific to a game: it learns which call goes
with which words of the last message.
"""
