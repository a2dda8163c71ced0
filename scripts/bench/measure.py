"""What the scripts of scripts/bench and scripts/evaluate share: programs, corpora, costs of a command, result tables.

Environment variables:

  DEDUP_BIN     directory of the programs; by default they are built, in $CARGO_TARGET_DIR/release
  DEDUP_CACHE   directory of the corpora; by default $XDG_CACHE_HOME/dedup or ~/.cache/dedup
  DEDUP_SHARED  directory that may hold corpora/pan13-train.tar.zst, which no script can make; by default
                ../shared beside the project
"""
import functools, math, os, pathlib, platform, re, resource, shutil, subprocess, sys, tempfile, threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DEDUP_BIN") or ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release")
CACHE = pathlib.Path(os.environ.get("DEDUP_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dedup")
SHARED = pathlib.Path(os.environ.get("DEDUP_SHARED") or ROOT.parent / "shared")
PLAGIARISM = CACHE / "pan13/pan-13-train"
RESULTS = [ROOT / "scripts/bench/results", ROOT / "scripts/evaluate/results"]


def build():
    """Builds the programs, unless DEDUP_BIN names a directory of them."""
    if "DEDUP_BIN" not in os.environ:
        subprocess.run(["make", "--no-print-directory", "--silent", "-C", ROOT, "build"], check=True)


def environment():
    """The environment, with the programs in PATH."""
    return os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}


class Best:
    """The minimum of each measure over all rounds."""

    def __init__(self):
        self.cpu = self.wall = self.peak_mb = float("inf")

    def add(self, cpu, wall, peak_mb):
        self.cpu, self.wall, self.peak_mb = min(self.cpu, cpu), min(self.wall, wall), min(self.peak_mb, peak_mb)


def cost(command):
    """CPU seconds of all processes, wall-clock seconds, and peak MB of the largest of them."""
    # A helper process of its own, so that the peak is that of this command's children only.
    helper = (
        "import resource, subprocess, sys, time; start = time.monotonic();"
        "code = subprocess.run(['bash', '-o', 'pipefail', '-c', sys.argv[1]]).returncode; wall = time.monotonic() - start;"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(code, used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024)"
    )
    line = subprocess.run([sys.executable, "-c", helper, command], stdout=subprocess.PIPE, text=True, check=True, env=environment()).stdout.split()
    if line[0] != "0":
        sys.exit(f"{script()}: failed: {command}")
    return [float(number) for number in line[1:]]


class TemporarySpace:
    """The most bytes that files in a directory took while this was open, looked up twice a second."""

    def __init__(self, directory):
        self.directory, self.most, self.done = directory, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def watch(self):
        while not self.done.wait(0.5):
            try:
                self.most = max(self.most, sum(self.sizes().values()))
            except FileNotFoundError:
                # A process or directory went while it was read.
                continue

    def sizes(self):
        sizes = {}
        # Files without a name are only seen where a process has them open.
        named = self.directory.rglob("*")
        nameless = (link for link in pathlib.Path("/proc").glob("[0-9]*/fd/*") if self.is_inside(link))
        for path in (path for paths in (named, nameless) for path in paths):
            try:
                stat = path.stat()
            except OSError:
                continue
            sizes[stat.st_ino] = stat.st_blocks * 512
        return sizes

    def is_inside(self, link):
        try:
            return os.readlink(link).startswith(f"{self.directory}/")
        except OSError:
            return False


def run(commands, rounds, before={}):
    """Measures each command once per round, in turn. A command of the same name in `before` runs first, unmeasured."""
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
    """A corpus or tool is missing and cannot be made here."""


