"""Which rows of a capture are the produced text: .venv/bin/python -m pytest tests/unit/test_capture_rows.py"""

from __future__ import annotations

from remote.capture_rows import Segment, Text, accepted, chain_up, parents_of_tree, plan

CHAIN = (-1, 0, 1, 2)


def prefill(step: int, tokens: list[int], start: int = 0, pool: int = 0, row: int = 0) -> Segment:
    return Segment(step, pool, row, tuple(tokens), tuple(range(start, start + len(tokens))), None, True)


def verify(step: int, tokens: list[int], start: int, pool: int = 0, row: int = 0) -> Segment:
    return Segment(step, pool, row, tuple(tokens), tuple(range(start, start + len(tokens))), CHAIN)


def decode(step: int, token: int, position: int, pool: int = 0, row: int = 0) -> Segment:
    return Segment(step, pool, row, (token,), (position,))


def kept(plan_rows: list) -> list[tuple[int, int, int, int]]:
    return [(r.request, r.position, r.step, r.row) for r in plan_rows]


def test_rejected_drafts_are_left_out() -> None:
    text = Text("r0", (1, 2, 3, 10, 11, 12, 13), 3)
    passes = [prefill(0, [1, 2, 3]), verify(1, [10, 11, 99, 13], 3), verify(2, [12, 13, 5, 6], 5)]
    result = plan(passes, [text])
    assert kept(result.rows) == [
        (0, 0, 0, 0), (0, 1, 0, 1), (0, 2, 0, 2), (0, 3, 1, 0), (0, 4, 1, 1), (0, 5, 2, 0), (0, 6, 2, 1),
    ]  # fmt: skip
    assert (result.rejected, result.foreign) == (4, 0)


def test_a_draft_is_not_accepted_after_a_wrong_one_even_if_its_token_fits() -> None:
    text = (1, 10, 11, 12, 13)
    assert accepted(verify(1, [10, 99, 12, 13], 1), text) == [0]


def test_rows_past_the_end_of_the_text_are_left_out() -> None:
    result = plan([prefill(0, [1, 2]), verify(1, [10, 11, 12, 13], 2)], [Text("r0", (1, 2, 10, 11), 2)])
    assert [r.position for r in result.rows] == [0, 1, 2, 3]
    assert result.rejected == 2


def test_a_batch_of_two_requests_and_a_slot_that_is_used_again() -> None:
    texts = [Text("a", (1, 2, 7, 8), 2), Text("b", (3, 4, 5, 9), 3), Text("c", (1, 2, 6), 2)]
    passes = [
        prefill(0, [1, 2], pool=0), prefill(0, [3, 4, 5], pool=1, row=2),
        verify(1, [7, 8, 0, 0], 2, pool=0), verify(1, [9, 0, 0, 0], 3, pool=1, row=4),
        prefill(2, [1, 2], pool=0), verify(3, [6, 5, 5, 5], 2, pool=0),
    ]  # fmt: skip
    rows = plan(passes, texts).rows
    assert [r.position for r in rows if r.request == 0] == [0, 1, 2, 3]
    assert [(r.step, r.row) for r in rows if r.request == 1] == [(0, 2), (0, 3), (0, 4), (1, 4)]
    assert [(r.step, r.row) for r in rows if r.request == 2] == [(2, 0), (2, 1), (3, 0)]


def test_a_prefill_in_chunks_is_one_chain() -> None:
    passes = [prefill(0, [1, 2, 3]), prefill(1, [4, 5, 6], 3), prefill(2, [7], 6), decode(3, 8, 7)]
    assert len(chain_up(passes)) == 1
    rows = plan(passes, [Text("r0", (1, 2, 3, 4, 5, 6, 7, 8), 7)]).rows
    assert [(r.position, r.step) for r in rows] == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1), (6, 2), (7, 3)]


def test_equal_texts_get_a_chain_each() -> None:
    text = (1, 2, 3)
    passes = [prefill(0, [1, 2], pool=0), prefill(0, [1, 2], pool=1, row=2), decode(1, 3, 2, 0), decode(1, 3, 2, 1, 1)]
    rows = plan(passes, [Text("a", text, 2), Text("b", text, 2)]).rows
    assert [(r.request, r.row) for r in rows] == [(0, 0), (0, 1), (0, 0), (1, 2), (1, 3), (1, 1)]


def test_a_retracted_request_keeps_its_first_rows() -> None:
    passes = [prefill(0, [1, 2]), decode(1, 3, 2), prefill(2, [1, 2, 3]), decode(3, 4, 3)]
    rows = plan(passes, [Text("r0", (1, 2, 3, 4), 2)]).rows
    assert [(r.position, r.step) for r in rows] == [(0, 0), (1, 0), (2, 1), (3, 3)]


def test_other_peoples_rows_are_counted_and_left_out() -> None:
    result = plan([prefill(0, [5, 6, 7], pool=3), prefill(1, [1, 2], pool=0)], [Text("r0", (1, 2, 3), 2)])
    assert (len(result.rows), result.foreign) == (2, 3)


def test_a_tree_is_followed_by_its_links() -> None:
    # 0 -> 1, 2; 1 -> 3; 2 -> 4, 5: the path 0, 2, 5 was accepted.
    parents = parents_of_tree([1, 3, 4, -1, -1, -1], [-1, 2, -1, -1, 5, -1])
    assert parents == (-1, 0, 0, 1, 2, 2)
    tree = Segment(1, 0, 0, (10, 11, 12, 13, 13, 14), (3, 4, 4, 5, 5, 5), parents)
    assert accepted(tree, (1, 2, 3, 10, 12, 14)) == [0, 2, 5]
    # A token that fits under a branch that was rejected stays out.
    assert accepted(tree, (1, 2, 3, 10, 11, 14)) == [0, 1]


def test_a_loop_in_the_links_ends() -> None:
    assert len(parents_of_tree([1, -1, -1], [-1, 2, 1])) == 3
