"""Processes that hold GPU memory, and whose they are."""

from __future__ import annotations

from helpers.box.facts.fact import Fact, Model, section, sections, shell, unreadable

# The name comes last: it may hold commas.
COMMAND = shell(r"""
out=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,process_name --format=csv,noheader,nounits 2>&1); s=$?
printf '== apps\n%s\n== exit %s\n== owners\n' "$out" $s
pids=$(printf '%s\n' "$out" | awk -F', *' '$2 ~ /^[0-9]+$/ { printf "%s%s", c, $2; c = "," }')
if [ -n "$pids" ]; then ps -o pid= -o user:32= -p "$pids"; fi
exit 0
""")


class GpuProcess(Model):
    """One process on one GPU. memory in MiB, None where the driver does not tell; user None where it has ended."""

    gpu_uuid: str
    pid: int
    memory: int | None
    name: str
    user: str | None


class GpuProcesses(Model):
    processes: tuple[GpuProcess, ...]
    problem: str | None


def parse(text: str) -> GpuProcesses:
    """From what `COMMAND` printed.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    found = sections("gpu_processes", text)
    apps, status = section("gpu_processes", found, "apps"), section("gpu_processes", found, "exit").rest
    if status != "0":
        return GpuProcesses(processes=(), problem=" ".join(apps.text.split()) or f"exit status {status}")
    owners = {}
    for number, line in section("gpu_processes", found, "owners").lines:
        fields = line.split()
        if len(fields) != 2 or not fields[0].isdigit():
            raise unreadable("gpu_processes", number, line, "a process id and a user")
        owners[int(fields[0])] = fields[1]
    processes = []
    for number, line in apps.lines:
        # "No running processes found" is what some drivers print instead of nothing.
        if not line.strip() or line.lower().startswith("no running"):
            continue
        fields = [field.strip() for field in line.split(",", 3)]
        if len(fields) != 4 or not fields[1].isdigit():
            raise unreadable("gpu_processes", number, line, "gpu_uuid, pid, used_memory, process_name")
        memory = int(fields[2]) if fields[2].isdigit() else None
        pid = int(fields[1])
        processes.append(GpuProcess(gpu_uuid=fields[0], pid=pid, memory=memory, name=fields[3], user=owners.get(pid)))
    return GpuProcesses(processes=tuple(processes), problem=None)


FACT = Fact("gpu_processes", COMMAND, parse)
