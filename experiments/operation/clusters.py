"""The files of examples/cluster, run on emulations of their clusters: SLURM over emulated hosts, and the command of Kubernetes' pods.

    python experiments/operation/clusters.py

Starts SLURM on four emulated hosts of this computer (experiments/hosts.py), submits slurm.sh, submits it again and kills
one of its processes, and submits that once more on two hosts, where it goes on. Then the command of jobset.yaml runs on
four hosts by the names that its pods would have, and mpirun starts two processes. Each is held against one process with
the same mesh. Prints the table and writes experiments/operation/results/clusters.csv.

Needs Linux, root, iproute2, SLURM with munge, and Open MPI (Debian: slurmctld slurmd slurm-client munge openmpi-bin). The
hosts share the computer's cores and files, and SLURM's GPUs are /dev/null.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from experiments.hosts import Host, hosts, run
from experiments.runs import ROOT, environment, records, write_rows

RESULTS = Path(__file__).parent / "results" / "clusters.csv"
TOOLS = ("slurmctld", "slurmd", "sbatch", "munged", "mpirun")
COUNT = 4
PATIENCE = 60  # seconds that SLURM has to start
EPOCHS = 8  # of the run that is killed
TRAIN = [sys.executable, "-m", "hetjax.train", "--config", "examples/raf.yaml"]
CONF = """
ClusterName=emulated
SlurmctldHost={here}({first})
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
StateSaveLocation={folder}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmctldLogFile={folder}/slurmctld.log
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def main() -> None:
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        sys.exit(f"{', '.join(missing)}: not installed (Debian: slurmctld slurmd slurm-client munge openmpi-bin)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= environment(folder) | {"PYTHONPATH": str(ROOT)}
        for part in "hetjax", "examples":
            (folder / part).symlink_to(ROOT / part)
        (folder / ".venv").symlink_to(sys.prefix)
        os.chdir(folder)
        alone = folder / "one"
        subprocess.run([*TRAIN, f"--workdir={alone}", f"--train.epochs={EPOCHS}"], check=True, capture_output=True)
        rows = []
        for made in on_slurm(folder), on_pods(folder), by_mpirun(folder):
            for what, workdir, seconds, note in made:
                rows.append({"what": what, **compared(workdir, alone), "seconds": round(seconds), "note": note})
                print(*rows[-1].values(), sep=" | ", flush=True)
        write_rows(RESULTS, rows)


def compared(workdir: Path, alone: Path) -> dict:
    """Return the relative difference of each epoch's loss to that of one process: the first's, and the largest."""
    losses, expected = ([one["train_loss"] for one in records(of) if "train_loss" in one] for of in (workdir, alone))
    differences = [abs(loss / other - 1) for loss, other in zip(losses, expected)]
    return {
        "epochs": len(losses),
        "first_loss": f"{differences[0]:.1e}",
        "worst_loss": f"{max(differences):.1e}",
    }


def on_slurm(folder: Path) -> Iterator[tuple]:
    with hosts(COUNT) as made, slurm(made, folder / "slurm"):
        started = time.perf_counter()
        submit(made).wait_for(0)
        yield "sbatch slurm.sh, 4 nodes", folder / "runs/raf-slurm", time.perf_counter() - started, ""

        workdir = folder / "runs/killed"
        options = [f"--train.epochs={EPOCHS}", f"--workdir={workdir}"]
        job = submit(made, *options)
        while not (workdir / "metrics.jsonl").exists() or not records(workdir):
            time.sleep(0.1)
        killed = kill(made[2])
        started = time.perf_counter()
        job.wait_for(128 + signal.SIGKILL)
        seconds = time.perf_counter() - started
        said = (folder / f"slurm-{job.number}.out").read_text().count(f"process 2 (pid {killed} on ")
        yield "one process killed", workdir, seconds, f"all ended; {said} lines named it"

        started = time.perf_counter()
        submit(made, *options, nodes=2).wait_for(0)
        yield "submitted again, 2 nodes", workdir, time.perf_counter() - started, ""


class Job:
    """A submitted job."""

    def __init__(self, process: subprocess.Popen):
        self.process = process
        self.number = process.stdout.readline().split()[-1]

    def wait_for(self, status: int) -> None:
        if self.process.wait() != status:
            sys.exit(f"the job ended with {self.process.returncode}\n{Path(f'slurm-{self.number}.out').read_text()}")


def submit(made: list[Host], *options: str, nodes: int = COUNT) -> Job:
    command = ["sbatch", "--wait", f"--nodes={nodes}", "examples/cluster/slurm.sh", *options]
    return Job(subprocess.Popen(made[0].command(command), stdout=subprocess.PIPE, text=True))


def kill(host: Host) -> int:
    """Kill the training process of a host; return its number."""
    shown = subprocess.run(["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=True)
    for number in map(int, shown.stdout.split()):
        words = Path(f"/proc/{number}/cmdline").read_text().split("\0")
        if Path(words[0]).name.startswith("python") and "hetjax.train" in words:
            os.kill(number, signal.SIGKILL)
            return number
    sys.exit(f"{host.namespace} has no process to kill")


@contextlib.contextmanager
def slurm(made: list[Host], folder: Path) -> Iterator[None]:
    """Run SLURM on hosts, each a node of its name with one GPU that is none; its files are in `folder`."""
    names = [f"host-{number}" for number in range(len(made))]
    for place in folder, *(folder / name for name in names):
        place.mkdir()
    here = os.uname().nodename
    settings = CONF.format(here=here, first=names[0], folder=folder).splitlines()
    settings[-1:-1] = [f"NodeName={name} NodeHostname={here} NodeAddr={name} CPUs=8 Gres=gpu:1" for name in names]
    conf = folder / "slurm.conf"
    conf.write_text("\n".join([*settings, ""]))
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o400)
    os.environ["SLURM_CONF"] = str(conf)
    files = {"socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log", "seed-file": "munge.seed"}
    munge = ["munged", "--foreground", "--force", f"--key-file={folder}/munge.key"]
    commands = [
        [*munge, *(f"--{option}={folder}/{file}" for option, file in files.items())],
        made[0].command(["slurmctld", "-D"]),
        *(daemon(host, name) for host, name in zip(made, names)),
    ]
    running = []
    try:
        for command in commands:
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(1)
        started = time.perf_counter()
        while idle(made[0]) < len(made):
            if time.perf_counter() - started > PATIENCE:
                sys.exit(f"SLURM did not start:\n{(folder / 'slurmctld.log').read_text()[-2000:]}")
            time.sleep(1)
        yield
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def daemon(host: Host, name: str) -> list[str]:
    """Return the command of slurmd on a host, with the control groups that it needs, which `ip netns exec` hides."""
    here = f"mount --bind /etc/netns/{host.namespace}/hosts /etc/hosts; exec slurmd -D -N {name}"
    return ["nsenter", f"--net=/run/netns/{host.namespace}", "unshare", "--mount", "sh", "-c", here]


def idle(host: Host) -> int:
    """Return the number of nodes that wait for work."""
    shown = subprocess.run(host.command(["sinfo", "-h", "-N", "-o", "%T"]), capture_output=True, text=True)
    return shown.stdout.split().count("idle")


def on_pods(folder: Path) -> Iterator[tuple]:
    (job,) = yaml.safe_load((ROOT / "examples/cluster/jobset.yaml").read_text())["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (volume,) = container["volumeMounts"]
    command = [word.replace(volume["mountPath"], str(folder / "pods")) for word in container["command"]]
    with hosts(spec["completions"], name="hetjax-train-0-{host}.hetjax") as made:
        ended = run(made, ["env", "JOB_COMPLETION_INDEX={host}", *command], folder)
    for one in ended:
        if one.status != 0:
            sys.exit(f"a pod's command ended with {one.status}\n{one.output}")
    yield "jobset.yaml, 4 pods", folder / "pods/raf", max(one.seconds for one in ended), ""


def by_mpirun(folder: Path) -> Iterator[tuple]:
    workdir, started = folder / "mpi", time.perf_counter()
    command = [
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "2",
        *TRAIN,
        f"--workdir={workdir}",
        "--cluster=ompi",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"mpirun ended with {done.returncode}\n{done.stderr}")
    yield "mpirun -n 2", workdir, time.perf_counter() - started, ""


if __name__ == "__main__":
    main()
