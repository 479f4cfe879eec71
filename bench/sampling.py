#!/usr/bin/env python3
"""Ways to choose samples, tried on recordings: which of them finds what a program holds, with equally many samples?

usage: sampling.py [--mallow MALLOW] [--rounds N] [--samples N] RECORDING...

Each recording has every block, so the truth is known. At its peak the live bytes are estimated from samples that are chosen

  bytes    as watch does: a byte has the same chance everywhere, 1 - exp(-size / period) a block
  calls    each block has the same chance
  caller   a call site has more the fewer bytes it has allocated before: size / its bytes until then
  mixed    four fifths of the samples by bytes, one by caller

with as many samples in the mean, each block standing for 1 / p of its kind. Printed: the median error of the 20 call sites
that hold most, how many of them have a sample, the error of the sum (root of the mean square), how often its 95 %
interval holds, and the median error of the calls of the 20 that call most. Needs numpy."""
import argparse
import csv
import os
import subprocess

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = ("bytes", "calls", "caller", "mixed")
TOP = 20


def read(mallow, recording):
    """Size, call site, birth and death of each block, times in events; and how many events there are."""
    blocks, live, names, count = [], {}, {}, 0
    with subprocess.Popen([mallow, "export", "--format=csv", "-o", "/dev/stdout", recording], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as export:
        for count, row in enumerate(csv.DictReader(export.stdout), 1):
            key = row["pid"], row["address"]
            if row["kind"].startswith(("alloc", "realloc")) and row["size_bytes"] and row["kind"] != "realloc-old":
                if key in live:
                    blocks[live[key]][3] = count
                live[key] = len(blocks)
                blocks.append([int(row["size_bytes"]), names.setdefault((row["pid"], row["site"]), len(names)), count, -1])
            elif key in live:
                blocks[live.pop(key)][3] = count
    return np.array(blocks, dtype=np.int64).reshape(-1, 4).T, count


def before(site, size):
    """What the site of each block has allocated until then, the block included."""
    order = np.argsort(site, kind="stable")
    sums, starts = np.cumsum(size[order]), np.r_[0, np.flatnonzero(np.diff(site[order])) + 1]
    base = np.repeat(np.r_[0, sums[starts[1:] - 1]], np.diff(np.r_[starts, site.size]))
    found = np.zeros(site.size)
    found[order] = sums - base
    return found


def fit(chance, samples):
    """The chances with so many samples in the mean."""
    low, high = 1e-15, 1e15
    for _ in range(120):
        middle = (low * high) ** .5
        low, high = (low, middle) if chance(middle).sum() > samples else (middle, high)
    return chance(low)


def chances(way, site, size, samples):
    own = before(site, size)
    by_bytes, by_caller = lambda c: 1 - np.exp(-size * c), lambda c: np.minimum(1, c * size / np.maximum(own, 1))
    if way == "bytes":
        return fit(by_bytes, samples)
    if way == "calls":
        return np.full(size.size, min(1, samples / size.size))
    if way == "caller":
        return fit(by_caller, samples)
    return 1 - (1 - fit(by_bytes, samples * .8)) * (1 - fit(by_caller, samples * .2))


def judge(dice, p, site, size, live, rounds):
    sites = site.max() + 1
    held, calls = np.bincount(site[live], size[live], sites), np.bincount(site, minlength=sites).astype(float)
    most, callers = [t[v[t] > 0] for v in (held, calls) for t in [np.argsort(-v)[:TOP]]]
    wrong, found, sums, holds, counted = [], [], [], [], []
    for _ in range(rounds):
        s = dice.random(size.size) < p
        weight, alive = 1 / p[s], live[s]
        stands = size[s][alive] * weight[alive]
        guess = np.bincount(site[s][alive], stands, sites)
        spread = np.sqrt((size[s][alive] * stands * (weight[alive] - 1)).sum())
        wrong.append(np.abs(guess[most] / held[most] - 1))
        counted.append(np.abs(np.bincount(site[s], weight, sites)[callers] / calls[callers] - 1))
        found.append((guess[most] > 0).mean())
        sums.append(guess.sum() / held.sum() - 1)
        holds.append(abs(guess.sum() - held.sum()) <= 1.96 * spread + 1e-9)
    return [100 * v for v in (np.median(wrong), np.mean(found), np.sqrt(np.mean(np.square(sums))), np.mean(holds),
                              np.median(counted))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mallow", default=os.path.join(HERE, "..", "build", "mallow"))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--samples", type=int, default=0, help="default: one in 400 blocks, and at least 500")
    parser.add_argument("recordings", nargs="+")
    o = parser.parse_args()
    dice = np.random.default_rng(5)
    print("| recording | way | largest 20 | found | sum | interval holds | calls of 20 |\n| --- | --- | --- | --- | --- | --- | --- |")
    for recording in o.recordings:
        (size, site, born, dead), events = read(o.mallow, recording)
        change = np.zeros(events + 2)
        np.add.at(change, born, size)
        np.add.at(change, dead[dead > 0], -size[dead > 0])
        peak = int(np.argmax(np.cumsum(change)))
        live = (born <= peak) & ((dead < 0) | (dead > peak))
        for way in WAYS:
            p = chances(way, site, size.astype(float), o.samples or max(500, size.size / 400))
            figures = judge(dice, p, site, size.astype(float), live, o.rounds)
            print(f"| {os.path.basename(recording)} | {way} | " + " | ".join(f"{v:.0f} %" for v in figures) + " |")


if __name__ == "__main__":
    main()
