"""prints.py WORD...: the print of a document with these words, as dedup-stream(5) defines it. Needs xxhsum."""

import subprocess
import sys

M = 0x9E3779B97F4A7C15
MASK_64 = (1 << 64) - 1
MASK_32 = (1 << 32) - 1


def xxh3(word):
    printed = subprocess.run(["xxhsum", "-H3"], input=word.encode(), stdout=subprocess.PIPE, check=True).stdout
    return int(printed.split()[-1], 16)


def stir(x):
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & MASK_64
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & MASK_64
    return x ^ x >> 33


def bit(hashes, lane):
    step = (lane + 1) * M & MASK_64
    seed = stir(step)
    a, b = seed & MASK_32, seed >> 32 | 1
    winner = min(hashes, key=lambda f: (((f & MASK_32) ^ a) * b & MASK_32, f))
    return stir(winner + step & MASK_64) & 1


hashes = {xxh3(word) for word in sys.argv[1:]}
bits = sum(bit(hashes, lane) << lane for lane in range(256))
print(bits.to_bytes(32, "little").hex())
