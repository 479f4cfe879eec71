"""Walks the include graph of src/ and the symbol tables of the preloaded libraries, and fails on a
border crossed. Usage: borders.py SOURCE_ROOT [BUILD_ROOT]

The tables below are the borders. ARCHITECTURE.md shows them; `borders.py --table` prints its table."""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import circles  # noqa: E402
import processor  # noqa: E402

# Room of src/ -> the rooms of src/ whose headers it may include, besides its own. A room is a folder, or a folder in one
# that has a line of its own here.
MAY_INCLUDE = {
    "format": set(),
    "arch": set(),
    "glibc": set(),
    "preload": {"format", "arch", "glibc"},
    "base": set(),
    "trust": {"base"},
    "limit": {"trust", "base"},
    "trace": {"arch", "format", "trust", "base"},
    "symbol": {"arch", "trust", "base"},
    "remote": {"arch", "format", "symbol", "trust", "base"},
    "inspect": {"arch", "symbol", "base"},
    "model": {"arch", "trace", "base"},
    "analyse": {"arch", "glibc", "model", "trace", "trust", "base"},
    "frames": {"analyse", "model", "trace", "symbol", "base"},
    "bpf": {"arch"},
    "probe": {"arch", "glibc", "bpf", "format", "remote", "symbol", "launch", "base"},
    "show": {"frames", "symbol", "trust", "base"},
    "report": {"show", "frames", "analyse", "model", "trace", "symbol", "probe", "trust", "base"},
    "page": {"report", "show", "frames", "analyse", "model", "trace", "symbol", "trust", "base"},
    "probe/show": {"probe", "show", "frames", "symbol", "bpf", "base"},
    "heap": {"arch", "glibc", "remote", "trust", "format", "trace", "symbol", "base"},
    "heap/show": {"heap", "show", "frames", "trace", "watch", "base"},
    "inject": {"arch", "remote", "format", "symbol", "trust", "base", "limit"},
    "launch": {"base"},
    "record": {"arch", "glibc", "format", "trust", "base", "trace", "launch", "probe", "import", "inject", "limit", "inspect", "remote", "symbol"},
    "import": {"arch", "format", "workload", "trace", "trust", "base"},
    "export": {"arch", "frames", "analyse", "model", "trace", "symbol", "workload", "trust", "base"},
    "fleet": {"push", "show", "stats", "frames", "analyse", "model", "trace", "symbol", "trust", "base"},
    "watch": {"arch", "format", "launch", "limit", "trace", "trust", "base"},
    "watch/view": {"watch", "show", "frames", "analyse", "trace", "symbol", "base"},
    "watch/live": {"watch/view", "watch", "show", "frames", "base"},
    "watch/reach": {"watch", "inject", "inspect", "probe", "trust", "base"},
    "watch/out": {"watch/view", "watch", "serve", "push", "fleet", "export", "limit", "show", "frames", "symbol", "trust", "base"},
    "workload": {"format", "trust", "base", "trace"},
    "replay": {"arch", "format", "glibc", "base", "workload"},
    "stats": set(),
    "compare": {"show", "trust", "base", "replay", "stats"},
    "tune": {"glibc", "show", "trust", "base", "compare", "replay", "stats"},
    "advise": {"analyse", "base", "compare", "model", "replay", "report", "stats", "symbol", "trace", "workload", "frames"},
    "push": {"arch", "trust", "base"},
    "serve": {"base"},
    "doctor": {"inspect", "inject", "probe", "push", "watch", "heap", "show", "base"},
    "cli": {"doctor", "base", "trust", "limit", "inject", "trace", "symbol", "inspect", "model", "analyse", "frames", "show", "report", "page", "export", "import", "record",
            "watch", "watch/view", "watch/live", "watch/reach", "watch/out", "workload", "replay", "stats", "compare", "tune", "advise", "push", "serve", "probe", "probe/show", "bpf", "heap", "heap/show", "fleet"},
}

