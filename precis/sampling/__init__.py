"""From documents to judged groups.

policy      one completion by the policy that is trained
rollouts    a step's summaries, judged, and which of them are trained on
transcript  a step's rollouts as ART's trajectory groups, for a person to study
"""
