"""`workbook replay`: thin, a call into helpers/wiring/replay and its result as text or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.commands.output import AsJson, emit
from helpers.errors import UsageError

if TYPE_CHECKING:
    from helpers.tensors.capture import Capture
    from helpers.tensors.capture_info import Info
    from helpers.wiring.replay import Ablation, Replay, Search, Versus
    from helpers.wiring.replay.attribution import SlotShare


def replay(
    draft: Annotated[Path, typer.Option(metavar="DIR", help="The drafter's folder, here: not the box's.")],
    target: Annotated[
        Path, typer.Option(metavar="DIR", help="The target's folder, here: embedding, final norm, head.")
    ],
    capture: Annotated[Path, typer.Option(metavar="PATH", help="A capture of the target, here.")],
    taps: Annotated[
        str | None, typer.Option(metavar="LIST", help="Boundaries, such as 3,31,59; else the feed.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Drafts a round; the server's, or 3.")] = None,
    new_tokens: Annotated[int | None, typer.Option(min=1, help="Score as if requests had ended after so many.")] = None,
    search: Annotated[bool, typer.Option("--search", help="Rank all wirings that the ladder allows.")] = False,
    limit_s: Annotated[float, typer.Option(min=1, help="Time limit of the search, in seconds.")] = 60.0,
    train: Annotated[
        Path | None, typer.Option(metavar="PATH", help="With --search: a training dump, whose match it begins with.")
    ] = None,
    ablate: Annotated[bool, typer.Option("--ablate", help="What each slot costs.")] = False,
    right: Annotated[
        str | None, typer.Option(metavar="LIST", help="With --ablate: boundaries held to be right.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Says what acceptance a wiring gives, from captured tokens and states, without a server."""
    from helpers.progress import progress
    from helpers.tensors.capture import read_capture
    from helpers.wiring import replay as room
    from helpers.wiring.drafter import load_drafter, load_target
    from helpers.wiring.replay.taps import Source

    tried, held = numbers("--taps", taps), numbers("--right", right)
    if train is not None and not search:
        raise UsageError(
            "WB-USAGE", "--train is for a search", expected="--search beside it", next="workbook replay --help"
        )
    source = Source(read_capture(capture, verify=True))
    steps = steps or int(source.capture.info.launch.get("speculative_num_steps") or 3)
    lender = load_target(target)
    drafter = load_drafter(draft, lender, dtype=source.dtype)
    wiring = source.served() if tried is None else room.boundaries(tried)
    result: dict[str, Any]
    with progress("replay", done="replayed") as bar:
        bar.update("taps", ",".join(map(str, wiring)))
        replayed = room.replay(drafter, lender, source, wiring, steps=steps, new_tokens=new_tokens)
        shares = room.attribute(drafter, source, wiring)
        result = {
            **replayed.model_dump(mode="json"),
            "attribution": [share.model_dump(mode="json") for share in shares],
        }
        text = [describe(replayed)]
        if tried is not None and source.capture.slots:
            served = room.versus(drafter, lender, source, wiring, source.served(), steps=steps, new_tokens=new_tokens)
            result["served"] = served.model_dump(mode="json")
            text += [describe_served(served)] if served.taps != replayed.taps else []
        text += ["", describe_shares(shares)]
        if search:
            trained = None if train is None else trained_at(source.capture, train)
            result["trained"] = trained
            start = trained or [tap.index for tap in wiring if tap.kind == "boundary"]
            found = room.search(
                drafter,
                lender,
                source,
                start=start,
                steps=steps,
                new_tokens=new_tokens,
                limit_s=limit_s,
                each=lambda what: bar.update("search:", what),
            )
            ids = ids_for(source.capture.info, found.best)
            result["search"] = {**found.model_dump(mode="json"), "aux_layer_ids": ids}
            text += ["", describe_search(found), *([f"ids that tap the first: {ids}"] if ids else [])]
            held = held or found.best
            if train is not None:
                text.append(f"the dump was captured at {trained or 'boundaries that are in doubt'}")
        if ablate:
            changed = room.ablate(
                drafter,
                lender,
                source,
                wiring,
                right=held,
                steps=steps,
                new_tokens=new_tokens,
                each=lambda what: bar.update("ablation:", what),
            )
            result["ablation"] = [one.model_dump(mode="json") for one in changed]
            text += ["", describe_ablation(changed)]
    emit(result, as_json=as_json, text="\n".join(text))
    return 0