# The directories, in the order of the way of the data -> what each owns.
OWNS = {
    "format": "rows, chunks, operations, shared memory: the bytes that libraries and tools agree on. Headers only, no libc",
    "arch": "what only one processor understands, a directory for each: `page.h`, `clock.h`, `entry.h` and so on choose. "
            "Headers only",
    "glibc": "what differs between the versions of glibc's malloc, on x86-64: one table. Headers only, no libc",
    "preload": "what runs inside other programs. `guest/`: what its libraries share: the allocator behind, exec, seccomp. "
               "`unwind/`: the stack. `record/`: the recorder and its buffers. `watch/`: sampling, guard pages. "
               "`arenas/`: the state of glibc's arenas. `attach/`: sampling in a process that runs already",
    "base": "errors, buffers, large arrays, human units, `/proc`, text on its way to a terminal, JSON as it is written",
    "trust": "what another user can influence: whether to believe, open, create, replace or remove it",
    "limit": "what bounds the memory of a process from outside it: control groups, pressure, thresholds",
    "trace": "the file. `raw/`: chunks, recovering, merging. `seal/`: from the raw form to the sealed. `sealed/`: columns, "
             "reading and repairing them",
    "symbol": "addresses to names, with inlined frames; demangling",
    "remote": "a process that is looked at, or its core: one image of it, its memory and mappings, its threads stopped, borrowed for calls and let go",
    "model": "batches of events into live blocks, stacks, time",
    "analyse": "the questions that a report answers",
    "frames": "the frames of a stack as people read them; which are an allocator's; patterns, suppressions",
    "show": "how anything is printed: columns and bars of text, JSON documents, files that are whole, the page around a document",
    "report": "a recording, a difference of two and single calls, as text and JSON; why RSS is above the live bytes",
    "page": "a recording or a difference of two as a page for a browser; the page itself is `web/`",
    "inject": "a library into a process that runs: whether it may be, by which thread, and when",
    "launch": "starting a program under a preloaded library so that it is what it would be alone",
    "record": "the parent's side of recording, and control",
    "export": "foreign formats, a file each, and their table",
    "fleet": "recordings of many hosts in one store; what is the same in all of them; questions about all",
    "import": "foreign traces into recordings: raw rows, sealed at the end",
    "watch": "sampled programs: finding and following them, copies of their segments, estimates, what is old",
    "bpf": "what runs in the kernel: a `NAME.bpf.c` and its plain data `NAME.h` for each probe; the kernel's types",
    "probe": "loading, attaching, waiting, adding up; what this machine lacks (`caps.c`)",
    "probe/show": "what a probe counted, as text and JSON",
    "watch/view": "reports of a watch: stacks into sites with names, as text and JSON",
    "watch/live": "the screen of a watch: the terminal, keys, the list of all processes",
    "watch/reach": "which processes a watch reaches: attached to as they run, or heard of by probes",
    "watch/out": "where a watch goes: metrics, OTLP and pprof, in files, to a server, in answers to HTTP",
    "workload": "a recording into a workload: calls by thread on numbered slots; its file",
    "replay": "a workload run against an allocator, measured",
    "stats": "whether measurements differ, by how much, how surely. Pure functions",
    "compare": "a workload against several candidates, in rounds; baselines; the corpus",
    "tune": "the search for settings, and its confirmation; the tables of settings",
    "advise": "what would make RSS smaller: settings that findings suggest, and what each saves in a replay",
    "push": "a file sent to a store by HTTP, whole or in segments, also while it grows; questions to a server",
    "serve": "HTTP on loopback, elsewhere with a token and TLS, answered between other work: who may ask, and bounds",
    "heap": "the heap of a process or core that was not prepared: reading, proving, references, roots, dominators, types",
    "heap/show": "a heap, or the difference of two, as text, JSON and a page",
    "inspect": "what can be known before: whether a program can be recorded, what this machine lacks",
    "doctor": "what works on this machine and of a program: the facts of all parts, and their print",
    "cli": "the table of commands; options; everything that is printed about failure",
}

