"""Four threads walk at random through functions of C that call back, with work of eight kinds at each step: many calls,
and more call stacks than most programs have."""
import collections
import functools
import json
import random
import re
import sys
import threading

KEPT = 60000  # objects of a thread
DEPTH = 7


def work(dice, n):
    kind = dice.randrange(8)
    if kind == 0:
        return len("%s-%d" % ("x" * (n % 50), n))
    if kind == 1:
        return len(json.dumps({"a": n, "b": [n, n + 1]}))
    if kind == 2:
        return len(re.findall(r"\d", str(n * 7919)))
    if kind == 3:
        return len([i * 1.5 for i in range(n % 20)])
    if kind == 4:
        return len({i: str(i) for i in range(n % 12)})
    if kind == 5:
        return len(collections.Counter("abc" * (n % 9)))
    if kind == 6:
        return len(sorted(["b", "a", str(n)]))
    return len(" ".join(map(str, range(n % 15))))


class Item:
    def __init__(self, dice, depth):
        self.dice, self.depth = dice, depth

    def __len__(self):
        step(self.dice, self.depth - 1)
        return 1

    def __str__(self):
        step(self.dice, self.depth - 1)
        return "s"


WAYS = (lambda r, d: sum(map(lambda _: step(r, d - 1), (1,))),
        lambda r, d: len(sorted((1,), key=lambda _: step(r, d - 1))),
        lambda r, d: functools.reduce(lambda a, b: step(r, d - 1), (1, 2)),
        lambda r, d: min((1,), key=lambda _: step(r, d - 1)),
        lambda r, d: len(list(filter(lambda _: step(r, d - 1), (1,)))),
        lambda r, d: len(re.sub("a", lambda _: str(step(r, d - 1)), "a")),
        lambda r, d: len(Item(r, d)),
        lambda r, d: len("%s" % Item(r, d)))


def step(dice, depth):
    n = work(dice, dice.randrange(1000))
    if depth > 0:
        n += WAYS[min(int(dice.expovariate(0.55)), len(WAYS) - 1)](dice, depth)
    return n


def walk(number, rounds):
    dice, kept = random.Random(number), []
    for k in range(rounds):
        step(dice, DEPTH)
        if dice.random() < 0.2:
            kept.append([str(k), {"k": k}])
        if len(kept) > KEPT:
            del kept[:dice.randrange(KEPT)]


def main(rounds):
    threads = [threading.Thread(target=walk, args=(i, rounds)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
