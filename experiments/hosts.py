"""Emulated hosts on one computer: network namespaces joined by a bridge, each with a link of limited bandwidth.

    python experiments/hosts.py --count 2 --rate 1gbit -- python -m hetjax.train ... --process_id {host}

runs a command on every host (`{host}` is its number, `{count}` how many there are, `{coordinator}` an address and port of
the first) and prints the seconds, the exit status and the bytes that crossed its link. Needs Linux, root, and iproute2.
The hosts share the computer's cores, so what is emulated is the network alone.
"""

import argparse
import contextlib
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

DEVICE = "eth0"
MOST = 64
POLL = 0.02  # seconds


class Ended(NamedTuple):
    """The result of a command on one host.

    Attributes:
      status: of its exit; None if it was stopped when the time was over.
      seconds: that it took.
      sent, received: bytes that crossed the host's link meanwhile.
      output: of both streams.
    """

    status: int | None
    seconds: float
    sent: int
    received: int
    output: str


class Host(NamedTuple):
    """A network namespace, and the address of its link."""

    namespace: str
    address: str

    def command(self, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *command]

    def crossed(self) -> tuple[int, int]:
        """Return the bytes sent and received on the link since it was made."""
        shown = subprocess.run(self.command(["cat", "/proc/net/dev"]), capture_output=True, text=True, check=True)
        (line,) = (line for line in shown.stdout.splitlines() if line.strip().startswith(f"{DEVICE}:"))
        fields = line.partition(":")[2].split()
        return int(fields[8]), int(fields[0])


@contextlib.contextmanager
def hosts(count: int, rate: str | None = None, name: str = "host-{host}") -> Iterator[list[Host]]:
    """Make hosts, and remove them in the end.

    Args:
      count: how many.
      rate: of what each sends, as `tc` writes it, `1gbit` or `100mbit`; None: as fast as the computer can.
      name: what they call each other; `{host}` is the number.
    """
    if platform.system() != "Linux" or os.geteuid() or not shutil.which("tc"):
        sys.exit("emulated hosts need Linux, root, and iproute2 (ip and tc)")
    if not 1 <= count <= MOST:
        sys.exit(f"{count} hosts, and there can be 1 to {MOST}")
    tag, subnet = secrets.token_hex(2), f"10.{64 + secrets.randbelow(64)}.{secrets.randbelow(256)}"
    made = [Host(f"hetjax-{tag}-{number}", f"{subnet}.{number + 1}") for number in range(count)]
    bridge = f"b{tag}"
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("link", "set", bridge, "up")
        names = "".join(f"{host.address} {name.replace('{host}', str(number))}\n" for number, host in enumerate(made))
        for number, host in enumerate(made):
            _connect(host, bridge, f"v{tag}{number}", rate, names)
        yield made
    finally:
        for host in made:
            subprocess.run(["ip", "netns", "del", host.namespace], stderr=subprocess.DEVNULL)
            shutil.rmtree(_etc(host), ignore_errors=True)
        subprocess.run(["ip", "link", "del", bridge], stderr=subprocess.DEVNULL)


def _connect(host: Host, bridge: str, link: str, rate: str | None, names: str) -> None:
    _etc(host).mkdir(parents=True)
    # Gloo binds to the address that the host's name resolves to.
    (_etc(host) / "hosts").write_text(f"{host.address} {socket.gethostname()}\n127.0.0.1 localhost\n{names}")
    _ip("netns", "add", host.namespace)
    _ip("link", "add", link, "type", "veth", "peer", "name", DEVICE, "netns", host.namespace)
    _ip("link", "set", link, "master", bridge, "up")
    _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", DEVICE)
    for device in ("lo", DEVICE):
        _ip("-n", host.namespace, "link", "set", device, "up")
    if rate:
        subprocess.run(host.command(["tc", "qdisc", "add", "dev", DEVICE, "root", *shape(rate)]), check=True)


def shape(rate: str) -> list[str]:
    """Return the arguments of `tc` that limit a link."""
    return ["tbf", "rate", rate, "burst", "256kb", "latency", "100ms"]


def _etc(host: Host) -> Path:
    return Path("/etc/netns") / host.namespace


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL)


def run(made: Sequence[Host], command: Sequence[str], folder: Path, timeout: float = 600) -> list[Ended]:
    """Run a command on every host at once; `{host}`, `{count}` and `{coordinator}` in it are filled in.

    Args:
      folder: for what the commands print.
      timeout: seconds after which those that still run are killed.
    """
    coordinator = f"{made[0].address}:{20000 + secrets.randbelow(40000)}"
    before, started, ends = [host.crossed() for host in made], time.perf_counter(), {}
    files = [folder / f"host_{number}.log" for number in range(len(made))]
    running = [
        _start(host, [_fill(word, number, len(made), coordinator) for word in command], file)
        for number, (host, file) in enumerate(zip(made, files))
    ]
    try:
        while len(ends) < len(running) and time.perf_counter() - started < timeout:
            for number, process in enumerate(running):
                if number not in ends and process.poll() is not None:
                    ends[number] = time.perf_counter() - started
            time.sleep(POLL)
        crossed = [host.crossed() for host in made]
    finally:  # Ctrl-C too
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return [
        Ended(
            running[number].returncode if number in ends else None,
            ends.get(number, timeout),
            *(after - old for after, old in zip(crossed[number], before[number])),
            file.read_text(errors="replace"),
        )
        for number, file in enumerate(files)
    ]


def _fill(word: str, number: int, count: int, coordinator: str) -> str:
    return word.replace("{host}", str(number)).replace("{count}", str(count)).replace("{coordinator}", coordinator)


def _start(host: Host, command: Sequence[str], file: Path) -> subprocess.Popen:
    with open(file, "w") as stream:
        return subprocess.Popen(
            host.command(command), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2, help="number of hosts")
    parser.add_argument("--rate", help="bandwidth of what each host sends: 10gbit, 100mbit; unset: no limit")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which the commands are killed")
    parser.add_argument("--logs", type=Path, default=Path("runs/hosts"), help="where what they print is kept")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after --, run on every host")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("no command after --")
    options.logs.mkdir(parents=True, exist_ok=True)
    with hosts(options.count, options.rate) as made:
        ended = run(made, command, options.logs, options.timeout)
    for number, one in enumerate(ended):
        status = "killed, as its time was over" if one.status is None else f"exit status {one.status}"
        print(f"host {number}: {status}, {one.seconds:.1f} s, {one.sent:,} bytes sent, {one.received:,} received")
        if one.status:
            print(one.output[-2000:])
    sys.exit(0 if all(one.status == 0 for one in ended) else 1)


if __name__ == "__main__":
    main()
