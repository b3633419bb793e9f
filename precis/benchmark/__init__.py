"""Who takes part in a benchmark, and how each is asked: within its limits, its budget, and once.

presets    the hosted models that have a name here
entry      a contender and where it is asked
budget     what the benchmark may still spend
kept       summaries and verdicts that were paid for, by their content, in the store
writer     from a document to a summary: kept, or asked for
referee    from a summary to a verdict: kept, or asked for
forecast   what all of it will cost, told before
"""
