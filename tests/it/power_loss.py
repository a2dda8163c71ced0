#!/usr/bin/env python3
"""Simulates a power loss while a writer runs: replays its system calls, and builds the possible disks at each of them.

    power_loss.py CASE.json

The writer runs once under strace, in the directory `root`. A model of the file system follows it: of each file, which bytes were
synced; of each directory, which entries were. All earlier files count as synced. At each crash point these disks are possible:

    data         unsynced writes are lost | half of them are kept | their length is kept, filled with zeros | all are kept
    directories  each one with unsynced entries keeps all of them, or none; both ends of a rename keep it, or neither does

`look` prints the state of a disk. It must be the old or the new state ("states"), or the number of entries added without a gap
("count"). Everything that the writer had reported as done must be there: all of it once it has ended, and with "count" an entry
for each line on stdout. Then `again`, if given, finishes the work. At the end the model must equal the real directory.
"""
import itertools, json, os, re, shutil, subprocess, sys

# strace does not stop for these. They change neither files nor descriptors.
UNTRACED = """read pread64 readv preadv futex poll ppoll epoll_wait epoll_pwait epoll_ctl epoll_create1 madvise munmap mprotect brk
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack sched_yield sched_getaffinity clock_nanosleep nanosleep getrandom stat fstat
    lstat newfstatat statx getdents64 access faccessat faccessat2 readlink readlinkat getpid gettid getppid getuid geteuid getgid
    getegid set_robust_list set_tid_address rseq prlimit64 getrlimit arch_prctl prctl flock wait4 waitid kill tgkill uname sysinfo
    getcwd sched_setaffinity sched_setscheduler setpriority getpriority restart_syscall exit statfs fstatfs getpgrp setpgid umask
    clock_gettime clock_getres times getrusage fadvise64 readahead mincore ioprio_set membarrier""".split()
# Seen and ignored: descriptors that are not files, permissions, times, and writes without a guarantee.
IGNORED = """socket socketpair connect bind listen accept4 getsockopt setsockopt getsockname getpeername sendto recvfrom sendmsg recvmsg
    shutdown pipe pipe2 eventfd2 timerfd_create pidfd_open pidfd_send_signal exit_group chmod fchmod fchmodat chown fchown utimensat
    mremap signalfd4 memfd_create setsid sync_file_range""".split()
DATA = ("lost", "half", "zeros", "kept")


class Inode:
    def __init__(self, kind, data=b"", entries=None, target=None):
        self.kind, self.target, self.is_appended, self.is_nameless = kind, target, False, False
        self.data, self.synced, self.writes = bytearray(data), b"", []
        self.entries, self.synced_entries = entries if entries is not None else {}, {}

    def write(self, at, data):
        self.writes.append((at, data))
        apply_write(self.data, at, data)

    def truncate(self, length):
        self.writes.append((length, None))
        apply_write(self.data, length, None)

    def snapshot(self):
        return dict(self.entries) if self.kind == "dir" else (bytes(self.data), len(self.writes))

    def settle(self, snapshot):
        if self.kind == "dir":
            self.synced_entries = snapshot
        else:
            self.synced, self.writes = snapshot[0], self.writes[snapshot[1]:]

    def is_dirty(self):
        return self.entries != self.synced_entries if self.kind == "dir" else bool(self.writes)

    def content(self, model):
        if model == "lost" or not self.writes:
            return self.synced
        if model == "kept":
            return bytes(self.data)
        if model == "zeros":
            return self.synced[: len(self.data)].ljust(len(self.data), b"\0")
        data, left = bytearray(self.synced), sum(len(data or b"x") for _, data in self.writes) // 2
        for at, written in self.writes:
            apply_write(data, at, written if written is None else written[:left])
            left -= len(written or b"x")
            if left <= 0:
                break
        return bytes(data)


def apply_write(data, at, written):
    if written is None:
        del data[at:]
    data.extend(bytes(max(0, at - len(data))))
    if written:
        data[at : at + len(written)] = written


