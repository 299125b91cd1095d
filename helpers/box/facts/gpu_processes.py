"""Who holds GPU memory, by nvidia-smi."""

from __future__ import annotations

from collections.abc import Mapping

from helpers.box.facts import smi
from helpers.box.facts.answer import Absent, Answer, Fact, Question, unreadable
from helpers.box.facts.servers import Process
from helpers.box.result import masked_words

FACT = "gpu_processes"
QUESTION = Question(
    FACT,
    (("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory,process_name", "--format=csv"),),
    timeout=40.0,
)


class Holder(Fact):
    """A process on one GPU.

    Attributes:
        pid: as the driver counts: the box's own, which in a container may be nobody's or another process's.
        name: as nvidia-smi tells it; None where it may not (``[Not Found]``).
        gpu_uuid: of the GPU, or of the MIG instance. memory: MiB, None where it is not told.
        gpu: the index of that GPU. user, command: of the box's process with that pid, if it has a GPU open.
    """

    pid: int
    name: str | None = None
    gpu_uuid: str | None = None
    memory: int | None = None
    gpu: int | None = None
    user: str | None = None
    command: str | None = None


class GpuProcesses(Fact):
    """All of them; none where the GPUs are free, or where a container is shown none."""

    processes: tuple[Holder, ...] = ()

    def described(self, owners: Mapping[int, Process], indices: Mapping[str | None, int]) -> GpuProcesses:
        """The same with the GPUs' indices, and with users and commands.

        Args:
            owners: processes of the box by pid. One that has no GPU open only happens to have the driver's number.
            indices: of GPUs and MIG instances, by uuid.
        """
        processes = []
        for holder in self.processes:
            owner = owners.get(holder.pid)
            about: dict[str, object] = {"gpu": indices.get(holder.gpu_uuid)}
            if owner is not None and owner.nvidia is not False:
                words = masked_words(owner.argv)
                about |= {"user": owner.user, "command": " ".join(words)[:200] or owner.name}
            processes.append(holder.model_copy(update=about))
        return GpuProcesses(processes=tuple(processes))


def parse(answer: Answer) -> GpuProcesses | Absent:
    """Read the table.

    Raises:
        RemoteFailed: as with the GPUs themselves.
    """
    absent = smi.refused(FACT, answer)
    if absent is not None:
        return absent
    rows, _ = smi.table(FACT, answer, ("pid",), last="process_name")
    return GpuProcesses(processes=tuple(_holder(answer, row) for row in rows))


def _holder(answer: Answer, row: smi.Row) -> Holder:
    pid = smi.whole(FACT, answer, row, "pid")
    if pid is None:
        raise unreadable(FACT, answer, row.number, "a process id")
    return Holder(
        pid=pid,
        name=smi.text(row.cells.get("process_name")),
        gpu_uuid=smi.text(row.cells.get("gpu_uuid")),
        memory=smi.whole(FACT, answer, row, "used_gpu_memory"),
    )
