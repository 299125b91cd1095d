"""The recipe of the lab's target and drafter, from text that comes with Python to a pair that SGLang serves.

``python -m remote.lab.recipe --seed 1 --out FOLDER`` is its only door (`make lab-train`). It is an offline tool beside
the lab: nothing imports it, and it needs torch, transformers, tokenizers and safetensors, all pinned in the locks.

The stages, each a module that can be read by itself, and each resumed where it was killed (`state`):

    corpus, tokens          files of the standard library -> text by file -> ids of a byte-level BPE
    target, train_target    a DeepSeek-V3 in compact torch, its training
    generate, unloop        continuations by the target itself; a short training against loops
    drafter, train_drafter  an EAGLE-3 drafter, trained over its own draft steps
    export, dumps, card     checkpoints by the names that SGLang and transformers read, dumps, the model card
"""
