"""Writers that note where in the disk's log they were when they sent a request, and when it was acknowledged."""

import bisect
import dataclasses

from writers import Writer, apply, compare


@dataclasses.dataclass
class Settled:
    """What a writer found when the server was there again: this came of the requests that were under way."""

    values: dict
    keys: list

    def changes(self):
        return {key: self.values.get(key) for key in self.keys}


class Recorder(Writer):
    def __init__(self, number, seed, position, is_ordered):
        """Where several threads serve, the steps of a pipeline may become durable in another order (`is_ordered`)."""
        super().__init__(number, seed)
        self.position = position
        self.is_ordered = is_ordered
        # All steps, in order, with the position before each was sent. Both lists of positions ascend.
        self.steps = []
        self.sent_at = []
        # After how many steps something was acknowledged, and the position behind that.
        self.acknowledged_steps = []
        self.acknowledged_at = []

    def note_sent(self, steps):
        self.steps += steps
        self.sent_at += [self.position()] * len(steps)

    def note_acknowledged(self):
        self.acknowledged_steps.append(len(self.steps) - len(self.under_way))
        self.acknowledged_at.append(self.position())

    def settle(self, port):
        """What is found after a start counts as acknowledged from then on, as a client has read it."""
        violations = self.counted(self.check(port))
        self.note_sent([Settled(dict(self.acknowledged), self.keys + self.twins)])
        self.note_acknowledged()
        return violations

    def counted(self, violations):
        return violations if self.is_ordered else dataclasses.replace(violations, disordered=0)


class Judge:
    """Compares images with what one writer knows. The images come in the order of their flushes."""

    def __init__(self, recorder, flushes):
        self.recorder = recorder
        # The last flush that can have made each acknowledged step durable.
        self.due = [bisect.bisect_left(flushes, at) - 1 for at in recorder.acknowledged_at]
        self.done = 0
        self.state = {}

    def promised(self, flush):
        """How many steps must be there once the flush of this number is done."""
        count = bisect.bisect_right(self.due, flush)
        return self.recorder.acknowledged_steps[count - 1] if count else 0

    def compare(self, found, flush, end):
        """Compares what an image has that was cut before entry `end`, with this flush as the last one done."""
        recorder = self.recorder
        promised = self.promised(flush)
        while self.done < promised:
            apply(recorder.steps[self.done], self.state)
            self.done += 1
        possible = max(promised, bisect.bisect_right(recorder.sent_at, end))
        found = {key: found[key] for key in recorder.keys + recorder.twins if key in found}
        self.promises = promised, possible
        steps = recorder.steps[promised:possible]
        return recorder.counted(compare(found, self.state, steps, recorder.keys, recorder.twins))

    def story(self, found):
        """Some keys whose value is not the one promised, of the image that was just compared."""
        recorder = self.recorder
        others = [key for key in recorder.keys + recorder.twins if found.get(key) != self.state.get(key)]
        told = ", ".join(
            f"{key.decode()} has {short(found.get(key))} for {short(self.state.get(key))}" for key in others[:3]
        )
        first, last = self.promises
        return f"writer {recorder.number}, {first} steps promised and {last} possible: {told}"


def short(value):
    return "nothing" if value is None else value.rstrip(b".").decode()