# Folder -> the only headers of another folder that it may use.
ONLY_THESE = {
    ("model", "trace"): {"trace/trace.h"},
    ("analyse", "trace"): {"trace/trace.h"},
    ("frames", "trace"): {"trace/trace.h"},
    ("report", "trace"): {"trace/trace.h"},
    ("page", "trace"): {"trace/trace.h"},
    ("heap/show", "heap"): {"heap/heap.h"},
    ("heap/show", "trace"): {"trace/trace.h"},
    ("watch/view", "trace"): {"trace/trace.h"},
    ("export", "trace"): {"trace/trace.h"},
    ("import", "trace"): {"trace/trace.h"},
    ("import", "workload"): {"workload/djmalloc_order.h", "workload/djmalloc_record.h"},
    ("export", "workload"): {"workload/djmalloc_record.h"},
    ("record", "trace"): {"trace/trace.h"},
    ("record", "probe"): {"probe/probe.h"},
    ("record", "import"): {"import/rows.h"},
    ("record", "inject"): {"inject/inject.h", "inject/reasons.h"},
    ("record", "remote"): {"remote/handle.h"},
    ("watch", "trace"): {"trace/trace.h"},
    ("heap", "trace"): {"trace/trace.h"},
    ("cli", "heap"): {"heap/heap.h"},
    ("cli", "inject"): {"inject/inject.h"},
    ("doctor", "heap"): {"heap/heap.h"},
    ("doctor", "inject"): {"inject/inject.h"},
    ("doctor", "probe"): {"probe/caps.h"},
    ("watch/reach", "inject"): {"inject/inject.h"},
    ("watch/reach", "probe"): {"probe/probe.h", "probe/caps.h", "probe/samples.h"},
    ("watch/out", "fleet"): {"fleet/fleet.h"},
    ("inject", "symbol"): {"symbol/program.h"},
    ("remote", "symbol"): {"symbol/program.h", "symbol/unwindrows.h"},
    ("remote", "format"): {"format/attach.h"},
    ("inject", "format"): {"format/attach.h"},
    ("fleet", "trace"): {"trace/trace.h"},
    ("cli", "fleet"): {"fleet/fleet.h"},
    ("workload", "trace"): {"trace/trace.h"},
    ("cli", "trace"): {"trace/trace.h"},
    ("probe", "format"): {"format/arenas.h", "format/chunk.h", "format/op.h"},
    ("report", "probe"): {"probe/arenas.h"},
    ("probe/show", "bpf"): {"bpf/key.h"},
    ("probe/show", "probe"): {"probe/probe.h", "probe/arenas.h"},
    ("cli", "bpf"): {"bpf/key.h"},
    ("compare", "replay"): {"replay/run.h"},
    ("tune", "replay"): {"replay/run.h"},
    ("advise", "replay"): {"replay/run.h"},
    ("advise", "report"): {"report/explained.h", "report/report.h"},
    ("advise", "trace"): {"trace/trace.h"},
    ("cli", "probe"): {"probe/probe.h", "probe/caps.h", "probe/samples.h"},
}

# Headers of libraries -> the folders that may know the library.
LIBRARIES = [
    (re.compile(r"^(elfutils/|libelf|gelf|dwarf|libdw)"), {"symbol", "inspect"}),
    (re.compile(r"^bpf/(bpf|libbpf)\.h"), {"probe"}),
    (re.compile(r"^bpf/bpf_"), {"bpf"}),
    (re.compile(r"^zstd"), {"heap", "import", "trace", "workload"}),
    (re.compile(r"^zlib"), {"export", "import", "page", "show"}),
    (re.compile(r"^sqlite3"), {"export", "fleet"}),
    (re.compile(r"^curl/"), {"push"}),
    (re.compile(r"^json-c/"), {"doctor", "compare", "fleet", "tune", "report", "show", "cli"}),
]

LIBRARY_NAMES = ["elfutils", "libbpf", "libbpf's headers for the kernel", "zstd", "zlib", "SQLite",
                 "libcurl (loaded when something is pushed)", "json-c"]

