"""Calls of the kernel that are answered in its place: errors, parts of writes, and signals."""
import os
import signal

import mounts
from common import STEPS, both_told, finish, made, reads_go_on, reopen, sampled, write_again
from mounts import Failed, Unavailable
from server import Server
from workload import Expected, Load

PHASES = ["create", "open", "serve", "close"]


class Run:
    """A database that is made, filled and closed or killed, with calls that fail in one phase of that."""

    def __init__(self, context, phase, plan, is_watched=False):
        self.context, self.phase, self.plan, self.is_watched = context, phase, plan, is_watched
        self.expected, self.answered, self.has_ended, self.lost = Expected(), [], False, 0
        self.refused = 0

    def run(self, check):
        with mounts.scratch(self.context.work) as scratch:
            folder = scratch / "data"
            if self.phase != "create":
                made(self.context, folder, self.expected, STEPS // 2)
            folder.mkdir(exist_ok=True)
            is_early = self.phase in ("create", "open")
            options = {"new": self.phase == "create", "plan": self.plan if is_early else None}
            with both_told() as also:
                counts = {}
                with also, Server(self.context, folder, supervised=True, **options) as server:
                    counts = self.serve(server, is_early, check)
                reopen(self.context, folder, self.expected)
            return counts

    def serve(self, server, is_early, check):
        lose = self.context.seed if self.is_watched and self.plan else None
        is_ready = server.wait_ready()
        before = server.tell(do="report")
        if not is_ready:
            self.answered, self.has_ended = before["answered"], True
            server.end(lose)
            reason = server.reason()
            if not self.answered:
                raise Failed(f"it does not start, though no call failed: {reason}")
            return before["counts"]
        if is_early and self.plan is None:
            return before["counts"]
        if self.phase == "close" and lose is not None:
            server.tell(do="watch")
        if self.phase == "serve" and self.plan:
            server.tell(**self.plan)
        before = before["counts"] if self.phase == "serve" else None
        Load(server, self.expected, self.context.seed + 1, STEPS, refusals=30).wait()
        self.refused = self.expected.refused
        is_there = reads_go_on(server, self.expected)
        if self.phase == "close":
            before = server.tell(do="report")["counts"]
            if self.plan:
                # Watched already: a close makes durable what was written before.
                server.tell(**{**self.plan, "watch": False})
            os.kill(server.pid, signal.SIGTERM)
            if not server.has_ended(60):
                raise Failed("it does not end by SIGTERM")
        elif is_there:
            check(self, server)
        after = server.tell(do="report")
        self.answered = after["answered"]
        if self.phase == "close":
            if server.end(lose) != 0:
                server.reason()
        else:
            self.has_ended = finish(server, lose)
        self.lost = server.lost
        return {kind: count - (before or {}).get(kind, 0) for kind, count in after["counts"].items()}


def totals(context, phase):
    """How many calls of each class a phase has."""
    if (context.engine, phase) not in context.totals:
        context.totals[context.engine, phase] = Run(context, phase, None).run(lambda run, server: None)
    return context.totals[context.engine, phase]


def no_check(run, server):
    """Nothing more than what holds for every failure."""


def injected(context, plan, phases=PHASES, check=no_check, is_watched=False, classes=("write",), must_succeed=False,
             must_stay=False):
    """Some runs for each phase, each with calls that fail from another one on; what came of it, in words."""
    runs = answered = ended = lost = refused = skipped = 0
    for phase in phases:
        total = sum(totals(context, phase).get(kind, 0) for kind in classes)
        for after in sampled(context.chance, total, context.runs):
            now = {**plan, "classes": list(classes), "after": after, "watch": is_watched}
            run = Run(context, phase, now, is_watched)
            try:
                run.run(check)
                if must_succeed and (run.refused or run.has_ended):
                    raise Failed(f"{run.refused} writes are refused" + ", and it ended" * run.has_ended)
                if must_stay and phase == "serve" and run.has_ended:
                    raise Failed("the server ended")
            except Failed as failure:
                call = run.answered and run.answered[0]
                where = f" ({call['call']} of {call['file']})" if call else ""
                context.failures.append(f"{phase}, {'/'.join(classes)} call {after} of {total}{where}: {failure}")
            runs, ended, lost = runs + 1, ended + run.has_ended, lost + run.lost
            answered, refused = answered + len(run.answered), refused + run.refused
            skipped += not run.answered
    context.runs_done = runs
    if not runs:
        raise Unavailable("this engine makes no such calls")
    words = f"{answered} calls answered, {refused} writes refused, the server ended itself in {ended} of {runs} runs"
    if is_watched:
        words += f", {lost} pages lost"
    return words + (f"; in {skipped} no call came" if skipped else "")


def answer(kind, errno, count):
    return {"do": kind, "errno": errno, "count": count}


def eio(context):
    for kind in ("write", "sync"):
        for name, count in (("once", 1), ("from then on", None)):
            yield f"{kind}, {name}", lambda kind=kind, count=count: injected(
                context, answer("fail", "EIO", count), classes=[kind], is_watched=kind == "sync", must_stay=True)


def short(context):
    for name, count in (("once", 1), ("all", None)):
        yield f"writes, {name}", lambda count=count: injected(
            context, {"do": "short", "count": count, "seed": context.seed}, must_succeed=True)
    yield "interrupted calls", lambda: injected(
        context, answer("fail", "EINTR", 3), classes=["write", "sync", "allocate", "create"], must_succeed=True)


def room_comes_back(run, server):
    """Writes work when there is room again; where a write of the log failed, when the server is started again, as it
    says: the bytes lie in space that was set aside, so that no lack of room is foreseen there."""
    if run.phase != "serve":
        return
    server.tell(do="stop")
    try:
        write_again(server.client(), run.expected, 7, seconds=30)
    except Failed as failure:
        if "write" not in run.plan["classes"] or "MISCONF" not in str(failure):
            raise


def refused_calls(context, errno, counts):
    for kind in ("write", "allocate", "create", "rename"):
        for name, count in counts.items():
            yield f"{errno} from {kind}, {name}", lambda kind=kind, count=count: injected(
                context, answer("fail", errno, count), classes=[kind], check=room_comes_back, phases=PHASES[:3],
                must_stay=True)