def read_tree(path, inodes):
    """The content of a disk; hard links are one inode."""
    status = os.lstat(path)
    if status.st_ino in inodes:
        return inodes[status.st_ino]
    if os.path.islink(path):
        inode = Inode("link", target=os.readlink(path).encode())
    elif os.path.isdir(path):
        inode = Inode("dir", entries={name: read_tree(os.path.join(path, name), inodes) for name in os.listdir(path)})
    else:
        inode = Inode("file", open(path, "rb").read())
    inode.settle(inode.snapshot())
    return inodes.setdefault(status.st_ino, inode)


def write_tree(inode, path, state, made):
    if inode in made:
        os.link(made[inode], path)
    elif inode.kind == "link":
        os.symlink(inode.target.decode(), path)
    elif inode.kind == "file":
        made[inode] = path
        with open(path, "wb") as file:
            file.write(inode.content(state.data))
    else:
        os.mkdir(path)
        for name, child in state.entries(inode).items():
            write_tree(child, os.path.join(path, name), state, made)


class State:
    """One disk: which data is kept, and which directories keep their unsynced entries."""

    def __init__(self, data, kept):
        self.data, self.kept = data, kept

    def entries(self, directory):
        return directory.entries if directory in self.kept else directory.synced_entries

    def key(self, inode):
        if inode.kind == "dir":
            return tuple(sorted((name, self.key(child)) for name, child in self.entries(inode).items()))
        return inode.target if inode.kind == "link" else (id(inode), hash(inode.content(self.data)))


class Open:
    def __init__(self, inode, appends):
        self.inode, self.appends, self.at = inode, appends, 0


class Process:
    def __init__(self, cwd, files):
        self.cwd, self.files = cwd, files