# format/ lives inside other people's programs: nothing but types.
FORMAT_SYSTEM_HEADERS = {"stdint.h", "stddef.h", "stdbool.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


BEGIN, END = "<!-- borders -->\n", "<!-- /borders -->\n"


def table():
    """The directories as Markdown."""
    lines = ["| directory | owns | includes |", "| --- | --- | --- |"]
    for name, owns in OWNS.items():
        may = []
        for other in sorted(MAY_INCLUDE[name]):
            only = ONLY_THESE.get((name, other))
            may += sorted(f"`{header}`" for header in only) if only else [f"`{other}/`"]
        shown = ", ".join(may) if name != "cli" else "public headers of all others"
        lines.append(f"| `src/{name}/` | {owns} | {shown or 'nothing'} |")
    lines += ["", "Libraries have borders as well.", "", "| library | used by |", "| --- | --- |"]
    lines += [f"| {LIBRARY_NAMES[i]} | {', '.join(f'`{f}/`' for f in sorted(folders))} |"
              for i, (_, folders) in enumerate(LIBRARIES)]
    return "\n".join(lines) + "\n"


def check_table(root):
    """ARCHITECTURE.md shows these tables, and no directory is missing from them."""
    bad = [f"src/{name} is in no table of borders.py" for name in sorted(os.listdir(os.path.join(root, "src")))
           if os.path.isdir(os.path.join(root, "src", name)) and (name not in OWNS or name not in MAY_INCLUDE)]
    with open(os.path.join(root, "ARCHITECTURE.md"), encoding="utf-8") as f:
        text = f.read()
    if BEGIN + table() + END not in text:
        bad.append("ARCHITECTURE.md: its table is another; put in the output of borders.py --table")
    return bad


def room(path):
    """The room of a path below src/."""
    parts = path.split(os.sep)
    return "/".join(parts[:2]) if "/".join(parts[:2]) in MAY_INCLUDE else parts[0]


def sources(root):
    for folder, _, names in sorted(os.walk(os.path.join(root, "src"))):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".inc", ".def")):
                yield os.path.join(folder, name)


def check_includes(root):
    """Returns a list of complaints."""
    bad = []
    src = os.path.join(root, "src")
    count = 0
    for path in sources(root):
        here = os.path.relpath(path, src)
        area = room(here)
        count += 1
        if area not in MAY_INCLUDE:
            bad.append(f"src/{here}: folder '{area}' is not in the table of borders")
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for bracket, name in INCLUDE.findall(text):
            bad += [f"src/{here}: {why}" for why in judge(root, path, area, bracket, name)]
    if count == 0:
        bad.append(f"no sources under {src}")
    return bad


def judge(root, path, area, bracket, name):
    """The complaints about one #include."""
    src = os.path.join(root, "src")
    if name.endswith(".c"):
        yield f"includes {name}: a .c file is not a header"
    target = None
    for base in (os.path.dirname(path), src, os.path.join(root, "include")):
        candidate = os.path.normpath(os.path.join(base, name))
        if os.path.exists(candidate):
            target = candidate
            break
    if bracket == "<" or target is None:
        if bracket == '"' and target is None:
            yield f"includes \"{name}\", which is not there"
        if area == "format" and name not in FORMAT_SYSTEM_HEADERS:
            yield f"includes <{name}>; format/ may use {', '.join(sorted(FORMAT_SYSTEM_HEADERS))} only"
        for pattern, folders in LIBRARIES:
            if pattern.match(name) and area not in folders:
                yield f"includes <{name}>, which only {', '.join(sorted(folders))} may know"
        return
    if not target.startswith(src + os.sep):
        return  # include/mallow.h: public, everybody's
    header = os.path.relpath(target, src)
    other = room(header)
    if other == area:
        return
    if other not in MAY_INCLUDE[area]:
        allowed = ", ".join(sorted(MAY_INCLUDE[area])) or "nothing"
        yield f"includes {header}; {area}/ may include {allowed}"
    elif header not in ONLY_THESE.get((area, other), {header}):
        yield f"includes {header}; of {other}/ {area}/ may include {', '.join(sorted(ONLY_THESE[area, other]))}"


# ---- the preloaded library ----

HERE = os.path.dirname(os.path.abspath(__file__))


FUNCTIONS = os.path.join(HERE, "..", "..", "src", "preload", "guest", "functions.h")


