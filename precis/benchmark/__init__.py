"""Who takes part in a benchmark, and how each is asked: within its limits, its budget, and once.

presets     the hosted models that have a name here
contender   a contender and where it is asked
lineup      who takes part, from a configuration
extractive  a rehearsed model as a contender
cache       summaries and verdicts that were paid for, by their content, in the store
client      from a document to a summary: kept, or asked for
referee     from a summary to a verdict: kept, or asked for
forecast    what all of it will cost, told before
measure     all of it for one contender, and its rows of results
"""
