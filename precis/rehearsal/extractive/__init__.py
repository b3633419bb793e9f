"""The embedded policy of summaries: picks sentences.

`features` says what the policy sees, `policy` how it picks, `samples` what it learns from, and
`kind` makes it one of the embedded policies (`precis.rehearsal`).
"""
