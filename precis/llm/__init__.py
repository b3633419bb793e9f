"""Any server of language models that speaks OpenAI's API: how it is asked, within which limits.

providers  where a model is served, and which key it wants
limits     an account's rates, kept and adapted to
pool       the connections
responses  what comes back: never too large, and without our keys in it
replies    from an HTTP response to a reply or a failure
hedging    asking twice what is late
retry      trying again, and the deadline that the tries share
server     an endpoint of our own around one function
"""
