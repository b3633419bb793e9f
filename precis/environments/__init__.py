"""Environments: what a policy is trained to do, and the recorder through which they ask it.

`protocol` is what an environment is, `recorder` stands between it and the policy, and `samples`
makes what is trained on of the recorded calls.
"""
