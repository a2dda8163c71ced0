"""The parts of scripts/bench/peers that need other people's packages: python peer_tools.py TOOL CORPUS OUT, in a virtual environment.

gaoya, rensa, datasketch and datatrove write the pairs they report to OUT: id TAB id, and a third column with the similarity that their
sketches make of it, if they say so. `truth` writes every pair there is, by exact comparison; `sample` does so by brute force.

All read the same lines and look for Jaccard >= 0.8 over 5-word shingles, words being \\w+ in lower case (gaoya cuts words itself, and
so splits at _ too). A document of 1 to 4 words is one shingle of all it has, one without words is in no pair. gaoya and datatrove have
no shingle for fewer than 5 words, and take all such documents for the same or for none: they are not given any.

`clean-TOOL` reads a directory of .jsonl.zst instead, and writes the documents that stay into the directory OUT. Libraries that only
report pairs keep the first document of each cluster of pairs. `ids` lists the ids of the documents in such a directory.
"""
import collections, hashlib, io, itertools, json, os, pathlib, re, struct, subprocess, sys, tempfile

WORDS, THRESHOLD, PERMUTATIONS = 5, 0.8, 128
BATCH = 1000
# Whole packages by hash of the name, until this number of documents is reached.
SAMPLE_DOCUMENTS = 5000

word = re.compile(r"\w+")


def documents(corpus):
    for line in lines(corpus):
        document = json.loads(line)
        yield document["id"], document["text"]


def lines(corpus):
    """The lines of a file, or of the .jsonl.zst of a directory."""
    for path in shards(corpus):
        with unpacked(path) as file:
            yield from file


def shards(corpus):
    return sorted(pathlib.Path(corpus).glob("*.jsonl.zst")) if os.path.isdir(corpus) else [pathlib.Path(corpus)]


def unpacked(path):
    if path.suffix != ".zst":
        return open(path, "rb")
    import zstandard

    return io.BufferedReader(zstandard.open(path, "rb"), 1 << 20)


def batches(items, size=BATCH):
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def shingles(text):
    words = word.findall(text.lower())
    return {" ".join(words[at : at + WORDS]) for at in range(max(1, len(words) - WORDS + 1))} if words else set()


def has_shingle(text):
    return next(itertools.islice(word.finditer(text), WORDS - 1, None), None) is not None


def write_pair(out, a, b, similarity=None):
    a, b = min(a, b), max(a, b)
    out.write(f"{a}\t{b}\n" if similarity is None else f"{a}\t{b}\t{similarity:.6f}\n")


def run_gaoya(corpus, out):
    """Both cores; its own words; it answers with pairs whose sketches are similar enough."""
    import gaoya

    index = gaoya.minhash.MinHashStringIndex(
        hash_size=32, jaccard_threshold=THRESHOLD, num_bands=None, band_size=None, num_hashes=PERMUTATIONS,
        analyzer="word", lowercase=True, ngram_range=(WORDS, WORDS), id_container="vec",
    )
    names = []
    for batch in batches((d for d in documents(corpus) if has_shingle(d[1]))):
        numbers, texts = list(range(len(names), len(names) + len(batch))), [text for _, text in batch]
        names += [name for name, _ in batch]
        index.par_bulk_insert_docs(numbers, texts)
        for number, found in zip(numbers, index.par_bulk_query(texts, return_similarity=True)):
            for other, similarity in found:
                if other < number:
                    write_pair(out, names[other], names[number], similarity)


def run_rensa(corpus, out):
    """The sketches of a batch are made in one call; 16 bands, as RMinHashLSH has to be told."""
    import rensa

    lsh = rensa.RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=16)
    names, sketches = [], []
    for batch in batches((name, shingles(text)) for name, text in documents(corpus)):
        batch = [(name, keys) for name, keys in batch if keys]
        made = rensa.RMinHash.from_token_sets([keys for _, keys in batch], num_perm=PERMUTATIONS, seed=42)
        lsh.insert_many(made, start_key=len(names))
        names += [name for name, _ in batch]
        sketches += made
    for number, found in enumerate(lsh.query_all(sketches)):
        for other in found:
            if other < number:
                write_pair(out, names[other], names[number], sketches[other].jaccard(sketches[number]))


def run_datasketch(corpus, out):
    import datasketch

    lsh, sketches = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS), {}
    for name, text in documents(corpus):
        keys = shingles(text)
        if not keys:
            continue
        sketch = datasketch.MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([key.encode() for key in keys])
        for other in lsh.query(sketch):
            write_pair(out, other, name, sketches[other].jaccard(sketch))
        lsh.insert(name, sketch, check_duplication=False)
        sketches[name] = sketch


