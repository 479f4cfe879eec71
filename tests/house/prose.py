"""Documents are in plain American technical English. In each: a sentence has 20 words or fewer on
average, and 45 at most; no word of the list. Usage: prose.py SOURCE_ROOT"""
import glob
import os
import re
import sys

MEAN, MOST = 20, 45

# What is not said -> what is said instead.
WORDS = {
    r"tells?|told|telling": "reports, shows, says",
    r"who(so)?ever|whomever": "the process that, the user who",
    r"nobody|somebody|anybody": "no user, a process",
    r"folders?": "directory",
    r"behave like": "behave as",
    r"colour\w*|behaviour\w*|synchronis\w*|recognis\w*|optimis\w*|organis\w*|initialis\w*": "American spelling",
    r"thrice|hitherto|thereof|whilst|amid|amidst": "a plain word",
}
BANNED = [(re.compile(rf"(?<![\w`-])({pattern})(?![\w`-])", re.I), instead) for pattern, instead in WORDS.items()]

CODE = re.compile(r"```.*?```", re.S)
INLINE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# Ends of sentences, and of items of lists.
END = re.compile(r"[.!?](?=\s|$)|\n\s*(?:[-*]|\d+\.)\s|\n\s*\n")
# Specifications enumerate: there a clause ends at a semicolon or colon, too.
SPECIFICATIONS = ("docs/format.md", "docs/workload.md")
CLAUSE = re.compile(END.pattern + "|[;:]")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|M|B|K|G|MB|GB|R|L|E|F|T)\.(?=\s)")


def sentences(text, end=END):
    """Prose alone: no code, no tables, no headings, no comments."""
    text = CODE.sub("\n\n", text)
    text = re.sub(r"<!--.*?-->", "\n\n", text, flags=re.S)
    lines = ["" if re.match(r"\s*(\||#|---|\[|<)", line) else line for line in text.split("\n")]
    text = LINK.sub(r"\1", INLINE.sub("name", "\n".join(lines)))
    text = ABBREVIATION.sub("x", text)
    for part in end.split(text):
        words = re.findall(r"[\w'%./+-]*\w[\w'%./+-]*", part)
        if len(words) > 1:
            yield words


def faults(text, end=END):
    lengths = [len(s) for s in sentences(text, end)]
    if lengths and sum(lengths) / len(lengths) > MEAN:
        yield f"{sum(lengths) / len(lengths):.1f} words a sentence; at most {MEAN}"
    for s in sentences(text, end):
        if len(s) > MOST:
            yield f"{len(s)} words in one sentence; at most {MOST}: {' '.join(s[:8])} ..."
    plain = INLINE.sub("", CODE.sub("", text))
    for pattern, instead in BANNED:
        for m in pattern.finditer(plain):
            yield f"'{m.group()}': say {instead}"


def check_itself():
    long = "word " * 50
    for text in (f"A {long}.", "Whoever reads it.", "The kernel told us.", "A folder.", "One two three. " * 9 + "w " * 46 + "."):
        assert list(faults(text)), f"passes: {text[:40]}"
    for text in ("The kernel reports it. It is short.", "```\ntold " + long + "\n```", "| told | x |".replace("told", "y"),
                 "`--told` is an option. A directory."):
        assert not list(faults(text)), f"does not pass: {text[:40]}"


def main(root):
    check_itself()
    bad = 0
    documents = [os.path.join(root, n) for n in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    documents += sorted(glob.glob(os.path.join(root, "docs", "**", "*.md"), recursive=True))
    for path in documents:
        with open(path, encoding="utf-8") as f:
            name = os.path.relpath(path, root)
            for why in faults(f.read(), CLAUSE if name in SPECIFICATIONS else END):
                bad += 1
                print(f"{name}: {why}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
