"""Trained models after their training: to use, export, serve and publish.

`reference` finds a checkpoint by name, `record` says how it was trained, `prompt` what it is
asked. `adapter`, `tensors` and `merge` make merged weights of an adapter and its base, `export`
puts them into a folder. `serving` serves, `card` and `hub` publish, `licences` knows what a base
model may be used for, `precis.commands.model` is the command.
"""