def run_datatrove(corpus, out):
    """Its pipeline on all cores as far as pairs, 14 buckets of 8 hashes as it comes; words are cut as for the others, and nothing else
    is done to the text.

    Of documents with the same signature in a bucket it reports each with the next one only; here all pairs of them are written."""
    from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets, MinhashDedupSignature
    from datatrove.pipeline.readers import JsonlReader

    config, words, cores = datatrove_settings()
    with tempfile.TemporaryDirectory(dir=pathlib.Path(out.name).parent) as scratch:
        names = split(corpus, pathlib.Path(scratch) / "in", cores)
        steps = [
            (cores, [JsonlReader(f"{scratch}/in"), MinhashDedupSignature(f"{scratch}/signatures", config=config, language=words)]),
            (config.num_buckets, [MinhashDedupBuckets(f"{scratch}/signatures", f"{scratch}/buckets", config=config)]),
        ]
        run_pipelines(steps, cores, scratch)
        pairs = set()
        for path in sorted(pathlib.Path(scratch, "buckets").iterdir()):
            links = [((a, b), (c, d)) for a, b, c, d in struct.iter_unpack("<4I", path.read_bytes())]
            for chain in chains(links):
                pairs.update(itertools.combinations(sorted(names[part][line] for part, line in chain), 2))
    for a, b in sorted(pairs):
        write_pair(out, a, b)


def datatrove_settings():
    """Its MinHash configuration, how it cuts words, and the number of cores."""
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.logging import logger
    from datatrove.utils.text import TextNormConfig
    from datatrove.utils.word_tokenizers import WordTokenizer

    class Words(WordTokenizer):
        def word_tokenize(self, text):
            return re.findall(r"\w+", text)

        def sent_tokenize(self, text):
            return [text]

        def span_tokenize(self, text):
            return [(0, len(text))]

    logger.remove()
    plain = TextNormConfig(lowercase=True, norm_whitespace=False, remove_punctuation=False, norm_unicode_diacritics=False, norm_numbers=False)
    return MinhashConfig(n_grams=WORDS, norm_config=plain), Words(), os.cpu_count()


def run_pipelines(steps, cores, scratch):
    from datatrove.executor import LocalPipelineExecutor

    for number, (tasks, pipeline) in enumerate(steps):
        LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=cores, logging_dir=f"{scratch}/logs/{number}", start_method="fork").run()


def split(corpus, directory, parts):
    """Distributes the lines of a corpus over this many files in turn; returns the ids of each."""
    directory.mkdir()
    files, names = [open(directory / f"{part:05}.jsonl", "wb") for part in range(parts)], [[] for _ in range(parts)]
    with open(corpus, "rb") as lines:
        for number, line in enumerate(lines):
            files[number % parts].write(line)
            names[number % parts].append(json.loads(line)["id"])
    for file in files:
        file.close()
    return names


def chains(links):
    """The connected components of a graph of links, in order, as lists."""
    chain = []
    for a, b in links:
        if chain and chain[-1] != a:
            yield chain
            chain = []
        chain = [*chain, b] if chain else [a, b]
    if chain:
        yield chain


# ------------------------------------------------------------------------------------------------ cleaning
def clean_by_pairs(run):
    """Shards in, shards out: the first document of each cluster of pairs stays, as do documents in no pair."""

    def clean(corpus, out):
        import zstandard

        pairs = io.StringIO()
        run(corpus, pairs)
        first = {}

        def root(name):
            while first.setdefault(name, name) != name:
                first[name] = name = first[first[name]]
            return name

        for line in pairs.getvalue().splitlines():
            a, b, *similarity = line.split("\t")
            if not similarity or float(similarity[0]) >= THRESHOLD:
                # Names rise in the order of the documents.
                a, b = sorted((root(a), root(b)))
                first[b] = a
        for path in shards(corpus):
            with unpacked(path) as file, zstandard.open(out / path.name, "wb") as kept:
                for line in file:
                    name = json.loads(line)["id"]
                    if root(name) == name:
                        kept.write(line)

    return clean


def clean_datatrove(corpus, out):
    """Its pipeline of four steps as in its example, with words and settings as above."""
    from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter

    config, words, cores = datatrove_settings()
    count = len(shards(corpus))
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        writer = JsonlWriter(str(out), output_filename="${rank}.jsonl.zst", compression="zstd")
        run_pipelines(
            [
                (count, [JsonlReader(corpus), MinhashDedupSignature(f"{scratch}/signatures", config=config, language=words)]),
                (config.num_buckets, [MinhashDedupBuckets(f"{scratch}/signatures", f"{scratch}/buckets", config=config)]),
                (1, [MinhashDedupCluster(f"{scratch}/buckets", f"{scratch}/remove", config=config)]),
                (count, [JsonlReader(corpus), MinhashDedupFilter(f"{scratch}/remove"), writer]),
            ],
            cores,
            scratch,
        )


