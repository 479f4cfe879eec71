#!/usr/bin/env python3
"""Documents keep one fact in one place.

- ARCHITECTURE.md and docs/design/ hold no measured times or costs; docs/measurements.md does, and each of its
  sections has a date and a command.
- Each path and each file name that a document names exists, and ARCHITECTURE.md names every header of src/arch/. A line of
  prose has 150 columns at most.
- docs/glossary.md defines each term once, and the field's words are among them.
- Each amount in JSON that a man page names is in the glossary's table once, and each name there is in a man
  page and written by the sources.

Run by prose.py."""
import glob
import os
import re

# As the manuals of perf, jemalloc and glibc use them.
FIELD = ["RSS", "live heap", "call site", "fragmentation", "mmap threshold", "trim threshold", "cross-thread free",
         "unknown free", "peak", "leak", "pinned page", "arena", "tcache", "sample", "mark", "recording", "gap"]
WIDTH = 150
AMOUNT = re.compile(r"_(?:bytes|blocks|frees|calls|events|allocations|pages|stacks)$")
MEASURED = re.compile(r"\b(?:takes?|took|costs?|in|after|than|to)\s+(?:about\s+)?\d[\d.,]*\s?(?:ns|us|µs|ms|s|seconds|minutes)\b"
                      r"|\b\d[\d.,]*\s?(?:ns|us|µs|ms)\b")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def design_faults(name, text):
    return [f"{name}:{n}: a measurement; docs/measurements.md is its place: {found.group()}"
            for n, line in enumerate(text.split("\n"), 1) for found in MEASURED.finditer(line)]


def measurement_faults(text):
    bad = []
    for section in text.split("\n## ")[1:]:
        title = section.split("\n", 1)[0]
        if not re.search(r"^20\d\d-\d\d-\d\d\b", section, re.M):
            bad.append(f"docs/measurements.md: '{title}' has no date")
        if "```sh\n" not in section:
            bad.append(f"docs/measurements.md: '{title}' has no command")
    return bad


def sources_of(root):
    """The paths of all files that a document may name by their ends."""
    found = []
    for top in ("src", "web/src", "tests", "bench", "include", "lib", "scripts", "findings", "packaging", "docs"):
        for directory, _, names in os.walk(os.path.join(root, top)):
            found += [os.path.relpath(os.path.join(directory, n), root) for n in names]
    return found


def path_faults(root, name, text, sources=()):
    """NAME in a path stands for any. A name without a directory, or with the last of its directories, is the end of a path in SOURCES."""
    paths = re.findall(r"`((?:src|web|tests|docs|scripts|bench|include|packaging)/[\w./*+-]+)`", text)
    bad = [f"{name}: there is no {path}" for path in sorted(set(paths))
           if not glob.glob(os.path.join(root, path.replace("NAME", "*")))]
    if not sources:
        return bad
    ends = set(re.findall(r"`((?:[\w+-]+/)*[\w.+-]+\.(?:c|h|inc|py|tsx?))`", text)) - set(paths)
    known = {"/".join(p.split("/")[-depth:]) for p in sources for depth in range(1, p.count("/") + 2)}
    return bad + [f"{name}: there is no {end}" for end in sorted(ends) if "NAME" not in end and end not in known]


def width_faults(name, text):
    """Tables are as wide as their cells, and output is as wide as it was printed."""
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), text, flags=re.M | re.S)
    return [f"{name}:{n}: {len(line)} columns; at most {WIDTH}" for n, line in enumerate(prose.split("\n"), 1)
            if len(line) > WIDTH and not line.startswith("|")]


def processor_faults(text, headers):
    """The sentence that lists what a second processor fills."""
    listed = re.search(r"fills the same headers:\n?(.*?)\.\n", text, re.S)
    named = set(re.findall(r"`(\w+)`", listed.group(1))) if listed else set()
    return [f"ARCHITECTURE.md: the headers of a processor: '{n}' is named or exists alone" for n in sorted(named ^ headers)]


def terms_of(glossary):
    """The words in bold at the start of a row; "window, slot" are two, and one "(of a ...)" is another."""
    terms = []
    for row in re.findall(r"^\| \*\*([^*]+)\*\*([^|]*)\|", glossary, re.M):
        extra = re.search(r"\(of [^)]*\)", row[1])
        words = row[0].split(", ") + [w.strip() for w in re.sub(r"\(.*?\)", "", row[1]).split(",") if w.strip()]
        terms += [f"{w} {extra.group()}" if extra else w for w in words]
    return terms


def glossary_faults(glossary):
    terms = terms_of(glossary)
    bad = [f"docs/glossary.md defines '{t}' {terms.count(t)} times" for t in sorted(set(terms)) if terms.count(t) > 1]
    return bad + [f"docs/glossary.md does not define '{t}'" for t in FIELD if t not in terms]


def amount_faults(glossary, in_pages, written):
    rows = re.findall(r"^\| `([a-z0-9_]+)` \|", glossary, re.M)
    wanted = {n for n in in_pages & written if AMOUNT.search(n)}
    bad = [f"docs/glossary.md has '{n}' {rows.count(n)} times" for n in sorted(set(rows)) if rows.count(n) > 1]
    bad += [f"docs/glossary.md: the table of figures lacks '{n}', which a man page names" for n in sorted(wanted - set(rows))]
    bad += [f"docs/glossary.md: '{n}' is in no man page" for n in sorted(set(rows) - in_pages)]
    return bad + [f"docs/glossary.md: nothing writes '{n}'" for n in sorted(set(rows) - written)]


def names_in_pages(root):
    names = set()
    for path in glob.glob(os.path.join(root, "docs/man/*.[0-9]")):
        for line in read(path).split("\n"):
            if re.match(r"\.[BIR]", line):
                names |= set(re.findall(r"[a-z][a-z_0-9]+", line.split(" ", 1)[-1].replace("\\-", "-")))
    return names


def names_written(root):
    names = set()
    for path in glob.glob(os.path.join(root, "src/**/*.[ch]"), recursive=True):
        names |= set(re.findall(r'"([a-z][a-z_0-9]*)"', read(path)))
    return names


def faults(root):
    """Of the whole tree."""
    architecture = read(root, "ARCHITECTURE.md")
    bad = design_faults("ARCHITECTURE.md", architecture)
    bad += processor_faults(architecture, {os.path.basename(p)[:-2] for p in glob.glob(os.path.join(root, "src/arch/*.h"))})
    sources = sources_of(root)
    assert len(sources) > 1000, "the sources are not where they are looked for"
    for path in sorted(glob.glob("*.md", root_dir=root) + glob.glob("docs/**/*.md", root_dir=root, recursive=True)):
        bad += path_faults(root, path, read(root, path), sources) + width_faults(path, read(root, path))
    for path in sorted(glob.glob(os.path.join(root, "docs/design/*.md"))):
        bad += design_faults(os.path.relpath(path, root), read(path))
    bad += measurement_faults(read(root, "docs/measurements.md"))
    glossary = read(root, "docs/glossary.md")
    bad += glossary_faults(glossary)
    bad += amount_faults(glossary, names_in_pages(root), names_written(root))
    return bad