class Replay:
    """Follows the calls of a trace; calls `crash(label, is_barrier)` before each that changes something, and after each answer."""

    def __init__(self, root, tree, lines, crash):
        self.root, self.tree, self.lines, self.crash = root, tree, lines, crash
        self.processes, self.parents, self.pending, self.renames = {}, {}, {}, []
        # Threads that are in the middle of a close. Another thread may get the descriptor before the trace shows the end of the close.
        self.closing = set()
        self.acknowledged, self.main = 0, None

    def run(self):
        joined = list(self.join())
        for _, pid, name, arguments, result in joined:
            if name in ("clone", "clone3", "fork", "vfork") and result > 0:
                self.parents[result] = (pid, "CLONE_FILES" in arguments)
        for begins, pid, name, arguments, result in joined:
            self.main = self.main or pid
            if begins and name == "close":
                self.do_close(pid, [arguments], 0)
                self.closing.add(pid)
            elif begins:
                self.pending[pid] = self.snapshot(pid, name, arguments)
            elif name == "close" and pid in self.closing:
                self.closing.remove(pid)
            elif result >= 0:
                self.call(pid, name, arguments, result)

    def join(self):
        """(begins, pid, name, arguments, result): a call that is interrupted by calls of other threads is listed when it ends."""
        halves = {}
        for line in self.lines:
            pid, rest = line.split(None, 1)
            if rest.startswith(("+++", "---")):
                continue
            resumed = re.match(r"<\.\.\. (\w+) resumed>(.*)", rest, re.S)
            if resumed:
                rest = halves.pop(pid) + resumed[2]
            elif rest.rstrip().endswith("<unfinished ...>"):
                halves[pid] = rest.rstrip()[: -len("<unfinished ...>")].rstrip()
                name, arguments = halves[pid].split("(", 1)
                yield True, int(pid), name, arguments, 0
                continue
            call = re.match(r"(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+|\?)", rest, re.S)
            if not call:
                raise SystemExit(f"cannot read this line of the trace: {line[:200]}")
            yield False, int(pid), call[1], call[2], -1 if call[3] == "?" and call[1] != "exit_group" else int(call[3].replace("?", "0"), 0)

    def snapshot(self, pid, name, arguments):
        """A sync covers what was written when it began."""
        if name in ("fsync", "fdatasync"):
            file = self.open_file(pid, arguments.split(",")[0].rstrip(")"))
            return file and file.inode.snapshot()
        return None

    def process(self, pid):
        if pid not in self.processes:
            if pid == self.main:
                self.processes[pid] = Process(self.tree, {})
            else:
                parent, is_thread = self.parents[pid]
                parent = self.process(parent)
                self.processes[pid] = parent if is_thread else Process(parent.cwd, dict(parent.files))
        return self.processes[pid]

    def open_file(self, pid, number):
        entry = self.process(pid).files.get(int(number))
        return entry and entry[0]

    def find(self, pid, path, at="AT_FDCWD", follow=True, depth=0):
        """(directory, name, inode) of a path; directory None if it is outside of the root."""
        if path.startswith(b"/"):
            prefix = self.root.encode()
            if path != prefix and not path.startswith(prefix + b"/"):
                return None, None, None
            directory, path = self.tree, path[len(prefix) :]
        elif at == "AT_FDCWD":
            directory = self.process(pid).cwd
        else:
            file = self.open_file(pid, at)
            directory = file and file.inode
        names = [name.decode() for name in path.split(b"/") if name not in (b"", b".")]
        if directory is None or depth > 20:
            return None, None, None
        if not names:
            return directory, ".", directory
        for place, name in enumerate(names):
            if name == "..":
                return None, None, None
            child, is_last = directory.entries.get(name), place + 1 == len(names)
            if child and child.kind == "link" and (follow or not is_last):
                rest = "/".join(names[place + 1 :]).encode()
                return self.find(pid, child.target + (b"/" + rest if rest else b""), follow=follow, depth=depth + 1)
            if is_last:
                return directory, name, child
            if child is None or child.kind != "dir":
                return None, None, None
            directory = child

    def call(self, pid, name, arguments, result):
        handler = getattr(self, "do_" + name, None)
        if handler:
            handler(pid, arguments.split(", "), result)
        elif name not in IGNORED:
            raise SystemExit(f"unknown system call: {name}({arguments[:200]}) = {result}: say in {sys.argv[0]} what it does to the disk")

    # Descriptors.
    def do_openat(self, pid, arguments, result):
        flags, files = arguments[2], self.process(pid).files
        directory, name, inode = self.find(pid, text(arguments[1]), arguments[0], "O_NOFOLLOW" not in flags)
        files.pop(result, None)
        if directory is None:
            return
        if "O_TMPFILE" in flags:
            inode = Inode("file")
            inode.is_nameless = "O_EXCL" in flags  # It never gets a name, so no disk has it after a power loss.
        elif inode is None:
            self.crash(f"create {name}", True)
            inode = directory.entries[name] = Inode("file")
        elif "O_TRUNC" in flags and inode.data:
            self.crash(f"truncate {name}", True)
            inode.truncate(0)
        inode.is_appended |= "O_APPEND" in flags
        files[result] = (Open(inode, "O_APPEND" in flags), "O_CLOEXEC" in flags)

    def do_open(self, pid, arguments, result):
        self.do_openat(pid, ["AT_FDCWD", *arguments], result)

    def do_openat2(self, pid, arguments, result):
        # {flags=O_RDONLY|…, resolve=…}: files are only read this way.
        flags = arguments[2]
        if any(word in flags for word in ("O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE")):
            raise SystemExit(f"openat2 that writes: {flags}")
        self.do_openat(pid, arguments, result)

    def do_close(self, pid, arguments, _):
        self.process(pid).files.pop(int(arguments[0]), None)

    def do_close_range(self, pid, arguments, _):
        files = self.process(pid).files
        for number in [number for number in files if int(arguments[0]) <= number <= int(arguments[1].replace("~0U", "4294967295"))]:
            del files[number]

    def duplicate(self, pid, old, new, is_cloexec):
        files = self.process(pid).files
        files.pop(new, None)
        if old in files:
            files[new] = (files[old][0], is_cloexec)

    def do_dup(self, pid, arguments, result):
        self.duplicate(pid, int(arguments[0]), result, False)

    def do_dup2(self, pid, arguments, result):
        self.duplicate(pid, int(arguments[0]), result, len(arguments) > 2 and "CLOEXEC" in arguments[2])

    do_dup3 = do_dup2

    def do_fcntl(self, pid, arguments, result):
        if "DUPFD" in arguments[1]:
            self.duplicate(pid, int(arguments[0]), result, "CLOEXEC" in arguments[1])
        elif "F_SETFL" in arguments[1] and "O_APPEND" in arguments[2] and self.open_file(pid, arguments[0]):
            raise SystemExit("fcntl F_SETFL O_APPEND on a file is not modelled")

    def do_lseek(self, pid, arguments, result):
        if file := self.open_file(pid, arguments[0]):
            file.at = result

    def do_clone(self, pid, arguments, result):
        self.process(result)

    do_clone3 = do_fork = do_vfork = do_clone

    def do_execve(self, pid, arguments, _):
        process = self.process(pid)
        process.files = {number: entry for number, entry in process.files.items() if not entry[1]}

    def do_chdir(self, pid, arguments, _):
        directory, _, inode = self.find(pid, text(arguments[0]))
        self.process(pid).cwd = inode if directory else None

    # Data.
    def put(self, pid, number, data, at=None):
        file = self.open_file(pid, number)
        if file is None:
            if int(number) == 1 and pid == self.main:
                self.acknowledged += data.count(b"\n")
                self.crash(f"after {self.acknowledged} lines on stdout", True)
            return
        self.crash(f"write {len(data)} bytes", False)
        start = len(file.inode.data) if file.appends else file.at if at is None else at
        file.inode.write(start, data)
        if at is None:
            file.at = start + len(data)

    def do_write(self, pid, arguments, result):
        self.put(pid, arguments[0], text(arguments[1])[:result])

    def do_pwrite64(self, pid, arguments, result):
        self.put(pid, arguments[0], text(arguments[1])[:result], int(arguments[3]))

    def do_writev(self, pid, arguments, result):
        data = b"".join(text(part) for part in re.findall(r'iov_base=("[^"]*"(?:\.\.\.)?)', ", ".join(arguments)))
        self.put(pid, arguments[0], data[:result])

    def do_copy_file_range(self, pid, arguments, result):
        source, target = self.open_file(pid, arguments[0]), self.open_file(pid, arguments[2])
        if target is None or result == 0:
            return
        if source is None or (arguments[1], arguments[3]) != ("NULL", "NULL"):
            raise SystemExit(f"copy_file_range({arguments}) is not modelled")
        data = bytes(source.inode.data[source.at : source.at + result])
        source.at += result
        self.put(pid, arguments[2], data)

    def do_ftruncate(self, pid, arguments, _):
        if (file := self.open_file(pid, arguments[0])) and len(file.inode.data) != int(arguments[1]):
            self.crash(f"truncate to {arguments[1]}", True)
            file.inode.truncate(int(arguments[1]))

    def do_fallocate(self, pid, arguments, _):
        if self.open_file(pid, arguments[0]):
            raise SystemExit("fallocate on a file that has a name is not modelled")

    def do_sendfile(self, pid, arguments, _):
        if self.open_file(pid, arguments[0]):
            raise SystemExit("sendfile to a file is not modelled")

    def do_ioctl(self, pid, arguments, _):
        if "CLONE" in arguments[1] or "FICLONE" in arguments[1]:
            raise SystemExit(f"ioctl {arguments[1]} is not modelled")

    def do_mmap(self, pid, arguments, _):
        if "MAP_SHARED" not in arguments[3] or "PROT_WRITE" not in arguments[2] or int(arguments[4]) < 0:
            return
        file = self.open_file(pid, arguments[4])
        if file and not file.inode.is_nameless:
            raise SystemExit("a file is written through a mapping, which is not modelled")

    # Syncs.
    def do_fsync(self, pid, arguments, _):
        file, snapshot = self.open_file(pid, arguments[0]), self.pending.pop(pid, None)
        if file:
            self.crash(f"sync a {file.inode.kind}", True)
            file.inode.settle(snapshot or file.inode.snapshot())
            self.renames = [ends for ends in self.renames if file.inode not in ends]

    do_fdatasync = do_fsync

    # Names.
    def do_mkdir(self, pid, arguments, _):
        self.do_mkdirat(pid, ["AT_FDCWD", *arguments], _)

    def do_mkdirat(self, pid, arguments, _):
        directory, name, _ = self.find(pid, text(arguments[1]), arguments[0])
        if directory:
            self.crash(f"mkdir {name}", True)
            directory.entries[name] = Inode("dir")

    def do_symlink(self, pid, arguments, _):
        self.do_symlinkat(pid, [arguments[0], "AT_FDCWD", arguments[1]], _)

    def do_symlinkat(self, pid, arguments, _):
        directory, name, _ = self.find(pid, text(arguments[2]), arguments[1], False)
        if directory:
            self.crash(f"symlink {name}", True)
            directory.entries[name] = Inode("link", target=text(arguments[0]))

    def do_link(self, pid, arguments, _):
        self.do_linkat(pid, ["AT_FDCWD", arguments[0], "AT_FDCWD", arguments[1], "0"], _)

    def do_linkat(self, pid, arguments, _):
        source, _, inode = self.find(pid, text(arguments[1]), arguments[0], False)
        directory, name, _ = self.find(pid, text(arguments[3]), arguments[2], False)
        if (source is None) != (directory is None) or "/proc" in repr(text(arguments[1])):
            raise SystemExit(f"a link into or out of {self.root} is not modelled: {arguments}")
        if directory:
            self.crash(f"link {name}", True)
            directory.entries[name] = inode

    def do_unlink(self, pid, arguments, _):
        self.do_unlinkat(pid, ["AT_FDCWD", arguments[0], "0"], _)

    do_rmdir = do_unlink

    def do_unlinkat(self, pid, arguments, _):
        directory, name, _ = self.find(pid, text(arguments[1]), arguments[0], False)
        if directory:
            self.crash(f"unlink {name}", True)
            del directory.entries[name]

    def do_rename(self, pid, arguments, _):
        self.do_renameat2(pid, ["AT_FDCWD", arguments[0], "AT_FDCWD", arguments[1], "0"], _)

    def do_renameat(self, pid, arguments, _):
        self.do_renameat2(pid, [*arguments, "0"], _)

    def do_renameat2(self, pid, arguments, _):
        source, old, inode = self.find(pid, text(arguments[1]), arguments[0], False)
        target, new, _ = self.find(pid, text(arguments[3]), arguments[2], False)
        if "RENAME_EXCHANGE" in arguments[4] or (source is None) != (target is None):
            raise SystemExit(f"this rename is not modelled: {arguments}")
        if source:
            self.crash(f"rename {old} to {new}", True)
            del source.entries[old]
            target.entries[new] = inode
            if source is not target:
                self.renames.append((source, target))


