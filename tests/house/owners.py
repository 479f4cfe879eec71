"""Fails where a structure that one directory owns is walked by another's code.
Usage: owners.py SOURCE_ROOT"""
import os
import re
import sys

sys.dont_write_bytecode = True
from processor import plain, without_texts  # noqa: E402

# What must not be written; what to write instead; directory or file -> why it may.
RULES = [
    (re.compile(r"(?:->|\.)nodes\["), "trace_caller, trace_node or names_next",
     {"trace": "reads them",
      "watch/stacks.c": "makes an image of its own",
      "model/mapped.c": "a tree of mappings",
      "heap/containers.c": "blocks of a container",
      "tune/forest.c": "a tree of decisions"}),
]


def check(root):
    """Complaints, of lines and of exceptions that nothing needs."""
    found, used = [], set()
    source = os.path.join(root, "src")
    for folder, _, names in os.walk(source):
        for name in sorted(names):
            if not name.endswith((".c", ".h")):
                continue
            path = os.path.relpath(os.path.join(folder, name), source)
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                text = without_texts(plain(f.read()))
            for number, line in enumerate(text.splitlines(), 1):
                for rule, (pattern, instead, may) in enumerate(RULES):
                    if not pattern.search(line):
                        continue
                    owner = next((o for o in (path, path.split(os.sep)[0]) if o in may), None)
                    used.add((rule, owner))
                    if not owner:
                        found.append(f"src/{path}:{number}: write {instead}: {line.strip()}")
    for rule, (pattern, _, may) in enumerate(RULES):
        found += [f"owners.py: {owner} does not need its exception to {pattern.pattern}"
                  for owner in may if (rule, owner) not in used]
    return found


if __name__ == "__main__":
    complaints = check(sys.argv[1])
    print("\n".join(complaints))
    sys.exit(bool(complaints))
