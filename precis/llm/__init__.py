"""Any server of language models that speaks OpenAI's API: how it is asked, within which limits.

client       `ChatClient`: a request from its turn to its reply; all others build on it
providers    where a model is served, and which key it wants
limits       an account's rates, kept and adapted to
budget       what may still be spent
pool         the connections
responses    what comes back: never too large, and without our keys in it
replies      from an HTTP response to a reply or a failure
hedging      asking twice what is late
retry        trying again, and the deadline that the tries share
tokens       how many tokens a text takes, before anybody has counted them
concurrency  many requests at the same time
server       an endpoint of our own around one function
"""
