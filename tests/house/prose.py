"""Documents, man pages, comments and messages are in plain American technical English. No word of
the list is in any of them. In documents and man pages a sentence has 45 words at most, and 20 on average. A comment may be as
long as it needs: shorter ones lost their subjects. What made comments and names hard to read has a budget that only goes down
(budgets.txt): comments that begin with Of, What or Whether, and functions whose name another file has, too.
Usage: prose.py SOURCE_ROOT"""
import glob
import os
import re
import sys

import budgets
from documents import faults as facts_of
from files import review

MEAN, MOST = 20, 45

# What is not said -> what is said instead.
WORDS = {
    r"tells?|told|telling": "reports, shows, says",
    r"who(so)?ever|whomever": "the process that, the user who",
    r"nobody|somebody|anybody": "no user, a process",
    r"folders?": "directory",
    r"behave like": "behave as",
    r"all the same": "anyway, still",
    r"foretell\w*|foretold": "predict",
    r"worth (?:its|the) while|to and fro": "a plain word",
    r"colour\w*|behaviour\w*|synchronis\w*|recognis\w*|optimis\w*|organis\w*|initialis\w*|"
    r"symbolis\w*|neighbour\w*|favour\w*|centre\w*": "American spelling",
    r"thrice|hitherto|thereof|whilst|amid|amidst": "a plain word",
}
# In comments and messages, too: "what is ..." as a noun ("what is lost" -> "the lost range").
NOUN = {r"what (?:is|was|were|has been)": "a noun"}
# A clause as a subject: "Who presses Ctrl-C ..." -> "A user who presses ..."
SUBJECT = re.compile(r"(?:^/\*\s*|[.:;] )(Who [a-z]\w*)(?![^.:;]*\?)")
BANNED = [(re.compile(rf"(?<![\w`-])({pattern})(?![\w`-])", re.I), instead) for pattern, instead in WORDS.items()]
BANNED_IN_C = BANNED + [(re.compile(rf"\b{pattern}\b", re.I), instead) for pattern, instead in NOUN.items()]

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


# Of man pages: what is shown as it is typed; requests that set their line in another type, which is part
# of a sentence; all other requests, which end one; escapes; and the clauses of a list of JSON keys.
SHOWN = re.compile(r"^\.(?:nf|EX)\b.*?^\.(?:fi|EE)\b", re.M | re.S)
TYPED = re.compile(r"^\.(?:B|I|BR|BI|IR|RB|RI|IB)[ \t]+", re.M)
REQUEST = re.compile(r"^[.'].*$", re.M)
ESCAPE = re.compile(r"\\f(?:\[\w*\]|.)|\\[-&e]|\\\(..")


def sentences_of_manual(text):
    """Prose alone: no comments, headings, tables or examples."""
    text = re.sub(r'^[.\']\\".*\n', "", text, flags=re.M)
    text = re.sub(r"^\.TS\b.*?^\.TE\b", "\n\n", SHOWN.sub("\n\n", text), flags=re.M | re.S)
    text = ESCAPE.sub("", REQUEST.sub("\n\n", TYPED.sub("", text)))
    return sentences(text, CLAUSE)


def faults_of_length(found):
    found = list(found)
    mean = sum(map(len, found)) / max(1, len(found))
    if mean > MEAN:
        yield f"{mean:.1f} words a sentence; at most {MEAN}"
    for s in found:
        if len(s) > MOST:
            yield f"{len(s)} words in one sentence; at most {MOST}: {' '.join(s[:8])} ..."


def faults(text, end=END):
    yield from faults_of_length(sentences(text, end))
    plain = INLINE.sub("", CODE.sub("", text))
    for pattern, instead in BANNED:
        for m in pattern.finditer(plain):
            yield f"'{m.group()}': say {instead}"


# A comment, a string, or a character (which may hold a quote).
TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.S)
FILL = re.compile(r"\s*\n[ \t]*(?:\*(?!/))?[ \t]*")


def texts(source):
    """(line, text) of each comment and string of C source; a name in quotes or backquotes is left out."""
    for m in TOKEN.finditer(source):
        if m.group().startswith("'"):
            continue
        text = FILL.sub(" ", m.group())
        if text.startswith("/"):
            text = re.sub(r'`[^`]*`|"\w+"', "name", text)
        yield source.count("\n", 0, m.start()) + 1, text.strip('"')


