"""The list of what the engine changes in SGLang: module -> the functions of this package that run on it."""

PATCHES: dict[str, tuple[str, ...]] = {
    "torch.utils._triton": ("torch_probes:deny_triton",),
    "sglang.version": ("version:require_supported",),
    "sglang.srt.entrypoints.engine": ("processes:fork_workers",),
    "sglang.srt.layers.attention.attention_registry": ("attention.wiring:serve_torch_native",),
    "sglang.srt.layers.communicator": ("allreduce_fusion:fuse_where_asked",),
    "sglang.srt.layers.flashinfer_comm_fusion": ("allreduce_fusion:compute_fused",),
    "sglang.srt.models.deepseek_common.attention_backend_handler": ("attention.wiring:absorb_mla",),
    "sglang.srt.speculative.draft_utils": ("attention.wiring:serve_draft",),
    "sglang.srt.speculative.eagle_utils": ("speculation.wiring:build_and_verify_trees",),
    "sglang.srt.speculative.spec_utils": ("speculation.wiring:allow_tree_sampling", "kernels:require_kernels"),
    "sglang.srt.speculative.eagle_info": ("speculation.wiring:sample_trees",),
    "sglang.srt.mem_cache.memory_pool": ("kernels:require_kernels",),
    "sglang.srt.model_executor.model_runner": ("ranks:share_cores",),
    "sglang.srt.models.llama": ("cuda_calls:skip_synchronize",),
}

# Modules that are executed as if a package was not installed.
# torch._inductor asks for triton without torch.utils._triton here, and would take the stand-in for the real one.
# jsonschema checks international URIs with a grammar that takes 2 s to build; no request here has such a schema.
ABSENT: dict[str, str] = {
    "torch._inductor.runtime.triton_compat": "triton",
    "jsonschema._format": "rfc3987_syntax",
}
