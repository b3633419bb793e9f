"""From scenarios to scored groups; of an environment it knows the protocol alone.

draw    which scenarios a step takes
sample  the rollouts of a step, and of a validation
filter  which groups are trained on, and when too few rollouts have a score
"""
