"""Reads the traces of ranks on the stand-ins for CUDA and NCCL, and says what a GPU would hold against them.

Checked for every rank: collectives are on a stream of their own, that of the highest priority; each begins behind all work
queued on the stream of the arithmetic by then, and belongs to the recording of a step when that does; nothing waits on the
host while a step is recorded; what forked comes back before the recording ends and before a recorded step is launched;
groups are balanced. And all ranks make the same calls in the same order.

As a program: order.py TRACE... prints what it counted; status 1 and the first complaint otherwise.
SPDX-License-Identifier: Apache-2.0
"""
import sys
from collections import defaultdict


class Complaint(Exception):
    pass


class Rank:
    """One trace, line by line. clock[s][t]: how much of stream t's work is over before what is queued on s next."""

    def __init__(self, path):
        self.path = path
        self.queued = defaultdict(int)
        self.clock = defaultdict(lambda: defaultdict(int))
        self.events = {}
        self.priority = {}
        self.group = 0
        self.recording = None  # the stream whose capture is on
        self.calls = []
        self.own = None  # stream of the collectives
        self.counts = defaultdict(int)
        self.rank = None
        self.transport = None

    def read(self):
        with open(self.path) as file:
            for number, line in enumerate(file, 1):
                words = line.split()
                handler = getattr(self, "on_" + words[0])
                try:
                    handler(*words[1:])
                except Complaint as complaint:
                    raise Complaint(f"{self.path}:{number}: {line.strip()}: {complaint}") from None
        if self.group:
            raise Complaint(f"{self.path}: a group was never ended")
        return self

    # ---- the runtime ----

    def on_stream(self, stream, _, priority):
        self.priority[stream] = int(priority)

    def on_work(self, stream):
        self.queued[stream] += 1

    def on_record(self, event, stream):
        seen = dict(self.clock[stream])
        seen[stream] = self.queued[stream]
        self.events[event] = seen

    def on_wait(self, stream, event):
        for other, count in self.events.get(event, {}).items():
            self.clock[stream][other] = max(self.clock[stream][other], count)

    def on_sync(self, stream):
        if self.recording is not None:
            raise Complaint("the host waits inside a recording")
        for other in self.priority:
            self.clock[other][stream] = self.queued[stream]

    def on_begin(self, stream):
        self.joined("a recording begins")
        self.recording = stream
        self.counts["recordings"] += 1

    def on_end(self, stream, error):
        if error == "0":
            self.joined("a recording ends")
        self.recording = None

    def on_graph(self, stream):
        self.joined("a recorded step is launched")
        self.counts["launches"] += 1

    def joined(self, when):
        """The arithmetic waits for every collective so far."""
        if self.own and self.clock["1"][self.own] < self.queued[self.own]:
            raise Complaint(f"{when} before the arithmetic waits for all collectives")

    # ---- NCCL ----

    def on_comm(self, what, rank=None, *rest):
        if what == "rank":
            self.rank = int(rank)
            self.transport = " ".join(rest[3:])
        if what == "waits":
            raise Complaint("the communicator is to end before the recorded steps that have its calls")

    def on_group(self, step):
        self.group += int(step)
        if self.group < 0:
            raise Complaint("a group ends that was not begun")

    def on_nccl(self, name, stream, count, dtype, op, root, captured=None):
        if stream in ("0", "1", "2"):
            raise Complaint("a collective on a stream of other work")
        if self.own not in (None, stream):
            raise Complaint(f"a collective on another stream than before ({self.own})")
        if self.priority[stream] > min(self.priority.values()):
            raise Complaint("the collectives' stream has no priority")
        first = not self.calls  # of the communicator itself, which the host waits for
        if not first and self.clock[stream]["1"] < self.queued["1"]:
            raise Complaint("it does not wait for the arithmetic before it")
        if (captured is not None) != (self.recording is not None):
            raise Complaint("it is not part of the recording" if self.recording else "it is part of no recording of this thread")
        if self.group:
            raise Complaint("a single collective inside a group")
        self.own = stream
        self.calls.append((name, count, dtype, op, root, captured))
        self.counts["recorded" if captured else "plain"] += 1


def read(paths):
    """The ranks of one job, in order; processes that had no communicator are left out."""
    ranks = [Rank(path).read() for path in paths]
    ranks = sorted((rank for rank in ranks if rank.rank is not None), key=lambda rank: rank.rank)
    for other in ranks[1:]:
        for number, (mine, its) in enumerate(zip(ranks[0].calls, other.calls)):
            if mine != its:
                raise Complaint(f"call {number}: rank 0 makes {mine}, rank {other.rank} makes {its}")
        if len(ranks[0].calls) != len(other.calls):
            raise Complaint(f"rank 0 makes {len(ranks[0].calls)} calls, rank {other.rank} {len(other.calls)}")
    return ranks


def main(paths):
    try:
        ranks = read(paths)
    except Complaint as complaint:
        sys.exit(f"FAILED: {complaint}")
    for rank in ranks:
        print(f"rank {rank.rank} over {rank.transport}:", ", ".join(f"{k} {v}" for k, v in sorted(rank.counts.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
