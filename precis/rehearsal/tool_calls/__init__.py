"""The embedded policy of agents: picks one of the calls that a request's own tools allow.

`options` says what there is to pick from, `features` what the policy sees of each, and `kind` makes
it one of the embedded policies (`precis.rehearsal`). It knows no game: what it learns is which call
goes with which words of the last message.
"""