def numbers(option: str, text: str | None) -> list[int] | None:
    """A list of boundaries."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(
            "WB-USAGE",
            f"{option} {text!r} is no list of boundaries",
            expected="numbers with commas, in slot order",
            next=f"{option} 3,31,59",
        ) from error


def trained_at(capture: Capture, train: Path) -> list[int] | None:
    """The boundaries that a dump was captured at, as far as the capture's ladder tells."""
    from helpers.tensors.dumps import read_dump
    from helpers.wiring.features import trained_boundaries

    return trained_boundaries(capture, read_dump(train, slots=capture.slots))


def ids_for(info: Info, taps: list[int]) -> list[int] | None:
    """The captured engine's ids for a wiring; None where its rule is not known or no ids tap this."""
    from helpers.wiring.boundaries import convention_of

    convention = convention_of(info)
    return None if convention is None else convention.ids(taps, info.model.num_layers)


def describe_served(served: Versus) -> str:
    return f"against what was served: {served}"


def describe(result: Replay) -> str:
    low, high = result.ci95
    lines = [
        f"taps {','.join(map(str, result.taps))}: accept rate {result.accept_rate:.3f} [{low:.3f}, {high:.3f}], "
        f"accept length {result.accept_length:.2f}, {result.verify_steps} steps, {len(result.requests)} requests",
        "survival " + ", ".join(f"S({k}) {value:.3f}" for k, value in enumerate(result.survival, start=1)),
    ]
    if result.cross_entropy is not None:
        lines.append(f"step-1 cross-entropy {result.cross_entropy:.4f} nats over {result.rows} rows")
    return "\n".join([*lines, *result.notes])


def describe_shares(shares: list[SlotShare]) -> str:
    head = "slot  tap        fc norm  input norm  product  brings  share"
    return "\n".join(
        [
            head,
            *(
                f"{s.slot:<4}  {s.tap:<9}  {s.fc_norm:7.3f}  {s.input_norm:10.3f}  {s.product:7.2f}  "
                f"{s.contribution:6.3f}  {s.share:5.1%}"
                for s in shares
            ),
            "fc norm: of the columns of fc. input norm: mean length of what enters them. product: of the two, the",
            "most that the slot can bring. brings: mean length of what it does bring. share: of the sum over slots.",
        ]
    )


def describe_search(found: Search) -> str:
    lines = [
        f"searched {found.tried} of {found.candidates} wirings and {found.other_orders_tried} other orders "
        f"in {found.seconds:.0f} s ({found.sample_rows} rows of {found.sample_requests} requests, best on all rows)",
        "rank  taps           cross-entropy  above the first [95%]      accept rate",
    ]
    for rank, one in enumerate(found.ranking, start=1):
        low, high = one.ci95
        words = "" if rank == 1 or not one.within_chance else "  within chance of the first"
        words += "" if one.reachable else "  (another order: needs another fc)"
        lines.append(
            f"{rank:<4}  {','.join(map(str, one.taps)):<13}  {one.cross_entropy:13.4f}  "
            f"{one.difference:+.4f} [{low:+.4f}, {high:+.4f}]  {one.accept_rate:.3f}{words}"
        )
    return "\n".join([*lines, *([f"not tried: {found.not_tried}"] if found.not_tried else [])])


def describe_ablation(changed: list[Ablation]) -> str:
    return "\n".join(
        [
            "slot  change     taps           accept rate  difference [95%]",
            *(
                f"{one.slot:<4}  {one.change:<9}  {','.join(map(str, one.taps)):<13}  {one.accept_rate:11.3f}  "
                f"{one.difference:+.3f} [{one.ci95[0]:+.3f}, {one.ci95[1]:+.3f}]"
                for one in changed
            ),
        ]
    )