def text(argument):
    """The bytes of a string of the trace."""
    if not argument.startswith('"') or not argument.endswith('"'):
        raise SystemExit(f"this is no whole string of a trace: {argument[:80]}")
    return bytes.fromhex(argument[1:-1].replace("\\x", ""))


def all_below(directory, seen):
    """All inodes that a disk could have."""
    if directory not in seen:
        seen.add(directory)
        for child in itertools.chain(directory.entries.values(), directory.synced_entries.values()):
            all_below(child, seen)
    return seen


def possible_states(replay):
    inodes = sorted(all_below(replay.tree, set()), key=id)
    groups = [{inode} for inode in inodes if inode.kind == "dir" and inode.is_dirty()]
    for ends in replay.renames:
        joined = [group for group in groups if group & set(ends)]
        if len(joined) == 2:
            groups = [group for group in groups if group not in joined] + [joined[0] | joined[1]]
    if len(groups) <= 3:
        kept = [set().union(*some) for count in range(len(groups) + 1) for some in itertools.combinations(groups, count)]
    else:
        all_groups = set().union(*groups)
        kept = [set(), all_groups, *groups, *(all_groups - group for group in groups)]
    data = DATA if any(inode.kind == "file" and inode.is_dirty() for inode in inodes) else ("lost",)
    return [State(model, some) for some in kept for model in data]


