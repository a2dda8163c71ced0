"""dedup-blot … | python3 scripts/pairs.py: the pairs of documents that share blots, most first.

A few lines to show what a blot stream is good for. Distinct blots count; the percentages say how much of the
first document is in the second, and how much of the second in the first. All in memory: for small collections.
"""
import collections
import itertools
import json
import sys


def read_blots(lines):
    """{document: its distinct blots}; the lines that open and close the stream are not documents."""
    records = (json.loads(line) for line in lines)
    return {record["doc"]: set(record["blots"]) for record in records if "doc" in record}


def count_shared(blots):
    """{(a, b): blots in both}, by way of a posting list for each blot."""
    postings = collections.defaultdict(list)
    for document in sorted(blots):
        for blot in blots[document]:
            postings[blot].append(document)
    return collections.Counter(pair for documents in postings.values() for pair in itertools.combinations(documents, 2))


def main():
    blots = read_blots(sys.stdin)
    pairs = sorted(count_shared(blots).items(), key=lambda pair: (-pair[1], pair[0]))
    width = max((len(a) for (a, _), _ in pairs), default=0)
    for (a, b), shared in pairs:
        in_b, in_a = shared / len(blots[a]), shared / len(blots[b])
        print(f"{shared:6} shared   {in_b:4.0%} of {a:{width}}   {in_a:4.0%} of {b}")


if __name__ == "__main__":
    main()