def table_of_functions(text, name):
    """The functions of one list of functions.h; fails when it has none."""
    lines = re.search(rf"^#define {name}\(X\)((?:.*\\\n)*.*)", text, re.M)
    names = re.findall(r"\bX\([^,]+,\s*(\w+)", lines[1]) if lines else []
    if not names:
        raise ValueError(f"{FUNCTIONS}: {name} cannot be read")
    return set(names)


def read_list(path):
    """The words of a list; @NAME stands for a list of functions.h."""
    with open(path, encoding="utf-8") as f:
        words = {word for line in f for word in line.split("#")[0].split()}
    with open(FUNCTIONS, encoding="utf-8") as f:
        text = f.read()
    for name in [w for w in words if w.startswith("@")]:
        words = words - {name} | table_of_functions(text, name[1:])
    return words


def nm(library, *options):
    out = subprocess.run(["nm", "-D", *options, library], check=True, capture_output=True, text=True).stdout
    # "ADDRESS T name@@VERSION" or "U name@VERSION": the name is last.
    return {line.split()[-1].split("@")[0]: line.split()[-2] for line in out.splitlines() if line.split()}


def needed_libraries(library):
    out = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", out)


def interposable(library, defined):
    """The library's own symbols that its code finds by name: a program may define one of that name."""
    out = subprocess.run(["readelf", "-rW", library], check=True, capture_output=True, text=True).stdout
    # "OFFSET INFO TYPE VALUE NAME@VERSION + ADDEND"
    named = re.findall(r"^[0-9a-f]+ +[0-9a-f]+ +R_X86_64_\w+ +[0-9a-f]+ +([^\s@]+)", out, re.M)
    return sorted(set(named) & set(defined))


def check_library(library, exports=None, allowed=None):
    """Returns a list of complaints. exports: exactly what it must export; allowed: what it may need."""
    exports = read_list(os.path.join(HERE, "preload-exports.txt")) if exports is None else exports
    allowed = read_list(os.path.join(HERE, "preload-needs.txt")) if allowed is None else allowed
    name = os.path.basename(library)
    if not os.path.exists(library):
        return [f"{library} was not built"]
    defined, undefined = nm(library, "--defined-only"), nm(library, "--undefined-only")
    bad = [f"{name} exports {s}, which is not on the list of exports" for s in sorted(set(defined) - exports)]
    bad += [f"{name} does not export {s}" for s in sorted(exports - set(defined))]
    bad += [f"{name} needs {s}, which is not on the list of allowed symbols"
            for s in sorted(set(undefined) - allowed)]
    bad += [f"{name} finds its own {s} by a name that a program may define: call entry_{s}"
            for s in interposable(library, defined)]
    bad += [f"{name} is linked with {l}; only libc and the loader are allowed"
            for l in needed_libraries(library) if l not in ("libc.so.6", "ld-linux-x86-64.so.2")]
    return bad


def main():
    if sys.argv[1:] == ["--table"]:
        sys.stdout.write(table())
        return 0
    root = os.path.abspath(sys.argv[1])
    bad = check_includes(root) + check_table(root) + processor.check(root) + circles.check(root)
    if len(sys.argv) > 2:
        folder = os.path.join(sys.argv[2], "lib")
        bad += check_library(os.path.join(folder, "libmallow-record.so"))
        bad += check_library(os.path.join(folder, "libmallow-watch.so"),
                             exports=read_list(os.path.join(HERE, "watch-exports.txt")),
                             allowed=read_list(os.path.join(HERE, "watch-needs.txt")))
        bad += check_library(os.path.join(folder, "libmallow-attach.so"),
                             exports=read_list(os.path.join(HERE, "attach-exports.txt")),
                             allowed=read_list(os.path.join(HERE, "attach-needs.txt")))
        bad += check_library(os.path.join(folder, "libmallow-attach-record.so"),
                             exports=read_list(os.path.join(HERE, "attach-record-exports.txt")),
                             allowed=read_list(os.path.join(HERE, "attach-record-needs.txt")))
        bad += check_library(os.path.join(folder, "libmallow-arenas.so"),
                             exports=read_list(os.path.join(HERE, "arenas-exports.txt")),
                             allowed=read_list(os.path.join(HERE, "arenas-needs.txt")))
    for line in bad:
        print(line)
    print(f"borders: {len(bad)} crossed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
