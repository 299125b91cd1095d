"""Profiles from TOML, and the exact command lines that follow from them.

.venv/bin/python -m pytest tests/unit/test_profile.py
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.acceptance.arms import deciding
from helpers.errors import UsageError
from helpers.ledger.results.serving import profile_hash
from helpers.serving.argv import (
    command_text,
    masked,
    masked_argv,
    masked_profile,
    model_folders,
    prepended,
    server_argv,
)
from helpers.serving.keys import check_keys
from helpers.serving.launch import plan
from helpers.serving.profile import Profile, get_profile, load_profiles
from helpers.serving.stages import percent_of, stage_of

HEAD = '[defaults]\nengine = "sglang==0.5.9"\nmodel = "~/models/target"\n'
SPECULATION = "speculation = { num_steps = 3, topk = 1, num_draft_tokens = 4 }\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "p.toml"
    path.write_text(text)
    return path


def test_the_labs_profiles() -> None:
    profiles = load_profiles()
    assert set(profiles) == {"baseline", "right", "miswired", "off-by-one"}
    assert profiles["baseline"].speculation is None
    assert profiles["miswired"].aux_layer_ids == (-1, 1, 4)
    assert profiles["miswired"].patches == ("capture-embedding",)
    assert profiles["right"].engine_version == "0.5.9"


def test_a_profile_says_only_what_differs_from_the_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "tp = 8\n[profiles.a]\n[profiles.b]\ntp = 2\n")
    assert {name: p.tp for name, p in load_profiles(path).items()} == {"a": 8, "b": 2}


def test_an_unknown_name_tells_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(UsageError, match="no profile 'rihgt'") as caught:
        get_profile("rihgt")
    assert caught.value.code == "WB-PROFILE-UNKNOWN"
    assert caught.value.expected == "one of baseline, miswired, off-by-one, right"
    assert caught.value.next.startswith("did you mean 'right'? else: add [profiles.rihgt] to ")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("tpp = 2", "profiles.x.tpp: no such key, did you mean 'tp'?"),
        ("tp = 0", "profiles.x.tp: .*greater than or equal to 1.*met 0"),
        ('tp = "two"', "profiles.x.tp: .*valid integer.*met 'two'"),
        ('engine = "sglang"', "profiles.x.engine"),
        ('draft = "~/d"', "draft and speculation go together"),
        (SPECULATION, "draft and speculation go together"),
        ("aux_layer_ids = [1]", "need a draft"),
        ('draft = "org/d"\naux_layer_ids = [1]\n' + SPECULATION, "hub name 'org/d'"),
        ('draft = "~/d"\naux_layer_ids = []\n' + SPECULATION, "profiles.x.aux_layer_ids"),
        ('draft = "~/d"\nspeculation = { num_steps = 3, num_draft_tokens = 8 }', "num_steps . 1 = 4, not 8"),
        ("port = 70000", "profiles.x.port"),
        ("start_timeout = 0", "profiles.x.start_timeout"),
        ("start_timeout = inf", "profiles.x.start_timeout"),
        ('env_prepend = { PYTHONPATH = "/x" }', "which SGLang is served: set it in env"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, table: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load_profiles(write(tmp_path, HEAD + "[profiles.x]\n" + table + "\n"))
    assert caught.value.code == "WB-PROFILE-INVALID"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[profiles.x\n", "WB-PROFILE-FILE"),
        (HEAD, "WB-PROFILE-INVALID"),
        ("[profile.x]\n", "WB-PROFILE-INVALID"),
        ("profiles = 3\n", "WB-PROFILE-INVALID"),
        ("[profiles]\nx = 3\n", "WB-PROFILE-INVALID"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_profiles(write(tmp_path, text))
    assert caught.value.code == code
    with pytest.raises(UsageError) as caught:
        load_profiles(tmp_path / "nowhere.toml")
    assert caught.value.code == "WB-PROFILE-FILE"


def test_the_exact_command_line() -> None:
    profile = Profile(
        name="case",
        engine="sglang==0.5.9",
        model="~/models/kimi",
        draft="~/models/eagle",
        tp=8,
        dtype="bfloat16",
        speculation={"num_steps": 3, "topk": 1, "num_draft_tokens": 4},
        context_length=8192,
        host="0.0.0.0",
        python="~/env/bin/python",
        extra_args=("--mem-fraction-static", "0.8", "--chat-template", "~/x.jinja"),
    )
    expected = (
        "/home/me/env/bin/python -m sglang.launch_server --model-path /home/me/models/kimi --tensor-parallel-size 8 "
        "--host 0.0.0.0 --port 30000 --dtype bfloat16 --context-length 8192 --speculative-algorithm EAGLE3 "
        "--speculative-draft-model-path /home/me/models/eagle --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4 --mem-fraction-static 0.8 --chat-template /home/me/x.jinja"
    )
    assert " ".join(server_argv(profile, home="/home/me", port=30000)) == expected
    own = server_argv(profile, home="/home/me", port=30000, draft="/runs/1/draft")
    assert own[own.index("--speculative-draft-model-path") + 1] == "/runs/1/draft"
    assert model_folders(profile, home="/home/me") == ("/home/me/models/kimi", "/home/me/models/eagle")


def test_what_is_put_in_front_of_path_like_variables() -> None:
    profile = Profile(
        name="x", engine="sglang==0.5.9", model="/m", env_prepend={"PATH": "~/bin:/cuda/bin", "X_TOKEN": "s3cret"}
    )
    front = {"PATH": "/h/bin:/cuda/bin", "X_TOKEN": "s3cret"}
    assert prepended(profile, home="/h", code="/c") == front
    hooked = profile.model_copy(update={"capture": True})
    assert prepended(hooked, home="/h", code="/c") == front | {"PYTHONPATH": "/c"}
    assert masked_profile(profile).env_prepend == {"PATH": "~/bin:/cuda/bin", "X_TOKEN": "***"}


def test_a_key_that_came_later_changes_no_hash_that_was_kept() -> None:
    plain = Profile(name="x", engine="sglang==0.5.9", model="/m")
    assert plain.unused == {"engine_base", "env_prepend", "start_timeout"}
    assert not plain.unused & set(deciding(plain))
    assert Profile(**plain.model_dump(exclude=plain.unused)) == plain
    patient = plain.model_copy(update={"start_timeout": 7200})
    assert (deciding(patient), profile_hash(patient)) == (deciding(plain), profile_hash(plain))
    changed = plain.model_copy(update={"env_prepend": {"PATH": "/b"}})
    assert deciding(changed)["env_prepend"] == {"PATH": "/b"}
    assert profile_hash(changed) != profile_hash(plain)


def test_a_plain_profile_names_no_drafter() -> None:
    argv = server_argv(get_profile("baseline"), home="/h", port=1)
    assert not [word for word in argv if "speculative" in word or "hooks" in word]


def test_hooks_travel_as_one_json_argument_and_turn_graphs_off() -> None:
    plain = Profile(name="x", engine="sglang==0.5.9", model="/m")
    hooks = [{"name": "workbook", "target_modules": ["model.layers.0"]}]
    argv = server_argv(plain, home="/h", port=1, hooks=hooks)
    assert json.loads(argv[argv.index("--forward-hooks") + 1]) == hooks
    assert argv[-1] == "--disable-cuda-graph"
    lab = server_argv(get_profile("baseline"), home="/h", port=1, hooks=hooks)
    assert lab.count("--disable-cuda-graph") == 1


@settings(max_examples=60, deadline=None)  # each asks a real shell: shlex does not know continued lines
@given(
    st.lists(
        st.sampled_from(["--", "--flag", "a b"])
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        max_size=6,
    )
)
def test_the_shown_command_reads_back_as_the_very_words(words: list[str]) -> None:
    full = ["python3", *words]
    read = subprocess.run(["sh", "-c", f"printf '%s\\0' {command_text(full)}"], capture_output=True, check=True)
    assert read.stdout.decode().split("\0")[:-1] == list(masked_argv(full))


@pytest.mark.parametrize("words", [("--api-key", "s3cret"), ("--x", "--api-key=s3cret"), ("--api-ke", "s3cret")])
def test_a_server_that_wants_a_key_is_refused_before_the_box_is_asked(words: tuple[str, ...]) -> None:
    """It would be ready, since /health wants none, and answer every capture and load with 401."""
    plain = Profile(name="keyed", engine="sglang==0.5.9", model="~/m")
    check_keys(plain)
    check_keys(plain.model_copy(update={"extra_args": ("--admin-api-key", "x")}))
    box: Any = None  # nothing is asked of it
    with pytest.raises(UsageError, match=r"WB-PROFILE-INVALID.*--api-key") as caught:
        plan(box, plain.model_copy(update={"extra_args": words}))
    assert "s3cret" not in str(caught.value)


def test_secrets_are_neither_shown_nor_stored() -> None:
    words = ["--api-key", "s3cret", "--admin-api-key=s3cret", "--max-total-tokens", "8192", "--api-key", "--x"]
    assert masked_argv(words) == ("--api-key", "***", "--admin-api-key=***", *words[3:])
    assert "s3cret" not in command_text(words)


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "PASS",
        "OPENAI_KEY_X",
        "APIKEY",
        "MYTOKEN",
        "AUTH",
        "S3_ACCESS_KEY_ID",
        "HTTPS_PROXY",
        "https_proxy",
        "X",
        "SGLANG_API_KEY",
        "NCCL_SECRET",
        "TORCH_AUTH_HEADER",
        "PYTHON_KEYRING_PASS",
    ],
)
def test_a_variable_is_kept_only_if_it_is_known_to_be_harmless(name: str) -> None:
    assert masked({name: "s3cret"}) == {name: "***"}


def test_what_tells_how_a_server_was_run_is_kept() -> None:
    env = {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK": "128",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": "/home/me/code",
    }
    assert masked(env) == env
    assert masked({"SGLANG_X": "http://me:s3cret@host/x"}) == {"SGLANG_X": "http://me:***@host/x"}


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ('{"a": {"api_key": "s3cret"}}', '{"a":{"api_key":"***"}}'),
        ('[{"auth": "s3cret", "n": 1}]', '[{"auth":"***","n":1}]'),
        ('--json-model-override-args={"token": "s3cret"}', '--json-model-override-args={"token":"***"}'),
        ('{"url": "http://s3cret@host/"}', '{"url":"http://***@host/"}'),
        ('{"token": "s3cret"', '{"token": ***'),
        ("--proxy=http://me:s3c@ret@host:1/x", "--proxy=http://me:***@host:1/x"),
        ("OPENAI_KEY_X=s3cret", "OPENAI_KEY_X=***"),
        ('{"eagle_config":  {"ids": [1, 2]}}', '{"eagle_config":  {"ids": [1, 2]}}'),
        ("MAX_TOKENS=9", "MAX_TOKENS=9"),
    ],
)
def test_secrets_inside_a_word(word: str, shown: str) -> None:
    assert masked_argv([word]) == (shown,)


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("[2026-11-29 21:05:39 TP0] Load weight begin. avail mem=75.00 GB", "weights"),
        ("[2026-11-29 21:05:39] KV Cache is allocated. #tokens: 8192, KV size: 0.02 GB", "memory pool"),
        ("[2026-11-29 21:05:39 TP0] Memory pool end. avail mem=2.52 GB", "memory pool"),
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=9.10 GB", "graph capture"),
        ("Capture cpu graph begin. This can take up to several minutes. avail mem=9.10 GB", "graph capture"),
        ("Capture piecewise CUDA graph begin. avail mem=8.00 GB", "graph capture"),
        ("[2026-11-29 21:05:40] The server is fired up and ready to roll!", "ready"),
        ("Using fallback token IDs for yes/no", None),
    ],
)
def test_stages(line: str, stage: str | None) -> None:
    assert stage_of(line) == stage


def test_progress_within_a_stage() -> None:
    assert percent_of("Loading safetensors checkpoint shards:  98% Completed | 159/163 [31:48<00:40, 10.19s/it]") == 98
    assert percent_of("Capturing batches (bs=8 avail_mem=2.10 GB):  40%|####      | 4/10 [00:02<00:03]") == 40
    assert percent_of("Load weight begin") is None
