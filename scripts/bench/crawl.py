"""The crawl of scripts/corpora/make-crawl, and a judge of what a tool made of it.

The judge shares no code with the programs: words are \\w+ in lower case, shingles are sets of 5 consecutive words.
"""
import array, collections, functools, json, pathlib, re, subprocess

from measure import CACHE, ROOT

# A page is a duplicate of another if this share of its shingles is in the other.
SHARE = 0.8
WORD = re.compile(r"\w+")


@functools.cache
def make(megabytes, seed=1):
    """The directory of a crawl, made if it is missing."""
    directory = CACHE / f"crawl/{megabytes}-{seed}"
    if not directory.is_dir():
        part = directory.with_suffix(".part")
        subprocess.run([ROOT / "scripts/corpora/make-crawl", "--megabytes", str(megabytes), "--seed", str(seed), part], check=True, stdout=subprocess.DEVNULL)
        part.rename(directory)
    return directory


def bare(directory):
    """A copy of a crawl whose records have an id and a text only, for tools that take no optional fields."""
    copy = directory.with_name(f"{directory.name}-bare")
    part = directory.with_name(f"{directory.name}-bare.part")
    if not copy.is_dir():
        part.mkdir(exist_ok=True)
        for path in sorted(directory.glob("*.jsonl.zst")):
            with subprocess.Popen(["zstd", "-q", "-f", "-o", part / path.name], stdin=subprocess.PIPE, text=True, encoding="utf-8") as packer:
                for record in map(json.loads, lines_of(path)):
                    packer.stdin.write(json.dumps({"id": record["id"], "text": record["text"]}, ensure_ascii=False) + "\n")
        part.rename(copy)
    return copy


def lines_of(path):
    with subprocess.Popen(["zstdcat", path], stdout=subprocess.PIPE) as unpacked:
        yield from unpacked.stdout


def lines(directory):
    """The lines of all .jsonl.zst of a directory, with their line breaks."""
    for path in sorted(pathlib.Path(directory).rglob("*.jsonl.zst")):
        yield from lines_of(path)


def shingles(text):
    """Hashes of the distinct shingles. A page of fewer than 5 words is one shingle."""
    words = WORD.findall(text.lower())
    return {hash(tuple(words[at : at + 5])) for at in range(max(1, len(words) - 4))}


class Page:
    def __init__(self, record):
        self.kind, self.of, self.bytes = record["kind"], record.get("of"), len(record["text"].encode())
        # As a set, a crawl of 210 MB would take 3 GB.
        self.hashes = array.array("q", shingles(record["text"]))

    def share_in(self, other):
        """The share of the shingles of this page that are in a set of shingles."""
        return sum(shingle in other for shingle in self.hashes) / len(self.hashes)


class Crawl:
    def __init__(self, directory):
        self.pages = {}
        for line in lines(directory):
            record = json.loads(line)
            self.pages[record["id"]] = Page(record)

    def shared_with_original(self, name):
        page = self.pages[name]
        return page.share_in(set(self.pages[page.of].hashes))

    @functools.cached_property
    def planted(self):
        """The planted duplicates: mirrored and truncated pages, and near ones with enough shingles of the original."""
        kinds = ("mirror", "near", "truncated")
        return {name for name, page in self.pages.items() if page.kind in kinds and self.shared_with_original(name) >= SHARE}

    def left(self, kept):
        """The planted duplicates that are still there, though their original is too."""
        return [name for name in sorted(self.planted & kept) if self.pages[name].of in kept]

    def left_by_kind(self, kept):
        return collections.Counter(self.pages[name].kind for name in self.left(kept))

    def jaccard(self, name):
        """The similarity of a page and its original by the measure of MinHash."""
        own, other = set(self.pages[name].hashes), set(self.pages[self.pages[name].of].hashes)
        return len(own & other) / len(own | other)

    def lost(self, kept):
        """The pages that went although no page that stayed has enough of their shingles."""
        gone = {name for name in self.pages if name not in kept}
        families = collections.defaultdict(list)
        for name in kept:
            families[self.pages[name].of or name].append(name)
        unexplained = [name for name in gone if not self.is_in_any(name, families[self.pages[name].of or name])]
        postings = self.postings({shingle for name in unexplained for shingle in self.pages[name].hashes}, kept)
        return [name for name in unexplained if not self.is_in_any(name, self.candidates(name, postings))]

    def is_in_any(self, name, others):
        return any(self.pages[name].share_in(set(self.pages[other].hashes)) >= SHARE for other in others)

    def postings(self, wanted, kept):
        """The pages that stayed, by the shingles in question."""
        postings = collections.defaultdict(list)
        for name in sorted(kept) if wanted else []:
            for shingle in wanted.intersection(self.pages[name].hashes):
                postings[shingle].append(name)
        return postings

    def candidates(self, name, postings):
        """All pages that may have enough of a page's shingles: they must have one of its rarest, as too few are left without these."""
        hashes = sorted(self.pages[name].hashes, key=lambda shingle: len(postings.get(shingle, ())))
        few = hashes[: len(hashes) - int(len(hashes) * SHARE) + 1]
        return dict.fromkeys(page for shingle in few for page in postings.get(shingle, ()))
