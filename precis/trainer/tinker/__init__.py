"""A trainer behind the Tinker API: the service trains and samples, and nothing of it runs here.

service       the service's own client, with our deadlines and our errors
tokenizer     the base model's, with its chat template
data          tokens and advantages as the API's losses want them
checkpoints   the files of a step: its address at the service, and a copy of its weights
endpoint      completions of any step
backend       all of that as a trainer of ours has to be
"""
