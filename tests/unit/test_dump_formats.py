"""Each format of a dump: what is read back, how it is told, and what a broken file gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dump_files
import pytest
import streams
import torch

from helpers.commands import wiring
from helpers.errors import UsageError
from helpers.tensors.dumps import FORMATS, read_dump
from helpers.tensors.inspect import inspect
from helpers.tensors.writers import FinalNorm, write_specforge, write_speculators

FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn)
FORMAT = {"specforge-gz": "specforge"}


def options(writer: str) -> dict[str, str]:
    return {"format": "vllm"} if writer == "vllm" else {}


def code(path: Path, **more: Any) -> str:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(UsageError) as caught:
        [sample.slots for sample in read_dump(path, **more)]
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.message
    assert caught.value.expected
    assert sorted(path.parent.rglob("*")) == before
    return caught.value.code


@pytest.mark.parametrize("slots", [1, 3, 5])
@pytest.mark.parametrize("writer", dump_files.WRITERS)
def test_what_was_written_is_read(tmp_path: Path, writer: str, slots: int) -> None:
    slots = 1 if writer == "eagle" else slots
    lengths, dtypes = (6, 1, 9), FLOATS if slots == 3 else FLOATS[:1]
    for dtype in dtypes:
        folder = tmp_path / str(dtype)
        written = [dump_files.states(n, slots, dtype=dtype, seed=n) for n in lengths]
        for i, x in enumerate(written):
            dump_files.WRITERS[writer](folder, i, x)
        dump = read_dump(folder, **options(writer))
        assert (dump.format, dump.slots, dump.hidden_size) == (FORMAT.get(writer, writer), slots, 8)
        assert (dump.dtype, len(dump)) == (dtype, 3)
        for x, sample in zip(written, dump, strict=True):
            assert sample.shape == (len(x), slots, 8)
            assert torch.equal(sample.token_ids, dump_files.ids(len(x)))
            assert torch.equal(sample.slots.float(), x[:, :slots].float())
            assert sample.slots.dtype == dtype
            index = torch.tensor([len(x) - 1, 0])
            assert torch.equal(sample.rows(index).float(), x[index, :slots].float())
            if writer in ("vllm", "eagle"):
                assert sample.verifier is None
            else:
                assert sample.verifier is not None
                assert torch.equal(sample.verifier.float(), x[:, -1].float())
            assert (sample.loss_mask is None) == (writer in ("vllm", "speculators"))


@pytest.mark.parametrize("writer", dump_files.WRITERS)
def test_inspect(tmp_path: Path, writer: str, capsys: pytest.CaptureFixture[str]) -> None:
    slots = 1 if writer == "eagle" else 3
    for i in range(2):
        dump_files.WRITERS[writer](tmp_path, i, dump_files.states(4 + i, slots))
    assert wiring.inspect(tmp_path, as_json=True, **options(writer)) == 0
    found = json.loads(capsys.readouterr().out)
    expected = {"format": FORMAT.get(writer, writer), "samples": 2, "tokens": 9, "slots": slots, "hidden_size": 8}
    assert expected.items() <= found.items()
    assert found["dtype"] == "bfloat16"
    norms = {"specforge": "after the final norm", "specforge-gz": "after the final norm"}
    norms |= {"speculators": "before the final norm", "speculators-v1": "before the final norm"}
    norms |= {"speculators-v0": "unsaid"}
    assert found["verifier"] == norms.get(writer)


def test_keys_that_two_writers_share(tmp_path: Path) -> None:
    x = dump_files.states(5, 3)
    dump_files.vllm(tmp_path / "a", 0, x)
    assert code(tmp_path / "a") == "WB-DUMP-AMBIGUOUS"
    assert read_dump(tmp_path / "a", slots=3).format == "vllm"
    assert read_dump(tmp_path / "a", slots=2).format == "speculators"
    assert read_dump(tmp_path / "a", format="speculators").slots == 2
    assert code(tmp_path / "a", slots=7) == "WB-DUMP-AMBIGUOUS"
    dump_files.speculators(tmp_path / "b", 0, x)
    assert read_dump(tmp_path / "b", slots=4).format == "speculators"
    with pytest.raises(UsageError, match="WB-USAGE"):
        read_dump(tmp_path / "b", format="safetensors")


def test_three_captures_without_a_verifier_are_said(tmp_path: Path) -> None:
    dump_files.speculators_v1(tmp_path, 0, dump_files.states(5, 2))
    dump = read_dump(tmp_path)
    assert dump.slots == 2
    assert "three captures" in dump.warnings[0]
    assert inspect(tmp_path)["warnings"] == list(dump.warnings)


@pytest.mark.parametrize("old", [True, False])
def test_sglang_dumper(tmp_path: Path, old: bool) -> None:
    for i in range(2):
        dump_files.dumper(tmp_path, i, dump_files.states(6 + i, 3), ranks=2, old=old)
    dump = read_dump(tmp_path)
    assert (dump.format, dump.slots, dump.hidden_size, len(dump), dump.ranks) == ("sglang-dumper", 4, 8, 2, 2)
    assert torch.equal(dump[1].slots, dump_files.states(7, 3))
    assert dump[0].stored_ids == (2, 3, 4, 5)
    assert dump[0].token_ids.tolist() == [5, 6, 7, 8, 9, 10]
    next(tmp_path.glob("*=2___rank=0*input_ids.pt")).unlink()
    for file in tmp_path.glob("*=2___rank=0*"):
        file.unlink()
    assert code(tmp_path) == "WB-DUMP-RANK-MISSING"


def test_sglang_dumper_without_token_ids(tmp_path: Path) -> None:
    dump_files.dumper(tmp_path, 0, dump_files.states(6, 3), tokens=False)
    assert "aligned" in read_dump(tmp_path).warnings[0]


def test_sglang_tensor_dump(tmp_path: Path) -> None:
    x = dump_files.states(6, 3)
    dump_files.tensor_dump(tmp_path, 0, x, ranks=2)
    dump = read_dump(tmp_path)
    assert (dump.format, dump.slots, dump[0].stored_ids) == ("sglang-tensor-dump", 4, (0, 1, 2, 3))
    assert torch.equal(dump[0].slots, x)
    assert inspect(tmp_path)["layer_ids"] == [0, 1, 2, 3]
    dump_files.tensor_dump(tmp_path, 1, x)
    assert code(tmp_path) == "WB-DUMP-RANK-MISSING"


def test_a_pass_of_several_requests_is_cut(tmp_path: Path) -> None:
    path = dump_files.tensor_dump(tmp_path, 0, dump_files.states(6, 3))
    data = torch.load(path, weights_only=True)
    data["model.forward_batch_info.positions"] = torch.tensor([7, 8, 0, 1, 2, 0])  # the first was begun before
    torch.save(data, path)
    assert [len(sample.token_ids) for sample in read_dump(tmp_path)] == [3, 1]


def test_a_capture_is_a_dump_too(tmp_path: Path) -> None:
    texts = streams.texts(2, length=10)
    path = streams.served(texts).write(tmp_path / "c")
    dump = read_dump(path)
    assert (dump.format, dump.slots, dump.hidden_size, len(dump)) == ("workbook.capture/1", 3, streams.HIDDEN, 2)
    for text, sample in zip(texts, dump, strict=True):
        assert torch.equal(sample.token_ids, text[:-1])
        assert torch.equal(sample.slots[:, 1], streams.stream(text)[5][:-1])


def test_a_person_can_say_the_format_and_be_wrong(tmp_path: Path) -> None:
    dump_files.speculators_v1(tmp_path, 0, dump_files.states(5, 3))
    assert "eagle" in FORMATS
    with pytest.raises(UsageError, match="WB-DUMP-FOREIGN"):
        read_dump(tmp_path, format="eagle")


BROKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "specforge": ("aux_hidden_state", {}),
    "specforge-gz": ("aux_hidden_state", {}),
    "speculators": ("hidden_states", {}),
    "speculators-v0": ("hidden_state", {}),
    "vllm": ("hidden_states", {}),
    "eagle": ("hidden_state", {}),
}


@pytest.mark.parametrize("writer", BROKEN)
@pytest.mark.parametrize("fault", ["integers", "length", "width", "no tokens"])
def test_shapes_and_types_that_do_not_fit(tmp_path: Path, writer: str, fault: str) -> None:
    key, write = BROKEN[writer][0], dump_files.WRITERS[writer]
    x = dump_files.states(6, 3)
    if fault == "no tokens":
        path = write(tmp_path, 0, x[:0])
    elif fault == "integers":
        path = write(tmp_path, 0, x, **{key: torch.zeros(x[:, :-1].shape, dtype=torch.int32)})
    elif fault == "length":
        ids = "token_ids" if writer in ("speculators", "vllm") else "input_ids"
        path = write(tmp_path, 0, x, **{ids: dump_files.ids(5)})
    else:
        shape = (6, 3, 0) if writer in ("speculators", "vllm") else (6, 13)
        shape = (6, 0) if writer == "eagle" else shape
        path = write(tmp_path, 0, x, **{key: torch.zeros(shape)})
    assert code(path, **options(writer)) == "WB-DUMP-SHAPE"


@pytest.mark.parametrize("writer", [w for w in dump_files.WRITERS if w not in ("speculators", "vllm")])
def test_cut_and_flipped_archives(tmp_path: Path, writer: str) -> None:
    path = dump_files.WRITERS[writer](tmp_path, 0, dump_files.states(512, 3))
    whole = path.read_bytes()
    path.write_bytes(whole[:-90])
    assert code(path) == "WB-DUMP-TRUNCATED"
    flipped = bytearray(whole)
    flipped[len(whole) * 5 // 8] ^= 1
    path.write_bytes(flipped)
    assert code(path) == "WB-DUMP-CORRUPT"


def test_cut_and_foreign_safetensors(tmp_path: Path) -> None:
    path = dump_files.speculators(tmp_path, 0, dump_files.states(6, 3))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert code(path) == "WB-TENSORS-TRUNCATED"
    path.write_bytes(b"\xff" + whole[1:])
    assert code(path) in ("WB-TENSORS-TRUNCATED", "WB-TENSORS-FOREIGN")
    path.write_bytes(b"")
    assert code(path) == "WB-TENSORS-FOREIGN"
    dump_files.saved(path, {"weight": torch.zeros(3)})
    assert code(path) == "WB-DUMP-FOREIGN"


def test_round_trips(tmp_path: Path) -> None:
    texts = streams.texts(3, length=9)
    source = read_dump(streams.write_dump(tmp_path / "v1", texts))
    write_speculators(source, tmp_path / "now")
    again = read_dump(tmp_path / "now")
    assert again.format == "speculators"
    norm = FinalNorm(torch.rand(streams.HIDDEN) + 0.5)
    for compress in (False, True):
        out = tmp_path / f"forge{compress}"
        files = write_specforge(again, out, norm=norm, compress=compress)
        assert [str(f.relative_to(out)) for f in files][2] == f"rows_0-2000/data_2.ckpt{'.gz' if compress else ''}"
        forged = read_dump(out)
        assert forged.format == "specforge"
        for a, b, c in zip(source, again, forged, strict=True):
            assert torch.equal(a.token_ids, c.token_ids)
            assert torch.equal(a.slots, b.slots)
            assert torch.equal(a.slots, c.slots)
            assert a.verifier is not None
            assert b.verifier is not None
            assert c.verifier is not None
            assert torch.equal(a.verifier, b.verifier)
            assert torch.equal(norm(a.verifier), c.verifier)
            assert a.loss_mask is not None
            assert b.loss_mask is not None
            assert c.loss_mask is not None
            assert torch.equal(a.loss_mask, b.loss_mask)
            assert torch.equal(a.loss_mask, c.loss_mask)
        rewritten = write_specforge(forged, tmp_path / f"twice{compress}")
        assert len(rewritten) == 3
        with pytest.raises(UsageError, match="WB-DUMP-VERIFIER"):
            write_speculators(forged, tmp_path / f"no{compress}")
    with pytest.raises(UsageError, match="WB-DUMP-VERIFIER"):
        write_specforge(source, tmp_path / "none")
    with pytest.raises(UsageError, match="WB-DUMP-OUT"):
        write_speculators(source, tmp_path / "now")
    dump_files.vllm(tmp_path / "vllm", 0, dump_files.states(4, 3))
    with pytest.raises(UsageError, match="WB-DUMP-VERIFIER"):
        write_speculators(read_dump(tmp_path / "vllm", slots=3), tmp_path / "x", normed=False)
