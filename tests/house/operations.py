"""What an operation is stands in one place, the table of src/format/op.h. Nothing compares operations by
the order of their numbers, lists those of a class by hand, or lists the names of the C functions again.
Each rule is first seen to fail.
Usage: operations.py SOURCE_ROOT"""
import os
import re
import sys
import tempfile

TABLE = os.path.join("src", "format", "op.h")
# The bound of all numbers may be compared with; it is no operation.
ORDER = re.compile(r"(?<![<>\-])(?:<|>)=?\s*\(?(?:unsigned\)\s*)?MLW_(?:OP|CLASS)_(?!COUNT\b)[A-Z_]+"
                   r"|MLW_(?:OP|CLASS)_(?!COUNT\b)[A-Z_]+\s*\)?\s*(?:<|>)=?(?![<>])")
COMPARED = r"[=!]=\s*MLW_OP_[A-Z_]+\s*\)?\s*"
BY_HAND = re.compile(r"case MLW_OP_[A-Z_]+:\s*(?:/\*.*?\*/\s*)?case MLW_OP_"
                     rf"|{COMPARED}(?:\|\||&&)[^;{{}}]*?{COMPARED}(?:\|\||&&)[^;{{}}]*?[=!]=\s*MLW_OP_", re.S)
NAMES_MAX = 2  # names of the table in one file
EXCEPT = {
    "src/probe/kind_brk.c": "system calls",
    "src/probe/kind_purge.c": "system calls",
    "src/frames/role.c": "globs of functions that allocate for their callers",
    "src/cli/cmd_replay.c": "those that the text shows first",
}


def without_comments(text):
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def table_names(root):
    with open(os.path.join(root, TABLE), encoding="utf-8") as f:
        return set(re.findall(r'^\s*X\(\w+,\s*\d+,\s*"(\w+)"', f.read(), re.M))


ROW = re.compile(r'^\s*X\(\w+,\s*(\d+),\s*"(\w+)[^"]*",\s*([\w| ]+),', re.M)
CELL = re.compile(r"\| (\d+) \| (\w+)([^|]*)\| (SK|S|) ?(?=\|)")
MARKS = {"MLW_F_ALLOC": "SK", "MLW_F_SIZED": "S", "MLW_F_ADDR": ""}


def check_document(table, document):
    """The table of operations in docs/format.md says what the table of op.h says: number, name, fields."""
    said = {int(n): (name, marks, "alignment" in rest) for n, name, rest, marks in CELL.findall(document)}
    bad = []
    for number, name, fields in ROW.findall(table):
        words = [w.strip() for w in fields.split("|")]
        is_so = (name, MARKS[words[0]], "MLW_F_ALIGN" in words)
        here = said.pop(int(number), None)
        if here != is_so:
            bad.append(f"docs/format.md: operation {number} is {is_so}, there {here}")
    return bad + [f"docs/format.md: there is no operation {n}" for n in said]


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def check(root, exceptions):
    bad, needed = [], set()
    names = table_names(root)
    if len(names) < 3:
        bad.append(f"{TABLE}: its table cannot be read")
    for folder, _, files in sorted(os.walk(os.path.join(root, "src"))):
        for name in sorted(files):
            here = os.path.relpath(os.path.join(folder, name), root)
            if not name.endswith((".c", ".h", ".inc")):
                continue
            with open(os.path.join(root, here), encoding="utf-8") as f:
                text = without_comments(f.read())
            for rule, says in ((ORDER, "compares operations by number"), (BY_HAND, "lists operations by hand")):
                for m in rule.finditer(text):
                    bad.append(f"{here}:{text.count(chr(10), 0, m.start()) + 1}: {says}; ask {TABLE}")
            found = names & set(re.findall(r'"(\w+)"', text))
            if here != TABLE and len(found) > NAMES_MAX:
                needed.add(here)
                if here not in exceptions:
                    bad.append(f"{here}: names {', '.join(sorted(found))}; ask mlw_op_name")
    bad += [f"{here}: is excepted without need" for here in sorted(set(exceptions) - needed)]
    return bad


def self_test():
    """Each rule is seen to fail."""
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src", "format"))
        with open(os.path.join(root, TABLE), "w", encoding="utf-8") as f:
            f.write('    X(MALLOC, 1, "malloc", ...)\n    X(FREE, 10, "free", ...)\n    X(VALLOC, 8, "valloc", ...)\n')

        def complaints(text, exceptions=()):
            path = os.path.join(root, "src", "a.c")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            return len(check(root, exceptions))
        assert complaints("if (op == MLW_OP_FREE || op == MLW_OP_MALLOC) x = op < MLW_OP_COUNT;") == 0
        assert complaints("x = 1u << MLW_OP_FREE | mask >> MLW_OP_FREE; p->op = MLW_OP_FREE; /* < MLW_OP_FREE */") == 0
        for sign in "<", ">", "<=", ">=":
            assert complaints(f"if (op {sign} MLW_OP_FREE)") == 1, sign
            assert complaints(f"if (MLW_OP_FREE {sign} op)") == 1, sign
            assert complaints(f"if (op {sign} (unsigned)MLW_OP_FREE)") == 1, sign
        assert complaints("if (class > MLW_CLASS_RELEASE)") == 1
        assert complaints("case MLW_OP_FREE:\n    case MLW_OP_MALLOC: break;") == 1
        assert complaints("case MLW_OP_FREE: break;\n    case MLW_OP_MALLOC: break;") == 0
        assert complaints("x = op == MLW_OP_FREE || op == MLW_OP_VALLOC ||\n  op == MLW_OP_MALLOC;") == 1
        assert complaints("x = op != MLW_OP_FREE && op != MLW_OP_VALLOC && op != MLW_OP_MALLOC;") == 1
        three = 'char *s[] = {"malloc", "free", "valloc"};'
        assert complaints(three) == 1
        assert complaints(three, [os.path.join("src", "a.c")]) == 0
        assert complaints('char *s[] = {"malloc", "free"};') == 0
        assert complaints("", [os.path.join("src", "a.c")]) == 1


def self_test_of_document():
    table = '    X(MALLOC, 1, "malloc", MLW_F_ALLOC, ALLOC, MALLOC)\n    X(OLD, 2, "realloc(old)", MLW_F_ADDR, R, NONE)\n'
    good = "| 1 | malloc | SK | 2 | realloc, old half (before) | |\n"
    assert check_document(table, good) == []
    for wrong in (good.replace("SK", "S"), good.replace("malloc", "calloc"), good.replace("| 2 |", "| 3 |"), "",
                  good.replace("malloc", "malloc (arg: alignment)")):
        assert check_document(table, wrong), wrong


if __name__ == "__main__":
    self_test()
    self_test_of_document()
    problems = check(sys.argv[1], EXCEPT)
    problems += check_document(read(sys.argv[1], TABLE), read(sys.argv[1], os.path.join("docs", "format.md")))
    print("\n".join(problems + [f"operations: {len(problems)} complaints"]))
    sys.exit(1 if problems else 0)
