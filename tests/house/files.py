"""Habits that can be counted. No function is over 80 lines; a file is one thing, however long. Every header has its guard, and
there is no utility drawer. budgets.txt bounds what is to become less and never more: headers with one user, which should be a
section of that user, and files that open with no purpose. Each rule is first seen to fail. Usage: files.py SOURCE_ROOT"""
import importlib.machinery
import importlib.util
import os
import re
import sys
import tempfile

import budgets

sys.dont_write_bytecode = True
REVIEW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "review")
LOADER = importlib.machinery.SourceFileLoader("review", REVIEW)
review = importlib.util.module_from_spec(importlib.util.spec_from_loader("review", LOADER))
LOADER.exec_module(review)

FUNCTION_LINES_MAX = 80
# The head of a JSON document is written here alone; corpus.c takes it out of documents in documents.
SCHEMA = {"src/show/schema.c", "src/base/json.c", "src/show/json_document.c", "src/compare/corpus.c"}
# What only fetches must be FETCHES (src/base/fetch.h), or the compiler drops its calls.
FETCHING = re.compile(r"^static (?:inline )?void (\w+)\([^{};]*\)\n\{\n((?:(?!^\}).*\n)*?)\}", re.M)
DRAWERS = re.compile(r"^(util|utils|misc|common|helpers?|stuff)\.[ch]$")


def check(root):
    bad = []
    for folder, _, names in sorted(os.walk(os.path.join(root, "src"))):
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".inc")):
                continue
            path = os.path.join(folder, name)
            here = os.path.relpath(path, root)
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for at, length in review.functions(text):
                if length > FUNCTION_LINES_MAX:
                    bad.append(f"{here}:{at}: a function of {length} lines; {FUNCTION_LINES_MAX} are the limit")
            if '"schema"' in text and here not in SCHEMA:
                bad.append(f"{here}: writes the head of a document; json_begin() or document_new() does")
            for of in FETCHING.finditer(text):
                if "__builtin_prefetch(" not in of[2] or re.search(rf"\b{of[1]}\b(?!\()", text):
                    continue  # called by its address: the compiler does not know by whom
                if not re.search(r"(?<![=!<>])=(?!=)", re.sub(r"\bconst [^;]*;", "", of[2])):
                    bad.append(f"{here}: {of[1]} only fetches, and is not FETCHES")
            if DRAWERS.match(name):
                bad.append(f"{here}: a utility drawer; name it after what it owns")
            # A part of a module may let the module's header speak for it.
            if not text.startswith("/*") and not (name.endswith(".c") and text.startswith("#include ")):
                bad.append(f"{here}: does not open with a comment that says what it owns")
            if name.endswith(".h") and not re.search(r"^#ifndef (\w+)\n#define \1\b", text, re.M):
                bad.append(f"{here}: no include guard")
    return bad


def headers_and_openings(root):
    """(headers with one user or none, tests included; .c files that open with no statement of purpose)"""
    c = {p: t for p, t in review.files_of("", root).items() if p.endswith((".c", ".h", ".inc")) and "vmlinux" not in p}
    tools = {p: t for p, t in c.items() if p.startswith(("src/", "tests/", "bench/"))}
    silent = [p for p, t in c.items() if p.startswith("src/") and p.endswith(".c") and review.opens_with_nothing(t)]
    return review.headers_with_one_user(tools), silent


def check_budgets(root):
    headers, silent = headers_and_openings(root)
    return budgets.over({"headers with one user": headers, "files that open with no purpose": silent})


def self_test():
    """Each rule is seen to fail."""
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "src"))

        def complaints(name, text):
            path = os.path.join(root, "src", name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            found = check(root)
            os.remove(path)
            return len(found)
        assert complaints("a.c", "/* a */\n") == 0
        assert complaints("a.h", "/* a */\n#ifndef A_H\n#define A_H\n#endif\n") == 0
        assert complaints("a.c", "int x;\n") == 1
        assert complaints("a.c", '#include "b.h"\n') == 0
        assert complaints("a.c", '/* a */\nchar s[] = "schema";\n') == 1
        for head, rest in ("", "int f(void)\n{\n"), ("static void *\n", "f(int a,\n  int b)\n{\n"):
            for name in "a.c", "a.inc":
                body = "\n" * (FUNCTION_LINES_MAX - rest.count("\n") - 1)
                assert complaints(name, "/* a */\n" + head + rest + body + "}\n") == 0
                assert complaints(name, "/* a */\n" + head + rest + body + "\n}\n") == 1
        fetching = " void f(int *p)\n{\n    const int i = 1;\n    if (p[i] == 2)\n        __builtin_prefetch(p);\n"
        assert complaints("a.c", f"/* a */\nstatic inline{fetching}}}\n") == 1
        assert complaints("a.c", f"/* a */\nstatic inline{fetching}    *p = 3;\n}}\n") == 0
        assert complaints("a.c", f"/* a */\nstatic{fetching}}}\n") == 1
        assert complaints("a.c", f"/* a */\nstatic{fetching}}}\nvoid (*g)(int *) = f;\n") == 0
        assert complaints("a.c", fetching.replace(" void", "/* a */\nFETCHES") + "}\n") == 0
        assert complaints("utils.c", "/* a */\n") == 1
        assert complaints("a.h", "/* a */\n") == 1
    two = {"src/a/x.h": "", "src/a/x.c": '#include "a/x.h"\n', "src/a/y.c": '#include "a/x.h"\n'}
    assert review.headers_with_one_user(two) == ["src/a/x.h"]
    assert review.headers_with_one_user({**two, "tests/t.c": '#include "a/x.h"\n'}) == []
    for opening in ('#include "a.h"\n', "/* a.c - see a.h. */\n", "/* a.c - see the a.h. */\n", "/* short */\n"):
        assert review.opens_with_nothing(opening), opening
    assert not review.opens_with_nothing("/* a.c - finds the command, parses its options, runs it. */\n")


if __name__ == "__main__":
    self_test()
    problems = check(sys.argv[1]) + check_budgets(sys.argv[1])
    print("\n".join(problems + [f"files: {len(problems)} complaints"]))
    sys.exit(1 if problems else 0)
