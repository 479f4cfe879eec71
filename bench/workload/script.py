"""A Python program of the ordinary kind: parses, sorts, counts, builds objects, formats text."""
import collections
import json
import re
import sys


class Record:
    def __init__(self, key, words):
        self.key, self.words, self.children = key, words, []


def text(n):
    x, out = 12345, []
    for _ in range(n):
        x = (x * 1103515245 + 12345) & 0x7fffffff
        out.append("%s%d" % ("abcdefgh"[x % 8] * (1 + x % 5), x % 997))
    return " ".join(out)


def main(rounds):
    total = 0
    for r in range(rounds):
        words = re.findall(r"[a-z]+\d", text(4000))
        counts = collections.Counter(words)
        records = [Record(i, words[i:i + 5]) for i in range(2000)]
        for a, b in zip(records, records[1:]):
            a.children.append(b.key)
        document = json.dumps([{"key": q.key, "words": q.words, "children": q.children} for q in records])
        again = json.loads(document)
        total += sum(len(e["words"]) for e in again) + len(counts.most_common(10))
        total += len(sorted(set(document.split('"')), key=lambda s: (len(s), s)))
    print(total)


main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
