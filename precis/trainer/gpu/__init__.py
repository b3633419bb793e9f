"""Training a language model on a GPU: ART's LocalBackend with a learner and packing of our own.

backend.py       `art.Backend`, in the trainer's process: tokens, packing, what is served
tokens.py        trajectories as samples: tokens and advantages
packing.py       samples into sequences and updates; plain Python
service.py       the process that holds the GPU: learner and vLLM
learner.py       the model, its adapter, the loss of an update
optimizer.py     Adam and its file in a checkpoint
extension.py     what of vLLM's engine is changed, in its own process:
lora.py          an adapter's share of a layer in vLLM
outputs.py       sampled tokens on their way from the engine to the replies
"""