class Case:
    def __init__(self, case):
        self.case, self.root = case, case["root"]
        self.seen, self.failures, self.checked = set(), [], 0

    def record(self):
        trace = self.root + ".trace"
        command = ["strace", "-f", "--seccomp-bpf", "-qq", "-xx", "-s", str(1 << 24), "-o", trace, "-e", "trace=!" + ",".join(UNTRACED)]
        process = subprocess.Popen(command + self.case["writer"], cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for chunk in self.case.get("feed", []):
            process.stdin.write(chunk)
            process.stdin.flush()
            for _ in chunk.splitlines():
                process.stdout.readline()
        process.communicate()
        if process.returncode not in self.case.get("status", [0]):
            raise SystemExit(f"the writer ended with {process.returncode}")
        with open(trace) as file:
            return file.readlines()

    def shell(self, command):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else f"status {done.returncode}: {done.stdout}{done.stderr}".strip()

    def run(self):
        self.before = self.shell(self.case["look"])
        shutil.copytree(self.root, self.root + ".before", symlinks=True)
        lines = self.record()
        self.after = self.shell(self.case["look"])
        if self.before == self.after or "status" in self.before + self.after:
            raise SystemExit(f"before: {self.before}\nafter: {self.after}")
        self.real = read_tree(self.root, {})
        # First all states are counted, then some or all of them are checked.
        total = self.replay(lines, None)
        limit = self.case["limit"] or total
        self.replay(lines, lambda number: number * limit // total != (number - 1) * limit // total)
        print(f"{self.case['name']}: {self.checked} of {total} states checked, {len(self.failures)} bad")
        for failure in self.failures[:8]:
            print(f"  {failure}")
        return not self.failures

    def replay(self, lines, is_chosen):
        self.seen, number = set(), 0
        tree = read_tree(self.root + ".before", {})

        def crash(label, is_barrier, is_done=False):
            nonlocal number
            # Data lost before a write is also lost, or half of it, before the next call that is not a write.
            is_skipped = not is_done if self.case.get("only_at_end") else not is_barrier and self.case["limit"]
            if is_skipped:
                return
            for state in possible_states(replay):
                key = hash((is_done, replay.acknowledged, state.key(tree)))
                if key not in self.seen:
                    self.seen.add(key)
                    number += 1
                    if is_chosen and (is_done or is_chosen(number)):
                        self.check(state, tree, label, replay.acknowledged, is_done)

        replay = Replay(self.root, tree, lines, crash)
        replay.run()
        ensure_equal(tree, self.real, "")
        crash("the end", True, True)
        return number

    def check(self, state, tree, label, acknowledged, is_done):
        self.checked += 1
        shutil.rmtree(self.root)
        write_tree(tree, self.root, state, {})
        found = self.shell(self.case["look"])
        wrong = self.judge(found, acknowledged, is_done)
        if not wrong and self.case.get("again") and found != self.after:
            said = self.shell(self.case["again"])
            now = self.shell(self.case["look"])
            if said.startswith("status") or now != self.after:
                wrong = f"again: {said[:300]!r} leads to {now[:300]!r}"
        if wrong:
            kept = len(state.kept)
            self.failures.append(f"power lost before: {label}; unsynced data {state.data}, unsynced names in {kept} directories kept: {wrong}")

    def judge(self, found, acknowledged, is_done):
        if self.case["kind"] == "count" and found.isdigit():
            least = int(self.after) if is_done else acknowledged if self.case.get("acknowledges", True) else int(self.before)
            return None if least <= int(found) <= int(self.after) else f"{found} entries are there, {least} were acknowledged"
        if found == self.after or (found == self.before and not is_done):
            return None
        return f"reported as done, and lost: {found[:300]!r}" if is_done and found == self.before else f"neither old nor new: {found[:300]!r}"


def ensure_equal(model, real, path):
    # Two threads append at once: the trace does not say which write came first.
    is_same = model.data == real.data or (model.is_appended and sorted(model.data.splitlines()) == sorted(real.data.splitlines()))
    if model.kind != real.kind or not is_same or model.entries.keys() != real.entries.keys():
        raise SystemExit(f"the model does not follow the writer: {path or '.'} is not as it is on disk")
    for name in model.entries:
        ensure_equal(model.entries[name], real.entries[name], f"{path}/{name}")


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        sys.exit(0 if Case(json.load(file)).run() else 1)
