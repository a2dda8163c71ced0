#!/usr/bin/env python3
"""A faulty worker: relays between a coordinator and a real worker, and injects each fault of the file `fault` beside it once, one a line.

    KIND PHASE      KIND: kill, freeze, full, cut, flip, rot, fail
                    PHASE: map, reduce, part, count (a task runs), stage (documents arrive), move (an output of map is sent or arrives),
                    targets (of documents arrive), sets (of a range are sent), numbers (of sets arrive), gather (a part is sent),
                    index (a file of it arrives), counts (are sent)

Frames: length (u32), kind (u8: 1 message, 2 data, 3 beat, 4 close), channel (u16), payload, 8 bytes of checksum.
"""
import fcntl, json, os, signal, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
REAL = open(os.path.join(HERE, "real")).read()
FAULT = os.path.join(HERE, "fault")
real = subprocess.Popen([REAL] + sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
out = sys.stdout.buffer
state = {"data": None, "frozen": False}


def read(stream, length):
    parts = b""
    while len(parts) < length:
        more = stream.read(length - len(parts))
        if not more:
            return None
        parts += more
    return parts


def frame(stream):
    head = read(stream, 7)
    if head is None:
        return None
    length = int.from_bytes(head[:4], "little")
    rest = read(stream, length + 8)
    return None if rest is None else (head[4], head, rest[:length], rest[length:])


def phase_of(message):
    say, task = message.get("say"), message.get("task", "")
    paths = message.get("paths") or [parcel["path"] for parcel in message.get("parcels", ())]
    if say == "run":
        return task.split("-")[0]
    if say == "stage":
        return say
    if say in ("put", "get", "fetch", "push"):
        for path in paths:
            if path.endswith("built.json"):
                continue
            if path.startswith("reduce/"):
                return "sets" if path.endswith(".sets") else None
            for start, phase in PHASES:
                if path.startswith(start):
                    return phase
    return None


PHASES = (("map/", "move"), ("number/", "targets"), ("join/", "numbers"), ("part/", "gather"), ("index/", "index"), ("count/", "counts"))


def take_fault(phase, say):
    """The kind of fault for this phase, once."""
    if phase is None or not os.path.exists(FAULT):
        return None
    with open(FAULT, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lines = file.read().splitlines()
        for line in lines:
            kind, when = line.split()
            if when == phase and (kind != "rot" or say in ("get", "run")):
                lines.remove(line)
                file.seek(0)
                file.truncate()
                file.write("".join(left + "\n" for left in lines))
                return kind
    return None


def die():
    real.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def rot(message):
    """Changes a byte of a requested file, or of an input of a task, in place."""
    run = next(a[6:] for a in sys.argv if a.startswith("--run="))
    top = os.path.join(os.environ["HOME"], ".cache/dedup-shard", run)
    paths = [path for path in message.get("paths", ()) if not path.endswith("built.json")]
    path = paths[0] if paths else None
    if path is None:
        plan = json.load(open(os.path.join(top, "plan.json")))
        task = next(task for task in plan["tasks"] if task["id"] == message["task"])
        inputs = task.get("runs") or [task.get("postings") or task["index"] + "/" + task["files"][-1]]
        path = inputs[-1]
    root = next(root for root in (os.path.join(top, side, path) for side in ("out", "in")) if os.path.exists(root))
    if os.path.isdir(root):
        root = next(os.path.join(root, name) for name in sorted(os.listdir(root)) if name.endswith("runs"))
    with open(root, "r+b") as file:
        file.seek(os.path.getsize(root) // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))


def send(message, channel):
    """A frame made here; xxhsum computes its checksum, xxh3-64."""
    payload = json.dumps(message).encode()
    body = len(payload).to_bytes(4, "little") + b"\1" + channel + payload
    told = subprocess.run(["xxhsum", "-H3"], input=body, stdout=subprocess.PIPE, check=True).stdout.split()[-1]
    out.write(body + int(told, 16).to_bytes(8, "little"))
    out.flush()


def answers():
    line = real.stdout.readline()
    out.write(line)
    out.flush()
    while True:
        got = frame(real.stdout)
        if got is None:
            break
        kind, head, payload, check = got
        if state["frozen"]:
            time.sleep(1000)
        if kind == 2 and state["data"] == "cut":
            out.write(head + payload[: len(payload) // 2])
            out.flush()
            die()
        if kind == 2 and state["data"] == "flip":
            state["data"] = None
            payload = bytes([payload[0] ^ 1]) + payload[1:]
        out.write(head + payload + check)
        out.flush()
    os._exit(real.wait())


threading.Thread(target=answers, daemon=True).start()
while True:
    got = frame(sys.stdin.buffer)
    if got is None:
        break
    kind, head, payload, check = got
    fault = None
    if kind == 1:
        message = json.loads(payload)
        fault = take_fault(phase_of(message), message.get("say"))
    if fault == "kill":
        real.stdin.write(head + payload + check)
        time.sleep(0.01)
        die()
    if fault == "freeze":
        state["frozen"] = True
        os.kill(real.pid, signal.SIGSTOP)
        # The process that froze it continues it after the run has disconnected.
        while frame(sys.stdin.buffer) is not None:
            pass
        os.kill(real.pid, signal.SIGKILL)
        break
    if fault == "full":
        subprocess.run(["prlimit", "--fsize=100", "--pid", str(real.pid)], check=True)
    if fault in ("cut", "flip"):
        state["data"] = fault
        if message["say"] != "get":
            if fault == "cut":
                real.stdin.write(head + payload + check)
                got = frame(sys.stdin.buffer)
                real.stdin.write(got[1] + got[2][: len(got[2]) // 2])
                die()
            real.stdin.write(head + payload + check)
            got = frame(sys.stdin.buffer)
            real.stdin.write(got[1] + bytes([got[2][0] ^ 1]) + got[2][1:] + got[3])
            state["data"] = None
            continue
    if fault == "rot":
        rot(message)
    if fault == "fail":
        send({"say": "ran", "code": 1, "signal": None, "said": "first\nno luck", "bytes": 0}, head[5:])
        continue
    try:
        real.stdin.write(head + payload + check)
    except OSError:
        break
real.stdin.close()
sys.exit(real.wait())
