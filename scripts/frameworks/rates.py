"""The driver of scripts/bench-jobs: starts servers in turns, runs the queues' programs on them, and prints a table.

A program is told the scenario, the host, the port and the number of jobs. It prints lines:

    version NAME VERSION     the version of a package it uses
    rate JOBS STEP           jobs a second of a step
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import kits
from server import HOST, Server, default_base

# The longest that a run of a program may take, in seconds.
LIMIT = 300


class Side(Server):
    """One of the servers, by its name; those that are not Halite keep a log that they never rewrite."""

    def __init__(self, name, programs, base):
        self.name = name
        self.program = programs[name]
        choice = argparse.Namespace(halite=programs.get("halite"), redis=None if name == "halite" else self.program, option=[])
        super().__init__(choice, None, base)

    def command(self):
        if self.name == "halite":
            return [self.program, "serve", str(self.folder / "db"), "--port", str(self.port)]
        return [*super().command(), "--auto-aof-rewrite-percentage", "0"]


def queues(only):
    node, ruby = kits.Node("node"), kits.Ruby("ruby")
    table = [kits.Scenario("bullmq", node, "bullmq_rates.mjs", "rates"),
             kits.Scenario("sidekiq", ruby, "sidekiq_rates.rb", "rates", "sidekiq")]
    return [queue for queue in table if not only or queue.client in only]


def run(queue, side, jobs):
    """Runs a queue's program on a server; returns its rates by step, and the versions."""
    command, folder, environment = queue.kit.command(queue)
    done = subprocess.run([*command, queue.name, HOST, str(side.port), str(jobs)], cwd=folder, env=os.environ | environment,
                          capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    rates, versions = {}, []
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "rate":
            rate, _, step = rest.partition(" ")
            rates[step] = float(rate)
        elif word == "version":
            versions.append(rest)
    if done.returncode or not rates:
        raise RuntimeError(f"{queue.client} on {side.name}: {(done.stdout + done.stderr)[-1000:]}")
    return rates, ", ".join(versions)


def measure(choice, programs, found):
    """Runs everything, and returns a row for each folder, queue and step."""
    rows = {}
    for folder in choice.folder:
        for repeat in range(choice.repeats):
            for queue in found:
                # Another one begins each time.
                names = list(programs)
                turn = repeat % len(names)
                for name in names[turn:] + names[:turn]:
                    print(f"{repeat + 1}/{choice.repeats} {queue.client} on {name} in {folder}", file=sys.stderr, flush=True)
                    side = Side(name, programs, folder)
                    try:
                        rates, versions = run(queue, side, choice.jobs)
                    finally:
                        fault = side.close()
                    if fault:
                        raise RuntimeError(f"{name}: {fault}")
                    for step, rate in rates.items():
                        row = rows.setdefault((folder, queue.client, step), {"folder": folder, "queue": queue.client,
                                              "versions": versions, "step": step, "rates": {side: [] for side in programs}})
                        row["rates"][name].append(round(rate))
    for row in rows.values():
        row["medians"] = {name: statistics.median(rates) for name, rates in row["rates"].items()}
    return list(rows.values())


def table(rows, names):
    others = [name for name in names if name != "halite"]
    ratios = [f"halite/{name}" for name in others]
    lines = ["| " + " | ".join(["folder", "queue", "step", *names, *ratios]) + " |", "|" + "---|" * (3 + len(names) + len(ratios))]
    for row in rows:
        medians = row["medians"]
        cells = [row["folder"], row["versions"], row["step"], *(f"{medians[name]:,.0f}" for name in names)]
        cells += [f"{medians['halite'] / medians[name]:.2f}" for name in others]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def build():
    root = pathlib.Path(__file__).resolve().parents[2]
    subprocess.run(["cargo", "build", "--release", "--package", "halite-cli"], cwd=root, check=True)
    return str(root / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "halite")


def arguments():
    parser = argparse.ArgumentParser(prog="bench-jobs")
    for name in ("halite", "redis", "valkey"):
        parser.add_argument(f"--{name}", metavar="PROGRAM")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--install", action="store_true")
    choice = parser.parse_args()
    choice.folder = choice.folder or [default_base()]
    return choice


def main():
    choice = arguments()
    programs = {"halite": choice.halite or build(), "redis": choice.redis or shutil.which("redis-server"),
                "valkey": choice.valkey or shutil.which("valkey-server")}
    programs = {name: str(pathlib.Path(program).absolute()) for name, program in programs.items() if program}
    found = []
    for queue in queues(choice.only):
        queue.kit.prepare(choice.install)
        if why := queue.kit.missing(queue):
            print(f"{queue.client} is left out: {why}", file=sys.stderr)
        else:
            found.append(queue)
    rows = measure(choice, programs, found)
    if choice.json:
        print(json.dumps({"jobs": choice.jobs, "repeats": choice.repeats, "rows": rows}))
    else:
        print(f"Jobs a second, medians of {choice.repeats} runs of {choice.jobs} jobs a step:\n")
        print(table(rows, list(programs)))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
