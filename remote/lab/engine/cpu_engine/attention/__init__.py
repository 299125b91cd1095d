"""Attention in plain torch for every mode of EAGLE-3: multi-head, grouped and latent (MLA, absorbed)."""
