"""The contenders of a benchmark, each asked once, within its limits and its budget.

Every contender is asked through the recorder, by the environment that the model is trained for.

presets     the hosted models that have a name here
contender   a contender and where it is asked
lineup      who takes part, from a configuration
extractive  a rehearsed model as a contender
client      what a rollout asks: replies that are kept, or new ones
measure     all held-out scenarios by one contender, and the rows of results
forecast    what all of it will cost, said before
run         what a benchmark works with
"""
