"""A client of any server that speaks OpenAI's API, with limits and retries.

`client` handles a request from its turn to its reply, with `providers`, `limits`, `budget`,
`connections`, `replies`, `hedging` and `retry`. `server` is our own endpoint around one function.
"""
