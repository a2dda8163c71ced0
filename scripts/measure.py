"""What scripts/bench, scripts/evaluate and the scripts that they call have in common: where the programs and the corpora are, what a command costs, and the tables
of BENCHMARKS.md.

DEDUP_BIN names a directory with the programs; without it they are built, and taken from $CARGO_TARGET_DIR/release. DEDUP_CACHE is where corpora are (~/.cache/dedup).
"""
import math, os, pathlib, platform, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("DEDUP_BIN") or ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release")
CACHE = pathlib.Path(os.environ.get("DEDUP_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dedup")
PLAGIARISM = CACHE / "pan13/pan-13-train"
PAGE = ROOT / "BENCHMARKS.md"


def build():
    """Brings the programs up to date, unless DEDUP_BIN says which to take."""
    if "DEDUP_BIN" not in os.environ:
        subprocess.run(["make", "--no-print-directory", "--silent", "-C", ROOT, "build"], check=True)


def environment():
    """With the programs in PATH."""
    return os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}


class Best:
    """The least of each measure over all rounds."""

    def __init__(self):
        self.cpu = self.wall = self.peak_mb = float("inf")

    def add(self, cpu, wall, peak_mb):
        self.cpu, self.wall, self.peak_mb = min(self.cpu, cpu), min(self.wall, wall), min(self.peak_mb, peak_mb)


def cost(command):
    """CPU seconds of all processes, wall-clock seconds, and peak MB of the largest of them."""
    # A helper process of its own, so that the peak is that of this command's children only.
    script = (
        "import resource, subprocess, sys, time; start = time.monotonic();"
        "code = subprocess.run(['bash', '-o', 'pipefail', '-c', sys.argv[1]]).returncode; wall = time.monotonic() - start;"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(code, used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024)"
    )
    line = subprocess.run([sys.executable, "-c", script, command], stdout=subprocess.PIPE, text=True, check=True, env=environment()).stdout.split()
    if line[0] != "0":
        sys.exit(f"{os.path.basename(sys.argv[0])}: failed: {command}")
    return [float(number) for number in line[1:]]


def run(commands, rounds, before={}):
    """Measures each command once a round, in turn; before it, not measured, runs what stands under its name in before."""
    best = {name: Best() for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            if name in before:
                subprocess.run(before[name], shell=True, check=True)
            print(f"\rround {number + 1}/{rounds}: {name:40.40}", end="", file=sys.stderr)
            best[name].add(*cost(command))
    print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    return best


class Missing(Exception):
    """A corpus that is not there and cannot be made."""


def corpus(size="medium"):
    """Linux documentation; it is made if it is not there."""
    done = subprocess.run([ROOT / "scripts/make-linuxdocs", size], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Missing(f"scripts/make-linuxdocs {size} could not make its corpus")
    return done.stdout.strip().split("\n")[-1]


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def exponent(sizes, costs):
    """The slope of a straight line through the logarithms, by least squares: 1 if cost grows as size does."""
    xs, ys = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return f"Machine: {os.cpu_count()} cores, {model[1] if model else platform.processor()}, {int(memory[1]) // 1_000_000} GB, {platform.system()} {platform.release().split('-')[0]}. Commit {commit()}."


def commit():
    """The commit that was measured; with a + if a source file was changed since."""
    git = ["git", "-C", ROOT]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    is_changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src", "scripts", "Cargo.lock"]).returncode != 0
    return (name or "unknown") + "+" * is_changed


def marks(section):
    return f"<!-- bench {section} -->\n", f"<!-- end {section} -->"


def write(section, text):
    """Puts text into BENCHMARKS.md, in place of what stands between the marks of this section."""
    start, end = marks(section)
    before, rest = PAGE.read_text().split(start)
    PAGE.write_text(before + start + text + "\n" + end + rest.split(end, 1)[1])


def written(section):
    """What stands in BENCHMARKS.md between the marks of this section."""
    start, end = marks(section)
    return PAGE.read_text().split(start)[1].split(end)[0]