def clean_text_dedup(corpus, out):
    """Its command for MinHash as in its README, at the threshold of the others. It writes a data set in the format Arrow."""
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        options = {"path": "json", "data_files": f"{corpus}/*.jsonl.zst", "split": "train", "cache_dir": scratch, "output": out, "column": "text", "threshold": THRESHOLD}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        subprocess.run([sys.executable, "-m", "text_dedup.minhash", *words], check=True, env=os.environ | {"HF_HOME": scratch, "HF_DATASETS_OFFLINE": "1"})


def ids(directory, out):
    if any(directory.rglob("*.arrow")):
        import datasets

        names = datasets.load_from_disk(str(directory))["id"]
    else:
        names = (name for name, _ in documents(directory))
    with open(out, "w") as file:
        file.writelines(f"{name}\n" for name in names)


class Corpus:
    """Documents as sorted arrays of the numbers of their distinct shingles. Shingles are numbered by their words, not by hashes."""

    def __init__(self, named_words):
        import numpy as np

        vocabulary, self.names, words, lengths = collections.defaultdict(itertools.count(1).__next__), [], [], []
        for name, tokens in named_words:
            if tokens:
                # Fewer than five words are one shingle: they are filled up with number 0, which is no word.
                ids = np.fromiter(map(vocabulary.__getitem__, tokens), dtype=np.int64, count=len(tokens))
                words.append(np.pad(ids, (0, max(0, WORDS - len(ids)))))
                lengths.append(len(words[-1]))
                self.names.append(name)
        assert len(vocabulary) < 1 << 21
        words, ends = np.concatenate(words), np.cumsum(lengths)
        three = words[:-2] << 42 | words[1:-1] << 21 | words[2:]
        three = np.unique(three, return_inverse=True)[1]
        five = three[:-2] << 32 | three[2:]
        owner = np.repeat(np.arange(len(lengths)), lengths)
        inside = owner[: len(five)] == owner[4:]
        five = np.unique(five[inside], return_inverse=True)[1]
        own = distinct(owner[: len(inside)][inside] << 32 | five)
        self.windows, self.distinct = len(five), int(five.max()) + 1
        self.starts = np.searchsorted(own >> 32, np.arange(len(lengths) + 1))
        self.shingles = own & 0xFFFFFFFF
        self.sizes = np.diff(self.starts)

    def of(self, number):
        return self.shingles[self.starts[number] : self.starts[number + 1]]

    def groups(self):
        """Documents with the same shingles, by the first of them."""
        groups = collections.defaultdict(list)
        for number in range(len(self.names)):
            groups[self.of(number).tobytes()].append(number)
        return {numbers[0]: numbers for numbers in groups.values()}


def distinct(values):
    """As numpy.unique does, which is slow without an inverse."""
    import numpy as np

    values = np.sort(values)
    return values[np.diff(values, prepend=-1) != 0]


def gather(starts, values, numbers):
    """The values of all these lists, one after the other, and the length of each."""
    import numpy as np

    lengths = starts[numbers + 1] - starts[numbers]
    at = np.repeat(starts[numbers] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths) + np.arange(lengths.sum())
    return values[at], lengths


def similar_enough(shared, a, b):
    """In integers: shared / (a + b - shared) >= 4/5."""
    return 5 * shared >= 4 * (a + b - shared)


