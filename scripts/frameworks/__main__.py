"""The driver of scripts/test-frameworks: starts servers, runs each scenario's program on them, and prints a table.

A program is told the scenario, the host and the port as its arguments. It prints lines:

    version NAME VERSION     the version of a package it uses, whose name the table shows
    kill                     kill the server now, start it again, and say `back` on my standard input
    down                     kill the server now and say `down`; it starts again when the program prints `up`
    pass HOW                 the job is done, and nothing acknowledged is lost
    fail WHY                 the opposite

Other lines are kept, and shown if the scenario fails.
"""

import argparse
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

import kits
from server import HOST, Server, default_base

# The time of a scenario, and how long the server stays away when it is killed, in seconds.
LIMIT = 60
AWAY = 0.4


class Run:
    """One scenario on one server: its program, and what that printed."""

    def __init__(self, scenario, server, show):
        self.scenario = scenario
        self.server = server
        self.show = show
        self.version = ""
        self.printed = []
        self.verdict = None

    def run(self):
        command, folder, environment = self.scenario.kit.command(self.scenario)
        self.program = subprocess.Popen(
            [*command, self.scenario.name, HOST, str(self.server.port)],
            cwd=folder, env=os.environ | environment, text=True, errors="replace", start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        lines = queue.Queue()
        reader = threading.Thread(target=self.read, args=(lines,), daemon=True)
        reader.start()
        deadline = time.monotonic() + LIMIT
        try:
            while self.verdict is None:
                line = lines.get(timeout=max(0.01, deadline - time.monotonic()))
                if line is None:
                    self.verdict = ("fail", "the program ended without a result")
                else:
                    self.obey(line)
        except queue.Empty:
            self.verdict = ("fail", f"no result in {LIMIT} s")
        except (BrokenPipeError, RuntimeError) as error:
            self.verdict = ("fail", str(error))
        finally:
            self.end()
        return self.verdict

    def read(self, lines):
        for line in self.program.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    def obey(self, line):
        if self.show:
            print(f"    {line}", file=sys.stderr, flush=True)
        word, _, rest = line.partition(" ")
        match word:
            case "version":
                self.version = (self.version + ", " + rest).lstrip(", ")
            case "kill":
                self.server.kill()
                time.sleep(AWAY)
                self.server.start()
                self.say("back")
            case "down":
                self.server.kill()
                self.say("down")
            case "up":
                self.server.start()
                self.say("back")
            case "pass" | "fail":
                self.verdict = (word, rest)
            case _:
                self.printed.append(line)

    def say(self, word):
        self.program.stdin.write(word + "\n")
        self.program.stdin.flush()

    def end(self):
        """Ends the program and the workers it started: they are a process group of their own."""
        try:
            os.killpg(self.program.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.program.wait()
        self.program.stdin.close()


def attempt(scenario, threads, choice):
    """Runs the scenario; returns a row of the table."""
    row = {"client": scenario.client, "version": "", "scenario": scenario.name, "threads": threads}
    why = scenario.kit.missing(scenario)
    if why:
        return row | {"result": "skipped", "detail": why}
    server = Server(choice, threads, choice.dir)
    run = Run(scenario, server, choice.show)
    started = time.monotonic()
    try:
        result, detail = run.run()
    finally:
        fault = server.close()
    if fault:
        result, detail = "fail", f"{detail}; {fault}"
    if result == "fail" and not choice.show:
        print("\n".join(f"    {line}" for line in run.printed[-40:]), file=sys.stderr)
    return row | {"version": run.version, "result": result, "detail": detail,
                  "seconds": round(time.monotonic() - started, 1)}


def show(row):
    said = f"skipped: {row['detail']}" if row["result"] == "skipped" else f"{row['result']}: {row['detail']}"
    return f"| {row['client']} | {row['version']} | {row['scenario']} | {row['threads']} | {said} |"


def chosen(scenarios, only):
    if not only:
        return scenarios
    return [s for s in scenarios if s.client in only or f"{s.client}/{s.name}" in only or s.kit.name in only]


def build():
    root = pathlib.Path(__file__).resolve().parents[2]
    subprocess.run(["cargo", "build", "--release", "--package", "halite-cli"], cwd=root, check=True)
    return str(root / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "halite")


def arguments():
    parser = argparse.ArgumentParser(prog="test-frameworks")
    parser.add_argument("--halite", metavar="PROGRAM")
    parser.add_argument("--redis", metavar="PROGRAM")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    parser.add_argument("--option", action="append", default=[], help="an option of `halite serve`")
    parser.add_argument("--dir", default=default_base())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--show", action="store_true")
    return parser.parse_args()


def main():
    choice = arguments()
    scenarios = chosen(kits.scenarios(), choice.only)
    if choice.list:
        print("\n".join(f"{s.client}/{s.name}" for s in scenarios))
        return 0
    if not scenarios:
        print("no such scenario", file=sys.stderr)
        return 2
    if choice.redis:
        choice.threads = [1]
    else:
        choice.halite = os.path.abspath(choice.halite) if choice.halite else build()
    for kit in dict.fromkeys(s.kit for s in scenarios):
        kit.prepare(choice.install)
    failed = False
    if not choice.json:
        print("| client | version | scenario | threads | result |\n|---|---|---|---|---|", flush=True)
    for scenario in scenarios:
        for threads in choice.threads:
            row = attempt(scenario, threads, choice)
            failed |= row["result"] == "fail"
            print(json.dumps(row) if choice.json else show(row), flush=True)
    return 1 if failed else 0


sys.exit(main())
