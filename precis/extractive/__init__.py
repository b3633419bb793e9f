"""The embedded policy: picks sentences, learns by GRPO on the CPU, and is an `art.Backend`.

`features` says what the policy sees, `policy` how it picks, `grpo` how it learns,
`checkpoints` what is kept on disk; `endpoint` and `backend` face ART.
"""