def faults_in_c(source):
    for line, text in texts(source):
        for pattern, instead in BANNED_IN_C:
            for m in pattern.finditer(text):
                yield f"{line}: '{m.group()}': say {instead}"
        if text.startswith("/"):
            for m in SUBJECT.finditer(text):
                yield f"{line}: '{m.group(1)} ...': say the user who, the process that"


def faults_in_lines(source):
    """Of man pages, whose comments do not count, and of scripts."""
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith('.\\"'):
            continue
        for pattern, instead in BANNED:
            for m in pattern.finditer(line):
                yield f"{number}: '{m.group()}': say {instead}"


def hard_to_read(sources):
    """The names of the two budgets -> what is counted. sources: path -> text."""
    comments = [f"{path}: {m[0][:40]}" for path, text in sorted(sources.items())
                for m in review.COMMENT.finditer(review.STRING.sub('""', text)) if review.OPENING.match(m[0])]
    shared, _ = review.shared_names({p: t for p, t in sources.items() if not p.startswith("src/bpf/")})
    return {"comments that begin with Of, What or Whether": comments,
            "functions whose name another file has": [f"{n} ({p})" for p, names in sorted(shared.items()) for n in names]}


def check_itself():
    long = "word " * 50
    for text in (f"A {long}.", "Whoever reads it.", "The kernel told us.", "A folder.", "One two three. " * 9 + "w " * 46 + "."):
        assert list(faults(text)), f"passes: {text[:40]}"
    for text in ("The kernel reports it. It is short.", "```\ntold " + long + "\n```", "| told | x |".replace("told", "y"),
                 "`--told` is an option. A directory."):
        assert not list(faults(text)), f"does not pass: {text[:40]}"
    assert list(faults_of_length(sentences_of_manual(f".SH A\n.B x\n{long}\n.I y\nz.\n")))
    assert not list(faults_of_length(sentences_of_manual(f".SH A\nIt is \\fBx\\fR.\n.EX\n{long}\n.EE\n.TP\n.B x\nIt is y.\n")))
    one = "static int take(int a)\n{\n    return a; /* of a */\n}\n"
    for text, comments, names in ((one, 2, 2), (one.replace("take", "take_it"), 2, 0), ("/* A block of what. */\nint take;\n", 1, 0)):
        found = [len(v) for v in hard_to_read({"src/a.c": text, "src/b.c": one}).values()]
        assert found == [comments, names], (text, found)
    for text in ("/* The kernel told us. */", "// Whoever reads\n", 'say("it tells x");', "/* What\n * is lost. */",
                 "/* Who reads it waits. */", "/* One thread. Who\n * waits is late. */", "/* It is all the same there. */",
                 "c = '\"'; /* a folder */", 'f("cannot make a folder");'):
        assert list(faults_in_c(text)), f"passes: {text}"
    for text in ("int told;", "/* `told` and \"nobody\" are names. */", "/* what_is_x */", "c = '\"'; told('\"');",
                 "/* Who reads it? */", 'f("Who reads it waits.");', "/* The user who waits. */"):
        assert not list(faults_in_c(text)), f"does not pass: {text}"
    assert list(faults_in_lines(".TH\nin a FOLDER")) and not list(faults_in_lines('.\\" told\nin a directory'))


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
    sources = [p for e in ("c", "h", "inc") for p in glob.glob(os.path.join(root, "src", "**", "*." + e), recursive=True)
               if os.path.basename(p) != "vmlinux.h"]
    assert len(sources) > 100, "the sources are not where they are looked for"
    manuals = sorted(glob.glob(os.path.join(root, "docs", "man", "*.[1-9]")))
    # scripts/review counts the words, so it has them.
    scripts = [p for p in sorted(glob.glob(os.path.join(root, "scripts", "*"))) if os.path.isfile(p) and not p.endswith("/review")]
    for path, check in [(p, faults_in_c) for p in sorted(sources)] + [(p, faults_in_lines) for p in manuals + scripts]:
        with open(path, encoding="utf-8") as f:
            for why in check(f.read()):
                bad += 1
                print(f"{os.path.relpath(path, root)}:{why}")
    for path in manuals:
        with open(path, encoding="utf-8") as f:
            for why in faults_of_length(sentences_of_manual(f.read())):
                bad += 1
                print(f"{os.path.relpath(path, root)}: {why}")
    texts_of = {}
    for path in sources:
        with open(path, encoding="utf-8") as f:
            texts_of[os.path.relpath(path, root)] = f.read()
    for why in budgets.over(hard_to_read(texts_of)):
        bad += 1
        print(why)
    for why in facts_of(root):
        bad += 1
        print(why)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
