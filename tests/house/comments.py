"""Comments name what exists. In the comments of src/: a file with one of our suffixes is in the tree, a
name with an underscore is an identifier of some code here or is listed below with its owner, and a
header that lists the files of its library lists all of them. Usage: comments.py SOURCE_ROOT"""
import fnmatch
import os
import re
import sys

# Names of DWARF, glibc, the compiler and the kernel that comments mention and no code here uses.
FOREIGN = set("""
def_cfa def_cfa_offset_sf def_cfa_register def_cfa_sf offset_extended offset_extended_sf plus_uconst
remember_state restore_state set_loc val_expression val_offset val_offset_sf
have_fastchunks heap_info last_remainder malloc_state max_n_mmaps mmapped_mem n_mmaps n_mmaps_max no_dyn_threshold
memory_heap_new malloc_1 type_info __libc_start_main_impl
bpf_attach_uprobe bpf_attr drop_caches epoll_pwait2 rt_sigframe rt_sigprocmask strict_string_checks
""".split())

FOREIGN_FILES = set("""
cp-demangle.c cplus-dem.c d-demangle.c rust-demangle.c dwarf.h linux/pidfd.h sys/ptrace.h sys/sdt.h mem.c
""".split())

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
NAME = re.compile(r"(?<![\w/.*%$<:-])([a-z_][a-z0-9]*_[a-z0-9_]*[a-z0-9])(?![\w*.-])(?!/)")
FILE = re.compile(r"(?<![\w*.])((?:[\w-]+/)*[a-z][\w-]*(?:\.bpf)?\.(?:c|h|py|inc|tsx?))(?!\w)")
MAP = re.compile(r"^ \*   ([\w*/]+\.c)  +\S", re.M)


def files(root, *directories):
    for directory in directories:
        for path, folders, names in os.walk(os.path.join(root, directory)):
            folders[:] = [f for f in folders if f not in ("node_modules", "dist", "__pycache__")]
            for name in names:
                yield os.path.join(path, name)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def exists(name, paths):
    """NAME stands for any."""
    if "NAME" in name:
        return bool(fnmatch.filter(paths, "*/" + name.replace("NAME", "*")))
    return any(p == name or p.endswith("/" + name) for p in paths)


def in_map(path, listed):
    """Complaints about a header's list of files: whole for its own directory, or for the one that it names."""
    for part in sorted({os.path.dirname(name) for name in listed}):
        here = {os.path.join(part, n) for n in os.listdir(os.path.join(os.path.dirname(path), part)) if n.endswith(".c")}
        names = [name for name in listed if os.path.dirname(name) == part]
        for name in names:
            if not fnmatch.filter(here, name):
                yield f"lists {name}, which is not there"
        for name in sorted(here):
            if not any(fnmatch.fnmatch(name, pattern) for pattern in names):
                yield f"does not list {name}"


def faults(text, known, paths):
    for m in COMMENT.finditer(text):
        comment, line = m.group(), text.count("\n", 0, m.start()) + 1
        for n in FILE.finditer(comment):
            if not exists(n.group(1), paths) and n.group(1) not in FOREIGN_FILES:
                yield line + comment.count("\n", 0, n.start()), f"there is no file {n.group(1)}"
        for n in NAME.finditer(comment):
            if n.group(1) not in known and n.group(1) not in FOREIGN:
                yield line + comment.count("\n", 0, n.start()), f"there is no {n.group(1)}"


def check_itself():
    paths = {"src/a/b.c"}
    bad = ["/* see c.c */", "/* b.c calls no_such_name */", "// gone_name()"]
    good = ["/* see b.c and a/b.c */", "/* known_name */", "int no_such_name; /* fine */"]
    for text in bad:
        assert list(faults(text, {"known_name"}, paths)), f"passes: {text}"
    for text in good:
        assert not list(faults(text, {"known_name"}, paths)), f"does not pass: {text}"


def main(root):
    check_itself()
    everything = [os.path.relpath(p, root) for p in files(root, "src", "tests", "bench", "include", "web", "scripts")]
    paths, known = set(everything), set()
    for path in everything:
        if path.endswith((".c", ".h", ".inc", ".py", ".def", ".build", ".ts", ".tsx")):
            text = read(os.path.join(root, path))
            known.update(IDENTIFIER.findall(COMMENT.sub(" ", text) if path.startswith("src/") else text))
    bad = 0
    for path in sorted(p for p in paths if p.startswith("src/") and p.endswith((".c", ".h", ".inc"))):
        if path == "src/bpf/vmlinux.h":
            continue
        text = read(os.path.join(root, path))
        found = list(faults(text, known, paths))
        listed = MAP.findall(text)
        if path.endswith(".h") and len(listed) > 3:
            found += [(1, why) for why in in_map(os.path.join(root, path), listed)]
        for line, why in found:
            bad += 1
            print(f"{path}:{line}: {why}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