def exact_pairs(corpus):
    """Every pair at the threshold. If four fifths of the shingles of two documents are the same, then, in any one order of all shingles,
    at least one of the first fifth of each is: only documents that share one of their rarest fifth are compared, in full."""
    import numpy as np

    groups = corpus.groups()
    firsts = np.fromiter(groups, dtype=np.int64)
    frequency = np.zeros(corpus.distinct, dtype=np.int64)
    for number in firsts:
        frequency[corpus.of(number)] += 1
    rank = np.empty(corpus.distinct, dtype=np.int64)
    rank[np.argsort(frequency, kind="stable")] = np.arange(corpus.distinct)
    prefixes = []
    for number in firsts:
        own, size = corpus.of(number), int(corpus.sizes[number])
        prefix = own[np.argsort(rank[own])[: size - -(-4 * size // 5) + 1]]
        prefixes.append(prefix[frequency[prefix] > 1])
    owners = np.repeat(firsts, [len(prefix) for prefix in prefixes])
    keys = np.concatenate(prefixes)
    order = np.argsort(keys, kind="stable")
    owners, starts = owners[order], np.searchsorted(keys[order], np.arange(corpus.distinct + 1))
    pairs = [pair for numbers in groups.values() for pair in itertools.combinations(numbers, 2)]
    mine = np.zeros(corpus.distinct, dtype=bool)
    for number, prefix in zip(firsts, prefixes):
        others = distinct(gather(starts, owners, prefix)[0])
        size = corpus.sizes[number]
        others = others[(others < number) & (5 * np.minimum(corpus.sizes[others], size) >= 4 * np.maximum(corpus.sizes[others], size))]
        if not len(others):
            continue
        mine[corpus.of(number)] = True
        theirs, lengths = gather(corpus.starts, corpus.shingles, others)
        shared = np.add.reduceat(mine[theirs].astype(np.int64), np.cumsum(lengths) - lengths)
        mine[corpus.of(number)] = False
        for other in others[similar_enough(shared, corpus.sizes[others], size)]:
            pairs += itertools.product(groups[other], groups[number])
    return {tuple(sorted((corpus.names[a], corpus.names[b]))) for a, b in pairs}


def brute_force_pairs(corpus):
    """Every pair at the threshold: each document is compared with all others, shingle by shingle."""
    import numpy as np

    order = np.argsort(corpus.shingles, kind="stable")
    owners = np.repeat(np.arange(len(corpus.names)), corpus.sizes)[order]
    starts = np.searchsorted(corpus.shingles[order], np.arange(corpus.distinct + 1))
    pairs = set()
    for number in range(len(corpus.names)):
        shared = np.bincount(gather(starts, owners, corpus.of(number))[0], minlength=len(corpus.names))
        for other in np.flatnonzero(similar_enough(shared, corpus.sizes, corpus.sizes[number])):
            if other < number:
                pairs.add(tuple(sorted((corpus.names[other], corpus.names[number]))))
    return pairs


def sample(path):
    """The ids of whole packages, in the order of a hash of their name."""
    packages = collections.defaultdict(list)
    for name, _ in documents(path):
        packages[name.split("/")[1]].append(name)
    chosen = set()
    for package in sorted(packages, key=lambda package: hashlib.sha256(package.encode()).digest()):
        if len(chosen) >= SAMPLE_DOCUMENTS:
            break
        chosen.update(packages[package])
    return chosen


def plain_words(path, chosen=None):
    return ((name, word.findall(text.lower())) for name, text in documents(path) if chosen is None or name in chosen)


def our_words(path, chosen=None):
    with subprocess.Popen(["dedup-tokenize", path], stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            record = json.loads(line)
            if "doc" in record and (chosen is None or record["doc"] in chosen):
                yield record["doc"], record["tokens"]
    if process.returncode != 0:
        raise SystemExit("peers: failed: dedup-tokenize")


def truth(path, out):
    """OUT.plain and OUT.ours: the exact pairs by \\w+ and by the words of dedup-tokenize; OUT: what was counted, as JSON. On a sample they
    are compared with brute force, and it ends with an error if they are not the same."""
    chosen, report = sample(path), {}
    for kind, words in (("plain", plain_words), ("ours", our_words)):
        corpus = Corpus(words(path))
        pairs = exact_pairs(corpus)
        few = Corpus(words(path, chosen))
        by_force = brute_force_pairs(few)
        inside = {pair for pair in pairs if chosen.issuperset(pair)}
        if inside != by_force:
            raise SystemExit(f"peers: the exact pairs are not those of brute force on the sample ({kind}): {sorted(inside ^ by_force)[:3]}")
        with open(f"{out.name}.{kind}", "w") as file:
            for pair in sorted(pairs):
                write_pair(file, *pair)
        report[kind] = {
            "documents": len(corpus.names), "windows": corpus.windows, "distinct": corpus.distinct, "pairs": len(pairs),
            "sample_documents": len(few.names), "sample_pairs": len(by_force),
        }
    json.dump(report | {"sample": sorted(chosen)}, out)


RUN = {"gaoya": run_gaoya, "rensa": run_rensa, "datasketch": run_datasketch, "datatrove": run_datatrove, "truth": truth}
CLEAN = {name: clean_by_pairs(RUN[name]) for name in ("gaoya", "rensa", "datasketch")} | {"datatrove": clean_datatrove, "text-dedup": clean_text_dedup}

if __name__ == "__main__":
    tool, corpus, path = sys.argv[1:]
    if tool == "ids":
        ids(pathlib.Path(corpus), path)
    elif tool.startswith("clean-"):
        os.makedirs(path)
        CLEAN[tool.removeprefix("clean-")](corpus, pathlib.Path(path))
    else:
        with open(path, "w") as out:
            RUN[tool](corpus, out)
