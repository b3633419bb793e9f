"""Trained models: their use, export, serving and publication.

`reference` finds a checkpoint by name, `record` describes its training, `prompt` its prompt.
`adapter`, `tensors` and `merge` merge an adapter into its base, `export` writes the weights to a
folder. `serving` serves, `card` describes, `licences` has the permitted uses of base models,
`precis.commands.model` is the command, which publishes too.
"""
