"""Any server of language models that speaks OpenAI's API: how it is asked, within which limits.

`client` takes a request from its turn to its reply, and all else is a part of that: `providers`,
`limits`, `budget`, `pool`, `responses`, `replies`, `hedging`, `retry`. `server` is an endpoint of
our own around one function.
"""
