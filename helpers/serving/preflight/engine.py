"""What the engine itself does to the taps: no setter, graphs with other taps, fused all-reduce, hooks, pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding, found
from helpers.source.whose import options

#: Keys of a config that say how many experts there are.
_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "num_routed_experts")


def check(facts: Facts) -> Iterator[Finding]:
    """Findings on engine and launch."""
    yield from _hooks(facts)
    if not facts.speculates:
        return
    yield from _pipeline(facts)
    if facts.eagle3 and facts.wiring is not None:
        yield from _setter(facts)
        yield from _graphs(facts)
        yield from _fusion(facts)
        yield from _overlap(facts)
        yield from _shards(facts)


def _setter(facts: Facts) -> Iterator[Finding]:
    assert facts.wiring is not None
    setter = facts.wiring.of("setter")
    if setter.holds is False:
        yield found(
            "target-no-eagle3",
            "error",
            f"sglang {facts.source.version} cannot serve {facts.wiring.architecture} with EAGLE-3: its class takes no "
            "layer ids, and the server stops when it sets them",
            *setter.evidence,
            architecture=facts.wiring.architecture,
            fix=f"workbook patch BOX apply kimi-k25-eagle3 {options(facts.profile.python, facts.profile.env)}"
            if "Kimi" in facts.wiring.architecture
            else None,
        )


def _graphs(facts: Facts) -> Iterator[Finding]:
    """The defaults under graphs matter only where the configured ids tap something else."""
    assert facts.wiring is not None
    graphs = facts.wiring.of("graphs")
    if not (facts.graphs and graphs.holds):
        return
    taps, defaults = facts.taps, facts.default_taps
    if facts.ids is None or taps is None or defaults is None or taps.unread or defaults.unread:
        return
    if taps.boundaries != defaults.boundaries:
        yield found(
            "graphs-tap-defaults",
            "error",
            f"CUDA graphs are captured before the ids are set: verify passes under graphs tap the boundaries "
            f"{list(defaults.boundaries)}, eager ones {list(taps.boundaries)}",
            *graphs.evidence,
            ids=list(facts.ids),
            boundaries=list(taps.boundaries),
            under_graphs=list(defaults.boundaries),
            fix="--disable-cuda-graph, or a version that sets the ids first",
        )


def _fusion(facts: Facts) -> Iterator[Finding]:
    assert facts.wiring is not None
    fusion = facts.wiring.of("fusion")
    details = dict(fusion.details)
    if fusion.holds is False or details.get("spoils_taps") is False or not details:
        return
    if details.get("spoils_taps") is None:
        facts.unread["fusion"] = "the all-reduce may be fused, and where this model taps is not read"
        return
    if fusion.holds is None:
        # Not a finding on a chip that may never fuse: the report says what was not known.
        facts.unread["fusion"] = f"{fusion.unread}: name the chip (--gpu)" if facts.chip is None else fusion.unread
        return
    yield found(
        "fused-allreduce",
        "error",
        f"all-reduce fusion is on for this launch: in passes of up to {details.get('max_tokens')} tokens each rank "
        "taps its own part of the sum (right shape, wrong values, different on every rank)",
        *fusion.evidence,
        architecture=details.get("architecture"),
        tp=facts.settings["tp_size"],
        max_tokens=details.get("max_tokens"),
    )


def _overlap(facts: Facts) -> Iterator[Finding]:
    assert facts.wiring is not None
    overlap = facts.wiring.of("overlap")
    if facts.settings["enable_two_batch_overlap"] and overlap.holds:
        yield found(
            "two-batch-overlap",
            "error",
            "--enable-two-batch-overlap: a batch that is split runs its layers outside the loop that takes the taps, "
            "so their ids tap nothing in such passes",
            *overlap.evidence,
            fix="without --enable-two-batch-overlap",
        )


def _shards(facts: Facts) -> Iterator[Finding]:
    """An all-to-all backend leaves a layer's output sharded by tokens; the loop taps it as it is, unless it gathers."""
    assert facts.wiring is not None
    taps, a2a, backend = facts.wiring.of("taps"), facts.wiring.of("a2a"), facts.settings["moe_a2a_backend"]
    tp, dp = facts.settings["tp_size"], facts.settings["dp_size"]
    ranks = tp // dp if facts.settings["enable_dp_attention"] and dp else tp
    experts = facts.target and any(facts.target.size(key) for key in _EXPERTS)
    in_loop = dict(taps.details).get("before_reduce")
    if backend != "none" and ranks > 1 and experts and in_loop and a2a.holds is False:
        yield found(
            "a2a-token-shards",
            "warning",
            f"--moe-a2a-backend {backend} leaves each of {ranks} attention ranks with its own tokens after a layer of "
            "experts, and this model's loop taps them without a gather",
            *taps.evidence,
            backend=backend,
            ranks=ranks,
        )


def _hooks(facts: Facts) -> Iterator[Finding]:
    if facts.settings["forward_hooks"] and facts.graphs:
        yield found(
            "hooks-under-graphs",
            "error",
            "forward hooks do not fire when a CUDA graph is replayed: what they see is warm-up and prefill only",
            fix="--disable-cuda-graph",
        )


def _pipeline(facts: Facts) -> Iterator[Finding]:
    if facts.settings["pp_size"] > 1:
        yield found(
            "pipeline-parallel",
            "error",
            f"--pp-size {facts.settings['pp_size']}: a stage taps only its own layers, and SGLang refuses speculative "
            "decoding with pipeline parallelism",
            pp=facts.settings["pp_size"],
            fix="--pp-size 1",
        )