@functools.cache
def corpus(size="medium"):
    """The directory of Linux documentation, made if it is missing."""
    done = subprocess.run([ROOT / "scripts/corpora/make-linuxdocs", size], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Missing(f"scripts/corpora/make-linuxdocs {size} could not make its corpus")
    return done.stdout.strip().split("\n")[-1]


def documentation(size):
    """The same corpus as NDJSON."""
    return pathlib.Path(corpus(size) + ".jsonl")


@functools.cache
def plagiarism():
    """The training corpus of PAN 2013, with susp/, src/ and NN-CLASS/pairs, unpacked into the cache if necessary."""
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
def udhr():
    """The directory of the Universal Declaration of Human Rights, LANGUAGE/NN.txt, made if it is missing."""
    done = subprocess.run([ROOT / "scripts/corpora/make-udhr"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Missing("scripts/corpora/make-udhr could not make its corpus")
    return done.stdout.strip()


@functools.cache
def paraphrases(language):
    """Reworded passages of Debian manuals in the layout of that corpus, made if they are missing."""
    path = CACHE / "paraphrases" / language
    if not (path / "src").is_dir() and subprocess.run([ROOT / "scripts/corpora/make-paraphrases", language, path], stdout=subprocess.DEVNULL).returncode:
        raise Missing(f"scripts/corpora/make-paraphrases {language} could not make its corpus")
    return path


@functools.cache
def synthetic(documents):
    """A synthetic corpus of this many documents as NDJSON, made if it is missing."""
    path = CACHE / f"synthetic/{documents}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        if subprocess.run([ROOT / "scripts/corpora/make-synthetic", str(documents), path]).returncode:
            raise Missing(f"scripts/corpora/make-synthetic {documents} could not make its corpus")
    return path


@functools.cache
def code_copies():
    """The directory of altered copies of programs, made if it is missing."""
    done = subprocess.run([ROOT / "scripts/corpora/make-code-copies"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Missing("scripts/corpora/make-code-copies could not make its corpus")
    return pathlib.Path(done.stdout.strip().split("\n")[-1])


def script():
    """The name of the running script, for messages."""
    return os.path.basename(sys.argv[0])


def need(corpus, *arguments, given=None):
    """The given directory, or what `corpus(*arguments)` returns. If that raises Missing, prints why and ends the script with 0."""
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
    """The slope of log(cost) over log(size), by least squares: 1 if cost grows linearly."""
    xs, ys = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return f"Machine: {os.cpu_count()} cores, {model[1] if model else platform.processor()}, {int(memory[1]) // 1_000_000} GB, {platform.system()} {platform.release().split('-')[0]}. Commit {commit()}."


def commit():
    """The measured commit, with a + if the working tree differs from it."""
    git = ["git", "-C", ROOT]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    is_changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src", "scripts", "Cargo.lock"]).returncode != 0
    return (name or "unknown") + "+" * is_changed


def marks(section):
    return f"<!-- bench {section} -->\n", f"<!-- end {section} -->"


def result_pages():
    """All pages with measured tables."""
    return [page for directory in RESULTS for page in sorted(directory.glob("*.md"))]


def write(section, text):
    """Replaces what stands between the marks of this section in a results page; empty text is refused."""
    if not text.strip():
        raise ValueError(f"nothing to write to section '{section}'")
    start, end = marks(section)
    page = next((page for page in result_pages() if start in page.read_text()), None)
    if page is None:
        raise ValueError(f"no results page has the marks of section '{section}'")
    before, rest = page.read_text().split(start)
    page.write_text(before + start + text + "\n" + end + rest.split(end, 1)[1])
    print(f"{script()}: wrote section '{section}' of {page.relative_to(ROOT)}", file=sys.stderr)


def cpu_seconds():
    """CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def publish(section, text, is_written, command=None, seconds=None):
    """Prints a section, below a line with machine, commit and command; if is_written, writes it to its results page as well."""
    path = pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT / "scripts")
    command = command or " ".join([str(path), *(word for word in sys.argv[1:] if word != "--write")])
    took = f", {seconds:,.0f} s of CPU" if seconds is not None else ""
    text = f"{machine()} Command: `scripts/{command}`{took}.\n\n{text.strip()}"
    print(f"\n## {section}\n\n{text}", flush=True)
    if is_written:
        write(section, text)
