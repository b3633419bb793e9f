"""From scenarios to scored groups; of an environment it knows the protocol alone.

sample  which scenarios a step takes, and the rollouts of a step, and of a validation
filter  which groups are trained on, and when too few rollouts have a score
"""
