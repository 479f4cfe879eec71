"""Circles between files of src/: a module (its .c and .h, and a NAME_impl.h with NAME) that includes, by way of
others, a module that includes it. Those that remain are listed with a reason. Usage: circles.py SOURCE_ROOT"""
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)

# Modules that may lie in one circle -> why.
ALLOWED = [
    ({"trace/trace", "trace/seal/block_fill", "trace/seal/block_pack", "trace/seal/block_write", "trace/seal/draft",
      "trace/seal/fold", "trace/seal/image", "trace/seal/seal", "trace/sealed/block", "trace/sealed/cursor", "trace/sealed/decoder",
      "trace/sealed/facts", "trace/sealed/kept", "trace/sealed/loaded", "trace/sealed/store"},
     "trace.h declares the facts of a recording, which the parts fill and trace.c hands out"),
    ({"model/model", "model/state"}, "state.h is the inside of a model, which its files share"),
    ({"watch/follow", "watch/maps"}, "maps.c asks who is followed already"),
    ({"tune/forest", "tune/search"}, "a search knows its forest, and a forest the point that it judges"),
    ({"watch/view/impl", "watch/view/view"}, "impl.h is shared by the files of the view"),
    ({"export/export", "export/job"}, "export.c has the table of formats, job.h what each is given"),
    ({"record/image", "record/split"}, "an image holds the state of its split"),
    ({"record/kernel_source", "record/loop", "record/record"}, "record.h has the options that the loop passes on"),
    ({"cli/command", "cli/options"}, "a command has options, and options print a command's usage"),
    ({"heap/heap", "heap/saved"}, "a heap is read from a saved one"),
    ({"workload/djmalloc", "workload/djmalloc_read"}, "one trace, read and written"),
    ({"import/import", "import/readers"}, "import.c has the table of readers"),
    ({"replay/engine", "replay/execute"}, "a seat of the engine is what is executed"),
]


def graph(root):
    """Module -> the modules that it includes."""
    src, edges = os.path.join(root, "src"), {}
    for directory, _, names in os.walk(src):
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".inc")):
                continue
            with open(os.path.join(directory, name), encoding="utf-8") as f:
                text = f.read()
            here = module(os.path.relpath(os.path.join(directory, name), src))
            for included in INCLUDE.findall(text):
                for base in (directory, src):
                    path = os.path.normpath(os.path.join(base, included))
                    if os.path.exists(path):
                        edges.setdefault(here, set()).add(module(os.path.relpath(path, src)))
                        break
    return edges


def module(path):
    return re.sub(r"_impl$", "", os.path.splitext(path)[0])


def reached(edges, start):
    """All that a module includes, by way of others."""
    seen, left = set(), [start]
    while left:
        for other in edges.get(left.pop(), ()):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def circles(edges):
    """The largest sets of modules each of which reaches all the others."""
    all_reached = {m: reached(edges, m) for m in edges}
    found = {frozenset(o for o in r if o != m and m in all_reached.get(o, ())) | {m} for m, r in all_reached.items()}
    return sorted((sorted(c) for c in found if len(c) > 1))


def check(root, allowed=None):
    """Returns a list of complaints."""
    allowed = ALLOWED if allowed is None else allowed
    found = circles(graph(root))
    bad = ["a circle of " + ", ".join(c) for c in found if not any(set(c) <= may for may, _ in allowed)]
    bad += ["no circle any more: " + ", ".join(sorted(may)) for may, _ in allowed if not any(set(c) & may for c in found)]
    return bad


def check_itself():
    assert circles({"a/b": {"a/c"}, "a/c": {"d/e"}, "d/e": {"a/b"}, "x": {"a/b"}}) == [["a/b", "a/c", "d/e"]]
    assert circles({"a": {"b"}, "b": {"c"}}) == []


if __name__ == "__main__":
    check_itself()
    problems = check(sys.argv[1])
    print("\n".join(problems + [f"circles: {len(problems)} complaints"]))
    sys.exit(1 if problems else 0)
