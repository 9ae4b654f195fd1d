"""The peer: the same attention, models and training step in idiomatic PyTorch, to be measured in turn with ours."""
