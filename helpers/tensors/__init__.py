"""Tensors on the laptop: readers of captures and dumps, alignment by token ids, streaming statistics."""
