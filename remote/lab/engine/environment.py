"""The environment that a box needs for the CPU engine, beside this folder on PYTHONPATH."""


def box_environment() -> dict[str, str]:
    """Variables for every process on the lab's box, but PYTHONPATH: that names this folder and the lab's checkout."""
    return {
        # SGLang's own switch for a CPU (utils/common.py:185); also turns the engine on (sitecustomize.py).
        "SGLANG_USE_CPU_ENGINE": "1",
        # Nothing to compile with: torch.compile (speculative/spec_utils.py:402 and others) stays off.
        "TORCHDYNAMO_DISABLE": "1",
        # Two cores for up to eight ranks: more threads per rank only wait for each other.
        "OMP_NUM_THREADS": "1",
        # The models are local: no look-ups on the hub.
        "HF_HUB_OFFLINE": "1",
        # SIGTERM to the process group ends the schedulers at once; without this the HTTP process then waits for their
        # unfinished requests for ever (managers/tokenizer_manager.py:2119).
        "SGL_FORCE_SHUTDOWN": "1",
        # The same on a machine that has a GPU.
        "CUDA_VISIBLE_DEVICES": "",
    }
