"""What scripts/bench/speed, scripts/evaluate/all and the scripts that they call have in common: where the programs and the corpora are, what a command costs, and the tables
of BENCHMARKS.md.

DEDUP_BIN names a directory with the programs; without it they are built, and taken from $CARGO_TARGET_DIR/release. DEDUP_CACHE is where corpora are kept
($XDG_CACHE_HOME/dedup, or ~/.cache/dedup), DEDUP_SHARED where a corpus may lie that cannot be made (../shared, beside the project): corpora/pan13-train.tar.zst.
"""
import functools, math, os, pathlib, platform, re, resource, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DEDUP_BIN") or ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release")
CACHE = pathlib.Path(os.environ.get("DEDUP_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dedup")
SHARED = pathlib.Path(os.environ.get("DEDUP_SHARED") or ROOT.parent / "shared")
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
        sys.exit(f"{script()}: failed: {command}")
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


# ------------------------------------------------------------------------------------------------ corpora
class Missing(Exception):
    """Something to measure with that is not there and cannot be made."""


@functools.cache
def corpus(size="medium"):
    """Linux documentation; it is made if it is not there."""
    done = subprocess.run([ROOT / "scripts/corpora/make-linuxdocs", size], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Missing(f"scripts/corpora/make-linuxdocs {size} could not make its corpus")
    return done.stdout.strip().split("\n")[-1]


def documentation(size):
    """The same as NDJSON."""
    return pathlib.Path(corpus(size) + ".jsonl")


@functools.cache
def plagiarism():
    """The training corpus of PAN 2013, with susp/, src/ and NN-CLASS/pairs; it is unpacked into the cache if only its archive is there."""
    if not (PLAGIARISM / "src").is_dir():
        archive = SHARED / "corpora/pan13-train.tar.zst"
        if not archive.is_file():
            raise Missing(f"no plagiarism corpus in {PLAGIARISM}, nor {archive}; it is the training corpus of PAN 2013, text alignment, of https://pan.webis.de")
        PLAGIARISM.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PLAGIARISM.parent) as work:
            if subprocess.run(["tar", "--zstd", "-xf", archive, "-C", work]).returncode:
                raise Missing(f"{archive} cannot be unpacked; it takes tar and zstd")
            shutil.rmtree(PLAGIARISM, ignore_errors=True)
            os.rename(pathlib.Path(work) / PLAGIARISM.name, PLAGIARISM)
    return PLAGIARISM


@functools.cache
def synthetic(documents):
    """So many synthetic documents as NDJSON; they are made if they are not there."""
    path = CACHE / f"synthetic/{documents}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        if subprocess.run([ROOT / "scripts/corpora/make-synthetic", str(documents), path]).returncode:
            raise Missing(f"scripts/corpora/make-synthetic {documents} could not make its corpus")
    return path


def script():
    """The name of the running script, for messages."""
    return os.path.basename(sys.argv[0])


def need(corpus, *arguments, given=None):
    """The directory that was given, or what a function of these gives; where it cannot, this script says so and is done, as nothing can be measured."""
    if given:
        return given if given.is_dir() else sys.exit(f"{script()}: {given}: there is no such directory")
    try:
        return corpus(*arguments)
    except Missing as why:
        print(f"{script()}: nothing is measured: {why}", file=sys.stderr)
        sys.exit(0)


def example(name):
    """Builds examples/NAME.rs and returns the path of the program."""
    try:
        done = subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--example", name], cwd=ROOT).returncode
    except FileNotFoundError:
        done = "no cargo"
    if done != 0:
        raise Missing(f"examples/{name}.rs could not be built ({done})")
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release/examples" / name


# ------------------------------------------------------------------------------------------------ tables
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
    """Puts text into BENCHMARKS.md, in place of what stands between the marks of this section; but never nothing in place of something."""
    if not text.strip():
        raise ValueError(f"nothing to write to section '{section}'")
    start, end = marks(section)
    before, rest = PAGE.read_text().split(start)
    PAGE.write_text(before + start + text + "\n" + end + rest.split(end, 1)[1])


def cpu_seconds():
    """Of all processes that this one waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def publish(section, text, is_written, command=None, seconds=None):
    """Prints a section, below a line with machine, commit and command; if is_written, it goes to BENCHMARKS.md as well."""
    path = pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT / "scripts")
    command = command or " ".join([str(path), *(word for word in sys.argv[1:] if word != "--write")])
    took = f", {seconds:,.0f} s of CPU" if seconds is not None else ""
    text = f"{machine()} Command: `scripts/{command}`{took}.\n\n{text.strip()}"
    print(f"\n## {section}\n\n{text}", flush=True)
    if is_written:
        write(section, text)
